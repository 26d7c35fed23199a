// fallbacks and why: the reasons for TCP, in numbers and for one peer.
#include <ostream>
#include <string>

#include "ctl/commands.h"
#include "ctl/reports.h"
#include "ctl/tables.h"

namespace fairlead::ctl {
namespace {

void show_fallbacks(Console& console, bool all) {
  const auto body = console.get(all ? "/fallbacks?all=true" : "/fallbacks");
  if (body) console.show(*body, fallbacks_text);
}

void show_why(Console& console, const std::string& peer, bool all) {
  const auto body = console.get(peer.empty() ? "/why" : "/why?peer=" + percent_encoded(peer));
  if (!body) return;
  const Json reply = parse_json(*body);
  const std::string text = decisions_text(reply, all);
  if (console.wants_json())
    console.print(*body);
  else if (text.empty())
    console.err() << "fairleadctl: the proxy remembers no decision"
                  << (peer.empty() ? "" : " about " + peer) << '\n';
  else
    console.print(text);
  if (text.empty()) console.exit = Exit::kWarn;
  console.note_silent_workers(reply);
}

}  // namespace

void add_fallback_commands(CLI::App& app, Console& console) {
  CLI::App* fallbacks =
      app.add_subcommand("fallbacks", "Why connections are TCP, counted by reason");
  add_flag(*fallbacks, "-a,--all", "Also reasons that never occurred");
  fallbacks->footer("Examples:\n  fairleadctl fallbacks\n  fairleadctl fallbacks --all");
  fallbacks->callback(
      [&console, fallbacks] { show_fallbacks(console, fallbacks->count("--all") > 0); });

  CLI::App* why = app.add_subcommand("why", "The last decision about a peer, step by step");
  why->add_option("PEER", "ADDR:PORT or ADDR; without it, the last decision about anyone");
  add_flag(*why, "-a,--all", "All decisions that are remembered");
  why->footer(
      "Returns 1 if no decision is remembered.\n"
      "Examples:\n"
      "  fairleadctl why 10.1.2.7:8080\n"
      "  fairleadctl why 10.1.2.7 --all\n"
      "  fairleadctl why");
  why->callback([&console, why] {
    const std::string peer = why->count("PEER") > 0 ? (*why)["PEER"]->as<std::string>() : "";
    show_why(console, peer, why->count("--all") > 0);
  });
}

}  // namespace fairlead::ctl
