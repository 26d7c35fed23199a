// stats: the counters, once or again and again.
#include <chrono>
#include <string>
#include <thread>

#include "ctl/commands.h"
#include "ctl/reports.h"

namespace fairlead::ctl {
namespace {

constexpr double kWatchSecondsMin = 0.1;
constexpr double kWatchSecondsMax = 3600;

void show_stats(Console& console, const CLI::App& command) {
  const bool is_repeated = command.count("--watch") > 0;
  const std::chrono::duration<double> interval(is_repeated ? command["--watch"]->as<double>() : 0);
  const unsigned times = command.count("--times") > 0 ? command["--times"]->as<unsigned>() : 0;
  for (unsigned shown = 0;;) {
    const auto answer = console.get("/stats?format=json");
    if (!answer) return;
    console.show(*answer, stats_text);
    ++shown;
    if (!is_repeated || shown == times) return;
    console.print_exactly("\n");
    console.flush();
    std::this_thread::sleep_for(interval);
  }
}

}  // namespace

void add_stats_command(CLI::App& app, Console& console) {
  CLI::App* stats = app.add_subcommand("stats", "Counters of the proxy");
  stats->add_option("-w,--watch", "Again every so many seconds, until interrupted")
      ->type_name("SECONDS")
      ->check(CLI::Range(kWatchSecondsMin, kWatchSecondsMax));
  stats->add_option("--times", "With --watch: so many times")
      ->type_name("COUNT")
      ->check(CLI::PositiveNumber);
  stats->footer(
      "Examples:\n"
      "  fairleadctl stats\n"
      "  fairleadctl stats --watch 2\n"
      "  fairleadctl stats -o json | jq .total.connections");
  stats->callback([&console, stats] { show_stats(console, *stats); });
}

}  // namespace fairlead::ctl
