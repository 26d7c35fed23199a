// Explores the memory of the shared-memory device under weak memory. docs/verification.md
//
//     memory_order [scenario …]
//
// All scenarios and all mutants without an argument. The last line is
// "memory_order: OK scenarios=N interleavings=N mutants_refused=N".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/assert.h"
#include "mutants.h"
#include "scenarios.h"

namespace {

using explore::Explorer;
using explore::Scenario;
using explore::Scenarios;
using explore::Verdict;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

Scenario* find(const Scenarios& scenarios, std::string_view name) {
  const auto found = std::find_if(scenarios.begin(), scenarios.end(),
                                  [&](const auto& one) { return one->name() == name; });
  return found == scenarios.end() ? nullptr : found->get();
}

// True when it holds.
bool check(Scenario& scenario, std::uint64_t& interleavings) {
  const auto begun = Clock::now();
  const Verdict verdict = Explorer::get().explore(scenario, nullptr, true);
  interleavings += verdict.interleavings;
  std::printf("memory_order: %s: %llu interleavings, %llu to their end: %s (%.1f s)\n",
              scenario.name(), static_cast<unsigned long long>(verdict.interleavings),
              static_cast<unsigned long long>(verdict.complete),
              verdict.failed ? verdict.reason.c_str() : "holds", seconds_since(begun));
  if (verdict.failed)
    std::printf("  switches between threads that could go on: %u\n", verdict.switches);
  for (const std::string& line : verdict.trace) std::printf("    %s\n", line.c_str());
  (void)std::fflush(stdout);
  return !verdict.failed;
}

// True when it is refused.
bool check(const explore::Mutant& mutant, Scenario& scenario) {
  const auto begun = Clock::now();
  const Verdict verdict = Explorer::get().explore(scenario, &mutant, false);
  std::printf("memory_order: mutant: %s: %s%s%s (%llu interleavings, %.1f s)\n", mutant.name,
              verdict.failed ? "" : "FAILED, passes ", scenario.name(),
              verdict.failed ? (": " + verdict.reason).c_str() : "",
              static_cast<unsigned long long>(verdict.interleavings), seconds_since(begun));
  (void)std::fflush(stdout);
  return verdict.failed;
}

int usage(const char* wrong, const Scenarios& scenarios) {
  (void)std::fprintf(stderr, "memory_order: scenario: '%s' is not there; allowed:", wrong);
  for (const auto& scenario : scenarios) (void)std::fprintf(stderr, " %s", scenario->name());
  (void)std::fputs("\n", stderr);
  return 2;
}

}  // namespace

namespace fairlead::detail {

// An assertion of the code under test ends the execution, and the scenario has failed.
void assertion_failed(const char* expression, const char* file, int line, const char*,
                      const std::uint64_t*, unsigned) noexcept {
  Explorer::get().fail(std::string("assertion ") + expression + ", " + file + ":" +
                       std::to_string(line));
  std::abort();
}

}  // namespace fairlead::detail

int main(int argc, char** argv) {
  Scenarios scenarios;
  explore::add_ring_scenarios(scenarios);
  explore::add_channel_scenarios(scenarios);
  std::vector<Scenario*> chosen;
  for (int i = 1; i < argc; ++i) {
    Scenario* const scenario = find(scenarios, argv[i]);
    if (scenario == nullptr) return usage(argv[i], scenarios);
    chosen.push_back(scenario);
  }
  if (argc == 1)
    for (const auto& scenario : scenarios) chosen.push_back(scenario.get());

  unsigned programs = 0;
  unsigned failed = explore::check_litmus(programs);
  std::printf("memory_order: litmus: %u programs, %u wrong\n", programs, failed);
  std::uint64_t interleavings = 0;
  for (Scenario* const scenario : chosen) failed += check(*scenario, interleavings) ? 0U : 1U;
  unsigned refused = 0;
  for (const explore::Mutant& mutant : explore::mutants()) {
    Scenario* const scenario = find(scenarios, mutant.scenario);
    if (std::find(chosen.begin(), chosen.end(), scenario) == chosen.end()) continue;
    if (check(mutant, *scenario))
      ++refused;
    else
      ++failed;
  }
  std::printf("memory_order: %s scenarios=%zu interleavings=%llu mutants_refused=%u\n",
              failed == 0 ? "OK" : "FAILED", chosen.size(),
              static_cast<unsigned long long>(interleavings), refused);
  return failed == 0 ? 0 : 1;
}
