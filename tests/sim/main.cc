// Runs simulations, one a seed, and prints failed seeds with the last events.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "sim/cluster.h"
#include "sim/event_file.h"
#include "smc/group/rmb_keys.h"

#if defined(FAIRLEAD_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

using fairlead::sim::Digest;
using fairlead::sim::EventFile;
using fairlead::sim::Outcome;
using fairlead::sim::World;

struct Options {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 100;
  std::string list;
  std::size_t lines = 60;
  bool trace = false;
  bool quiet = false;
  bool digest = false;
  std::string events;
};

std::uint64_t running_seed = 0;
World* running_world = nullptr;
std::size_t lines_wanted = 60;

void report(std::uint64_t seed, const World& world, const char* what) {
  std::fprintf(stderr, "\nseed %" PRIu64 " failed: %s\nthe last that happened:\n", seed, what);
  world.write_trace(stderr, lines_wanted);
  std::fprintf(stderr, "again: simulate --seeds 1 --first-seed %" PRIu64 " --trace\n", seed);
}

// An assertion or a sanitizer ends the process in the middle of a run.
void report_death() {
  if (running_world != nullptr) report(running_seed, *running_world, "the program died");
  running_world = nullptr;
}

void on_abort(int) {
  report_death();
  ::signal(SIGABRT, SIG_DFL);
  ::raise(SIGABRT);
}

void record_log_line(std::string_view line) {
  if (Digest* digest = running_world == nullptr ? nullptr : running_world->record("log"))
    digest->text(line);
}

struct Sum {
  std::uint64_t steps = 0, connections = 0, over_smc = 0, moved = 0, continuations = 0;
  std::uint64_t speakers_v1 = 0, speakers_v2 = 0, refused = 0, tcp_for_memory = 0;
  std::array<std::size_t, fairlead::smc::kLinksMax + 1> by_links{};  // runs; none to kLinksMax
};

void print_sum(const Sum& sum, std::size_t seeds, std::size_t failed, const Options& options) {
  std::FILE* const out = options.digest ? stderr : stdout;
  std::fprintf(out,
               "%s%zu seeds, %zu failed; %" PRIu64 " connections, %" PRIu64
               " ends over SMC-R, %" PRIu64 " moved, %" PRIu64 " steps; most links",
               options.quiet ? "" : "\r", seeds, failed, sum.connections, sum.over_smc, sum.moved,
               sum.steps);
  for (std::size_t links = 0; links < sum.by_links.size(); ++links)
    std::fprintf(out, " %zu: %zu%s", links, sum.by_links[links],
                 links + 1 < sum.by_links.size() ? "," : "");
  std::fprintf(out,
               "; %" PRIu64 " continuations; queue pairs %" PRIu64 " of version 1, %" PRIu64
               " of version 2; for want of memory %" PRIu64 " refused, %" PRIu64 " TCP\n",
               sum.continuations, sum.speakers_v1, sum.speakers_v2, sum.refused,
               sum.tcp_for_memory);
}

bool run(std::uint64_t seed, const Options& options, EventFile* events, Sum& sum) {
  World world(seed);
  world.events = events;
  if (events != nullptr) events->seed(seed);
  world.print_trace = options.trace;
  if (options.digest) world.digest.emplace().print_records = options.trace;
  running_seed = seed;
  running_world = &world;
  const Outcome outcome = fairlead::sim::simulate(world);
  running_world = nullptr;
  if (options.digest)
    std::printf("%" PRIu64 " %016" PRIx64 "\n", seed, world.digest->begin("end", {}).value());
  sum.steps += outcome.steps;
  sum.connections += outcome.connections;
  sum.over_smc += outcome.over_smc;
  sum.moved += outcome.moved;
  sum.continuations += outcome.continuations;
  ++sum.by_links[outcome.links_most];
  sum.speakers_v1 += outcome.speakers_v1;
  sum.speakers_v2 += outcome.speakers_v2;
  sum.refused += outcome.refused;
  sum.tcp_for_memory += outcome.tcp_for_memory;
  if (!outcome.failure) return true;
  report(seed, world, outcome.failure->c_str());
  return false;
}

// One seed a line; what follows a # is a comment.
bool read_list(const std::string& path, std::vector<std::uint64_t>& seeds) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    std::size_t end = 0;
    const std::uint64_t seed = std::stoull(line, &end);
    if (line.find_first_not_of(" \t", end) != std::string::npos) return false;
    seeds.push_back(seed);
  }
  return file.eof();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Simulates whole proxies under a virtual clock, one run a seed."};
  app.add_option("--seeds", options.seeds, "how many")->capture_default_str();
  app.add_option("--first-seed", options.first_seed, "the first of them")->capture_default_str();
  app.add_option("--list", options.list, "first the seeds of this file")->check(CLI::ExistingFile);
  app.add_option("--lines", options.lines, "lines of the trace shown after a failure")
      ->capture_default_str();
  app.add_flag("--trace", options.trace, "print what happens, and the proxies' logs");
  app.add_flag("--quiet", options.quiet, "print no progress");
  app.add_flag("--digest", options.digest,
               "print a hash over the behaviour of each run, for scripts/digests.py; with --trace, "
               "also after each record");
  app.add_option("--events", options.events,
                 "write what queue pairs and streams do to this file (tests/sim/event_file.h)");
  CLI11_PARSE(app, argc, argv);
  lines_wanted = options.lines;
  const bool logs = options.trace || options.digest;
  fairlead::log_start(logs ? fairlead::LogLevel::kDebug : fairlead::LogLevel::kOff,
                      fairlead::LogFormat::kLogfmt);
  if (options.digest) fairlead::log_set_receiver(record_log_line);
  ::signal(SIGABRT, on_abort);
#if defined(FAIRLEAD_ADDRESS_SANITIZER)
  __sanitizer_set_death_callback(report_death);
#endif
  std::vector<std::uint64_t> seeds;
  if (!options.list.empty() && !read_list(options.list, seeds)) {
    std::fprintf(stderr, "%s: a line is not a seed\n", options.list.c_str());
    return 64;
  }
  for (std::uint64_t i = 0; i < options.seeds; ++i) seeds.push_back(options.first_seed + i);

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, &std::fclose);
  std::optional<EventFile> events;
  if (!options.events.empty()) {
    file.reset(std::fopen(options.events.c_str(), "we"));
    if (file == nullptr) {
      std::perror(options.events.c_str());
      return 64;
    }
    events.emplace(file.get());
  }
  Sum sum;
  std::size_t failed = 0, done = 0;
  auto shown = std::chrono::steady_clock::now();
  for (const std::uint64_t seed : seeds) {
    if (!run(seed, options, events ? &*events : nullptr, sum)) ++failed;
    ++done;
    const auto now = std::chrono::steady_clock::now();
    if (!options.quiet && now - shown > std::chrono::seconds(1)) {
      std::fprintf(stderr, "\r%zu of %zu seeds, %zu failed ", done, seeds.size(), failed);
      shown = now;
    }
  }
  print_sum(sum, seeds.size(), failed, options);
  return failed == 0 ? 0 : 1;
}
