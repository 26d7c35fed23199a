// What writes the SMC option for our sockets: chosen at the start, and looked for again where there
// was nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "admin/sources.h"
#include "base/result.h"
#include "base/time.h"
#include "bpf/option_program.h"
#include "config/config.h"
#include "relay/socket_network.h"

namespace fairlead {

inline constexpr Duration kOptionProbeInterval = std::chrono::seconds(5);

struct OptionChoice {
  relay::OptionSource source = relay::OptionSource::kNone;
  std::optional<bpf::OptionProgram> program;
  admin::Fact fact;  // what to tell about it
};

// Blocks for a moment. Errors: what kept us from attaching, where the configuration insists on it.
Result<OptionChoice> choose_option_program(const config::Config& config);

// True when the node side may still attach a program: it repairs pods that were started before it.
bool may_appear(const config::Config& config, const OptionChoice& choice);
admin::Fact appeared_fact();

// A thread that probes until a program writes the option.
class OptionWatch {
 public:
  // `appeared` is called on the watch's thread, again after an interval while it returns false.
  explicit OptionWatch(std::function<bool()> appeared);
  ~OptionWatch();

 private:
  void run();

  std::function<bool()> appeared_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace fairlead
