#include "cni/plugin/plugin_log.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "base/linux/unix_socket.h"
#include "base/utc_time.h"

namespace fairlead::cni {
namespace {

// Drops the line if the node side does not run or is too slow.
void relay(const std::string& path, std::string_view line) {
  const auto address = UnixAddress::of_path(path);
  if (!address) return;
  const auto socket = make_unix_socket(SOCK_DGRAM);
  if (!socket) return;
  (void)::sendto(socket->get(), line.data(), line.size(), MSG_NOSIGNAL, address->data(),
                 address->size());
}

}  // namespace

PluginLog::PluginLog(const NodeConfig& config, const Request& request)
    : level_(config.log_level), socket_path_(config.run_dir + "/" + kLogSocketName) {
  about_["command"] = to_string(request.verb);
  if (!request.attachment.container_id.empty()) {
    about_["container"] = request.attachment.container_id;
    about_["interface"] = request.attachment.ifname;
  }
  for (const auto& [key, name] :
       {std::pair{"K8S_POD_NAMESPACE", "namespace"}, std::pair{"K8S_POD_NAME", "pod"}})
    if (auto value = request.argument(key); !value.empty()) about_[name] = std::move(value);
}

void PluginLog::write(PluginLogLevel level, std::string_view event, Json fields) const {
  if (level < level_) return;
  constexpr std::array<const char*, 4> kNames = {"debug", "info", "warn", "error"};
  Json line = about_;
  line["time"] = utc_text(std::chrono::system_clock::now());
  line["level"] = kNames[static_cast<std::size_t>(level)];
  line["logger"] = "cni";
  line["event"] = event;
  line.update(fields);
  std::string text = to_ascii_text(line);
  // A cut line would be invalid JSON. Only the text of an error can be this long.
  if (text.size() > kLogLineBytesMax) {
    line = {{"event", event}, {"level", kNames[static_cast<std::size_t>(level)]}, {"cut", true}};
    text = to_ascii_text(line);
  }
  text += "\n";
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  relay(socket_path_, text);
}

}  // namespace fairlead::cni
