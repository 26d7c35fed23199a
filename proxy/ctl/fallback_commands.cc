// fallbacks, why and destinations: the reasons for TCP, in numbers, for one peer, and where
// connections therefore go past the proxy.
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ctl/commands.h"
#include "ctl/reports.h"
#include "ctl/tables.h"
#include "event/http/http_status.h"

namespace fairlead::ctl {
namespace {

constexpr std::chrono::milliseconds kWhyInterval{500};
constexpr double kWaitSecondsMax = 3600;

void show_fallbacks(Console& console, bool all) {
  const auto answer = console.get(all ? "/fallbacks?all=true" : "/fallbacks");
  if (answer) console.show(*answer, fallbacks_text);
}

struct WhyOptions {
  std::string peer;  // empty: anyone
  bool all = false;
  double wait_seconds = 0;  // for a decision
  std::string expected;     // transport; empty: any
};

WhyOptions why_options(const CLI::App& command) {
  WhyOptions options;
  if (command.count("PEER") > 0) options.peer = command["PEER"]->as<std::string>();
  options.all = command.count("--all") > 0;
  options.wait_seconds = command["--wait"]->as<double>();
  if (command.count("--expect") > 0) options.expected = command["--expect"]->as<std::string>();
  return options;
}

// The proxy's answer once it has a decision, or its last one when the wait is over.
std::optional<Console::Answer> get_decisions(Console& console, const WhyOptions& options) {
  const std::string target =
      options.peer.empty() ? "/why" : "/why?peer=" + percent_encoded(options.peer);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options.wait_seconds);
  for (;;) {
    std::string reason;
    const bool is_last = std::chrono::steady_clock::now() + kWhyInterval > deadline;
    if (is_last) return console.get(target);
    const auto reply = console.try_request("GET", target, reason);
    Json json = reply && reply->status == http_status::kOk ? parse_json(reply->body) : Json();
    if (!list(json, "decisions").empty()) return Console::Answer{reply->body, std::move(json)};
    std::this_thread::sleep_for(kWhyInterval);
  }
}

void show_why(Console& console, const WhyOptions& options) {
  const std::string& peer = options.peer;
  const bool all = options.all;
  const auto answer = get_decisions(console, options);
  if (!answer) return;
  const Json& reply = answer->json;
  const std::string text = decisions_text(reply, all);
  if (text.empty() && !console.wants_json())
    console.complain("the proxy remembers no decision" + (peer.empty() ? "" : " about " + peer));
  else
    console.show(*answer, [&text](const Json&) { return text; });
  if (text.empty()) console.exit = Exit::kWarn;
  console.note_silent_workers(reply);
  const Json& decisions = list(reply, "decisions");
  const std::string got = decisions.empty() ? "none" : ctl::text(decisions.front(), "transport");
  if (options.expected.empty() || got == options.expected) return;
  console.complain("transport " + got + ", expected " + options.expected);
  console.exit = Exit::kFail;
}

}  // namespace

void add_fallback_commands(CLI::App& app, Console& console) {
  CLI::App* fallbacks =
      app.add_subcommand("fallbacks", "Why connections are TCP, counted by reason");
  add_flag(*fallbacks, "-a,--all", "Also reasons that never occurred");
  fallbacks->footer("Examples:\n  fairleadctl fallbacks\n  fairleadctl fallbacks --all");
  fallbacks->callback(
      [&console, fallbacks] { show_fallbacks(console, fallbacks->count("--all") > 0); });

  CLI::App* destinations =
      app.add_subcommand("destinations", "Where connections go directly, past the proxy");
  destinations->footer(
      "Left is the time until a connection comes through the proxy again. Its outcome decides\n"
      "about the next ones.\n"
      "Examples:\n"
      "  fairleadctl destinations\n"
      "  fairleadctl destinations -o json | jq .direct_connections");
  destinations->callback([&console] {
    if (const auto answer = console.get("/destinations")) console.show(*answer, destinations_text);
  });

  CLI::App* why = app.add_subcommand("why", "The last decision about a peer, step by step");
  why->add_option("PEER", "ADDR:PORT or ADDR; without it, the last decision about anyone");
  add_flag(*why, "-a,--all", "All decisions that are remembered");
  why->add_option("--wait", "Seconds to wait for a decision")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, kWaitSecondsMax))
      ->default_val(0);
  why->add_option("--expect", "Fail unless the last decision is smcr, or tcp")
      ->type_name("TRANSPORT")
      ->check(CLI::IsMember({"smcr", "tcp"}));
  why->footer(
      "Returns 1 if no decision is remembered, 2 if --expect does not hold.\n"
      "Examples:\n"
      "  fairleadctl why 10.1.2.7:8080\n"
      "  fairleadctl why 10.1.2.7 --all\n"
      "  fairleadctl why --wait 60 --expect smcr");
  why->callback([&console, why] { show_why(console, why_options(*why)); });
}

}  // namespace fairlead::ctl
