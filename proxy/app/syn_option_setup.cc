#include "app/syn_option_setup.h"

#include <utility>

#include "base/fallback.h"
#include "bpf/tcp_option.h"

namespace fairlead {
namespace {

using Mode = config::OptionProgram;

admin::Fact missing_fact(const config::Config& config, std::string text) {
  admin::Fact fact;
  fact.name = admin::kFactOptionProgram;
  fact.status = config.smc.assume.empty() ? admin::FactStatus::kFail : admin::FactStatus::kWarn;
  fact.text = std::move(text);
  fact.fix = std::string(fallback_info(FallbackReason::kNoOptionProgram).hint);
  return fact;
}

}  // namespace

Result<SynOptionSetup> choose_option_program(const config::Config& config) {
  SynOptionSetup choice;
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
  // Needed without SMC too: a peer that saw the option awaits a Decline.
  const Result<bool> external = bpf::probe_external();
  if (external && *external) {
    choice.source = relay::OptionSource::kExternal;
    choice.fact = external_fact(config, true);
    return choice;
  }
  if (!config.smc.enabled) {
    choice.fact.text = "not used, by configuration";
    return choice;
  }
  choice.fact = mode == Mode::kExternal
                    ? external_fact(config, false)
                    : missing_fact(config, "cannot attach: " + to_string(refusal));
  return choice;
}

bool may_change(const config::Config& config, const SynOptionSetup& choice) {
  return choice.source != relay::OptionSource::kOwn && config.smc.enabled &&
         config.smc.option_program != Mode::kNone;
}

admin::Fact external_fact(const config::Config& config, bool attached) {
  if (!attached) return missing_fact(config, "no program writes the option for our sockets");
  admin::Fact fact;
  fact.name = admin::kFactOptionProgram;
  fact.text = "attached by the node side";
  return fact;
}

void SynOptionWatch::run() {
  while (thread_.wait_until(std::chrono::steady_clock::now() + kOptionProbeInterval)) {
    const Result<bool> external = bpf::probe_external();
    if (external && *external != attached_ && changed_(*external)) attached_ = *external;
  }
}

}  // namespace fairlead
