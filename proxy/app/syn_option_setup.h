// What writes the SMC option for our sockets: chosen at the start, and looked at again where that
// is somebody else's business.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "admin/sources.h"
#include "base/linux/service_thread.h"
#include "base/result.h"
#include "base/time.h"
#include "bpf/option_program.h"
#include "config/config.h"
#include "relay/worker/socket_network.h"

namespace fairlead {

inline constexpr Duration kOptionProbeInterval = std::chrono::seconds(5);

struct SynOptionSetup {
  relay::OptionSource source = relay::OptionSource::kNone;
  std::optional<bpf::OptionProgram> program;
  admin::Fact fact;  // what to tell about it
};

// Blocks for a moment. Errors: what kept us from attaching, where the configuration insists on it.
Result<SynOptionSetup> choose_option_program(const config::Config& config);

// True when the node side may attach a program or take its own away, while we run: it repairs pods
// that were started before it, and can be uninstalled.
bool may_change(const config::Config& config, const SynOptionSetup& choice);
admin::Fact external_fact(const config::Config& config, bool attached);

// A thread that probes at intervals, for as long as it lives.
class SynOptionWatch {
 public:
  // `changed` is called on the watch's thread, again after an interval while it returns false.
  SynOptionWatch(bool attached, std::function<bool(bool attached)> changed)
      : attached_(attached), changed_(std::move(changed)) {}
  // Errors: of ServiceThread::start().
  Result<void> start() {
    return thread_.start([this] { run(); });
  }

 private:
  void run();

  bool attached_;
  std::function<bool(bool)> changed_;
  ServiceThread thread_;
};

}  // namespace fairlead
