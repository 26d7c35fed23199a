#include "ctl/reports.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "ctl/table.h"

namespace fairlead::ctl {
namespace {

constexpr std::size_t kNameWidthMax = 40;  // longer names move their finding to the right
constexpr std::array kStatusNames = {"ok", "warn", "fail"};

std::string line(std::string_view name, const std::string& value) {
  constexpr std::size_t kNameWidth = 11;
  std::string text = "  " + std::string(name);
  text.resize(std::max(text.size() + 1, kNameWidth + 1), ' ');
  return text + value + '\n';
}

// "3 sent, 2 received" from the members of an object, without those at zero.
std::string counts_text(const Json& object, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) {
    const std::uint64_t value = number(object, name);
    if (value == 0) continue;
    if (!text.empty()) text += ", ";
    text += std::to_string(value) + " " + name;
  }
  std::replace(text.begin(), text.end(), '_', ' ');
  return text.empty() ? "none" : text;
}

std::string handshake_text(const Json& handshake) {
  const std::uint64_t count = number(handshake, "count");
  if (count == 0) return "none";
  const double mean = real(handshake, "sum_seconds") / static_cast<double>(count);
  return std::to_string(count) + ", " + seconds_text(mean) + " on average";
}

std::string traffic_text(const Json& connections) {
  Table table({{""},
               {""},
               {"Total", Align::kRight},
               {"Active", Align::kRight},
               {"Sent", Align::kRight},
               {"Received", Align::kRight}});
  for (const char* direction : {"outbound", "inbound"}) {
    for (const auto& [transport, title] :
         {std::pair("smcr", "SMCR"), std::pair("tcp", "TCP"), std::pair("short", "short")}) {
      const Json& traffic = member(member(connections, direction), transport);
      table.add_row({direction, title, std::to_string(number(traffic, "total")),
                     std::to_string(number(traffic, "active")),
                     bytes_text(number(traffic, "tx_bytes")),
                     bytes_text(number(traffic, "rx_bytes"))});
    }
  }
  return table.text();
}

std::string memory_text(const Json& memory) {
  const std::uint64_t limit = number(memory, "pinned_limit_bytes");
  std::string text = bytes_text(number(memory, "pinned_bytes")) + " registered";
  if (limit > 0) text += " of " + bytes_text(limit);
  return text + "; RMBs " + bytes_text(number(memory, "rmb_used_bytes")) + " used, " +
         bytes_text(number(memory, "rmb_free_bytes")) + " free";
}

std::string decision_text(const Json& row) {
  const bool is_smc = text(row, "transport") == "smcr";
  const bool is_short = text(row, "transport") == "short";
  std::string out = text(row, "direction") + " " + text(row, "peer") +
                    (is_smc     ? ": SMC-R\n"
                     : is_short ? ": TCP, ended before it had earned SMC-R\n"
                                : ": TCP, not SMC-R\n");
  out += line("when", text(row, "time") + ", connection " + text(row, "id") + ", took " +
                          seconds_text(real(row, "elapsed_seconds")));
  if (!is_smc && !is_short) {
    const bool is_ours = text(row, "side") == "local";
    out += line("reason", text(row, "reason") + " (" + text(row, "reason_code") + "), decided by " +
                              (is_ours ? "this side" : "the peer"));
    if (!text(row, "peer_code").empty()) out += line("peer code", text(row, "peer_code"));
    if (!text(row, "sentence").empty()) out += line("meaning", text(row, "sentence"));
    if (!text(row, "hint").empty()) out += line("hint", text(row, "hint"));
  }
  std::size_t count = 0;
  for (const Json& step : list(row, "steps")) {
    if (!step.is_string()) continue;
    ++count;
    out += line(count == 1 ? "steps" : "", std::to_string(count) + ". " + step.get<std::string>());
  }
  return out;
}

}  // namespace

std::string stats_text(const Json& reply) {
  const Json& total = member(reply, "total");
  const Json& connections = member(total, "connections");
  const Json& build = member(reply, "build");
  std::string out = "fairlead-proxy " + text(build, "version") + ", devices " +
                    text(build, "backend") + ", workers " +
                    std::to_string(list(reply, "workers").size());
  if (!flag(reply, "ready")) out += ", not ready";
  if (flag(reply, "draining")) out += ", draining";
  out = printable(out) + "\n\n" + traffic_text(connections) + '\n';
  const auto add = [&out](const char* name, const std::string& value) {
    constexpr std::size_t kLabelWidth = 22;
    std::string label = name;
    label.resize(kLabelWidth, ' ');
    out += label + value + '\n';
  };
  add("connections", counts_text(connections, {"moved", "reset", "refused", "accept_errors"}));
  add("fallbacks", std::to_string(number(total, "fallbacks")));
  add("handshakes to SMC-R", handshake_text(member(member(total, "handshakes"), "smcr")));
  add("handshakes to TCP", handshake_text(member(member(total, "handshakes"), "fallback")));
  add("link groups",
      counts_text(member(total, "link_groups"),
                  {"single", "symmetric", "asymmetric_local", "asymmetric_peer", "none"}));
  add("links",
      counts_text(member(total, "links"), {"active", "added", "deleted", "failed", "moved"}));
  add("link tests", std::to_string(number(member(total, "links"), "test_ok")) + " answered, " +
                        std::to_string(number(member(total, "links"), "test_timeout")) +
                        " timed out");
  add("memory", memory_text(member(total, "memory")));
  add("buffer shortages",
      counts_text(member(total, "memory"),
                  {"buffer_full_local", "buffer_full_peer", "buffer_downgrade"}));
  add("CDC messages", counts_text(member(total, "cdc"), {"sent", "received", "rejected"}));
  add("LLC messages", counts_text(member(total, "llc"), {"sent", "received", "rejected"}));
  add("loop", counts_text(member(total, "loop"),
                          {"turns", "spin_hits", "spin_misses", "receive_queue_low"}));
  return out;
}

std::string decisions_text(const Json& reply, bool all) {
  const Json& decisions = list(reply, "decisions");
  std::string out;
  for (const Json& row : decisions) {
    if (!out.empty()) out += '\n';
    out += decision_text(row);
    if (!all) break;
  }
  if (!all && decisions.size() > 1)
    out += "\n" + std::to_string(decisions.size() - 1) + " earlier; --all shows them\n";
  return printable_lines(out);
}

std::string taken_back_text(std::uint64_t descriptors, std::uint64_t gap_milliseconds) {
  return "taken back: " + std::to_string(descriptors) + " sockets, after " +
         std::to_string(gap_milliseconds) + " ms\n";
}

std::vector<Check> checks_from(const Json& reply) {
  std::vector<Check> checks;
  for (const Json& row : list(reply, "checks")) {
    const auto name = std::find(kStatusNames.begin(), kStatusNames.end(), text(row, "status"));
    const auto status = name == kStatusNames.end()
                            ? Check::Status::kFail
                            : static_cast<Check::Status>(name - kStatusNames.begin());
    checks.push_back({text(row, "name"), status, text(row, "finding"), text(row, "fix")});
  }
  return checks;
}

std::string checks_text(const std::vector<Check>& checks) {
  std::size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  width = std::min(width, kNameWidthMax);
  std::string out;
  for (const Check& check : checks) {
    std::string status = kStatusNames[static_cast<std::size_t>(check.status)];
    status.resize(4, ' ');
    std::string name = check.name;
    name.resize(std::max(width, name.size()), ' ');
    out += printable(status + "  " + name + "  " + check.finding);
    if (!check.fix.empty()) out += "  -> " + printable(check.fix);
    out += '\n';
  }
  return out;
}

Json checks_json(const std::vector<Check>& checks) {
  Json rows = Json::array();
  for (const Check& check : checks)
    rows.push_back({{"name", check.name},
                    {"status", kStatusNames[static_cast<std::size_t>(check.status)]},
                    {"finding", check.finding},
                    {"fix", check.fix}});
  return {{"checks", std::move(rows)}};
}

Check::Status worst_of(const std::vector<Check>& checks) {
  Check::Status worst = Check::Status::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.status);
  return worst;
}

}  // namespace fairlead::ctl
