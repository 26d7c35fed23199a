// Log of the plugin: one JSON object a line on standard error, which runtimes keep. The node side's
// log socket gets the same, for `kubectl logs`. Writing never blocks.
#pragma once

#include <string>
#include <string_view>

#include "cni/plugin/node_config.h"
#include "cni/plugin/request.h"

namespace fairlead::cni {

inline constexpr const char* kLogSocketName = "log.sock";  // in runDir, SOCK_DGRAM
inline constexpr std::size_t kLogLineBytesMax = 4096;

class PluginLog {
 public:
  // `run_dir`: folder of the socket, which is opened at the first line.
  PluginLog(const NodeConfig& config, const Request& request);

  void debug(std::string_view event, Json fields = Json::object()) const {
    write(PluginLogLevel::kDebug, event, std::move(fields));
  }
  void info(std::string_view event, Json fields = Json::object()) const {
    write(PluginLogLevel::kInfo, event, std::move(fields));
  }
  void warn(std::string_view event, Json fields = Json::object()) const {
    write(PluginLogLevel::kWarn, event, std::move(fields));
  }
  void error(std::string_view event, Json fields = Json::object()) const {
    write(PluginLogLevel::kError, event, std::move(fields));
  }

 private:
  void write(PluginLogLevel level, std::string_view event, Json fields) const;

  PluginLogLevel level_;
  std::string socket_path_;
  Json about_;  // the same in every line
};

}  // namespace fairlead::cni
