#include "option_choice.h"

#include <utility>

#include "base/fallback.h"
#include "bpf/tcp_option.h"

namespace fairlead {
namespace {

using Mode = config::OptionProgram;

constexpr const char* kByNodeSide = "attached by the node side";

}  // namespace

Result<OptionChoice> choose_option_program(const config::Config& config) {
  OptionChoice choice;
  choice.fact.name = admin::kFactOptionProgram;
  const Mode mode = config.smc.option_program;
  if (mode == Mode::kNone) {
    choice.fact.text = "not used, by configuration";
    return choice;
  }
  Error refusal{};
  if (mode != Mode::kExternal && config.smc.enabled) {
    Result<bpf::OptionProgram> program = bpf::OptionProgram::attach();
    if (program) {
      choice.source = relay::OptionSource::kOwn;
      choice.program.emplace(std::move(*program));
      choice.fact.text = "attached to our own cgroup";
      return choice;
    }
    refusal = program.error();
    if (mode == Mode::kAttach) return refusal;
  }
  // Without SMC too: whoever saw the option awaits a Decline.
  const Result<bool> external = bpf::probe_external();
  if (external && *external) {
    choice.source = relay::OptionSource::kExternal;
    choice.fact.text = kByNodeSide;
    return choice;
  }
  if (!config.smc.enabled) {
    choice.fact.text = "not used, by configuration";
    return choice;
  }
  choice.fact.status =
      config.smc.assume.empty() ? admin::FactStatus::kFail : admin::FactStatus::kWarn;
  choice.fact.text = mode == Mode::kExternal ? "no program writes the option for our sockets"
                                             : "cannot attach: " + to_string(refusal);
  choice.fact.fix = std::string(fallback_info(FallbackReason::kNoOptionProgram).hint);
  return choice;
}

bool may_appear(const config::Config& config, const OptionChoice& choice) {
  return choice.source == relay::OptionSource::kNone && config.smc.enabled &&
         config.smc.option_program != Mode::kNone;
}

admin::Fact appeared_fact() {
  admin::Fact fact;
  fact.name = admin::kFactOptionProgram;
  fact.text = kByNodeSide;
  return fact;
}

OptionWatch::OptionWatch(std::function<bool()> appeared)
    : appeared_(std::move(appeared)), thread_([this] { run(); }) {}

OptionWatch::~OptionWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_one();
  thread_.join();
}

void OptionWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kOptionProbeInterval, [this] { return stopped_; })) {
    lock.unlock();
    const Result<bool> external = bpf::probe_external();
    if (external && *external && appeared_()) return;
    lock.lock();
  }
}

}  // namespace fairlead
