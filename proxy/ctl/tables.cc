#include "ctl/tables.h"

#include <array>
#include <cstdio>
#include <set>

#include "ctl/table.h"

namespace fairlead::ctl {
namespace {

// A proxy of another version may not send the number: that is not 0.
std::string count_text(const Json& object, std::string_view name) {
  const std::string count = text(object, name);
  return count.empty() ? "-" : count;
}

std::string hex_text(std::uint64_t value) {
  std::array<char, 24> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "0x%llx", static_cast<unsigned long long>(value));
  return buffer.data();
}

// Numbers that start at 1; 0 means that there is none.
std::string ordinal_text(const Json& object, std::string_view name) {
  const std::uint64_t value = number(object, name);
  return value == 0 ? std::string() : std::to_string(value);
}

// "0,1"
std::string numbers_text(const Json& numbers) {
  std::string text;
  for (const Json& each : numbers)
    if (each.is_number_unsigned()) text += (text.empty() ? "" : ",") + each.dump();
  return text;
}

std::string mode_text(const Json& row) {
  const std::string transport = text(row, "transport");
  return transport == "smcr" ? "SMCR" : transport == "short" ? "short" : "TCP";
}

std::string direction_text(const Json& row) {
  return text(row, "direction") == "outbound" ? "out" : "in";
}

}  // namespace

std::string connections_text(const Json& reply, bool details) {
  std::vector<Column> columns = {{"Id"},
                                 {"State"},
                                 {"Dir"},
                                 {"Mode"},
                                 {"Application"},
                                 {"Peer"},
                                 {"LG-ID"},
                                 {"Link", Align::kRight},
                                 {"Sent", Align::kRight},
                                 {"Received", Align::kRight},
                                 {"Age", Align::kRight},
                                 {"Reason"}};
  if (details)
    columns.insert(columns.end(), {{"Code"},
                                   {"Client-Address"},
                                   {"Token"},
                                   {"Peer-Token"},
                                   {"RMB", Align::kRight},
                                   {"Peer-RMB", Align::kRight},
                                   {"Worker", Align::kRight}});
  Table table(std::move(columns));
  for (const Json& row : list(reply, "connections")) {
    std::vector<std::string> cells = {text(row, "id"),
                                      text(row, "state"),
                                      direction_text(row),
                                      mode_text(row),
                                      text(row, "app"),
                                      text(row, "peer"),
                                      text(row, "group"),
                                      ordinal_text(row, "link"),
                                      bytes_text(number(row, "tx_bytes")),
                                      bytes_text(number(row, "rx_bytes")),
                                      seconds_text(real(row, "age_seconds")),
                                      text(row, "reason")};
    if (details) {
      const std::uint64_t token = number(row, "local_token");
      const std::uint64_t peer_token = number(row, "peer_token");
      cells.insert(
          cells.end(),
          {text(row, "reason_code"), text(row, "client_address"), token == 0 ? "" : hex_text(token),
           peer_token == 0 ? "" : hex_text(peer_token), bytes_text(number(row, "rmb_bytes")),
           bytes_text(number(row, "peer_rmb_bytes")), count_text(row, "worker")});
    }
    table.add_row(std::move(cells));
  }
  return table.empty() ? "no connections\n" : table.text();
}

std::string destinations_text(const Json& reply) {
  const std::string unavailable = text(reply, "unavailable");
  if (!unavailable.empty()) return "none: " + unavailable + "\n";
  Table table(
      {{"Destination"}, {"Reason"}, {"Code"}, {"Learned", Align::kRight}, {"Left", Align::kRight}});
  for (const Json& row : list(reply, "destinations"))
    table.add_row({text(row, "destination"), text(row, "reason"), text(row, "reason_code"),
                   seconds_text(real(row, "learned_seconds")),
                   seconds_text(real(row, "left_seconds"))});
  return (table.empty() ? "no destination is left alone now\n" : table.text()) +
         "connections that went directly: " + count_text(reply, "direct_connections") + "\n";
}

std::string link_groups_text(const Json& reply) {
  Table table({{"LG-ID"},
               {"Role"},
               {"Type"},
               {"Version"},
               {"#Conns", Align::kRight},
               {"#Links", Align::kRight},
               {"RMBs", Align::kRight},
               {"Idle", Align::kRight},
               {"Peer-ID"},
               {"Peer-Host"},
               {"UEID"},
               {"Worker", Align::kRight}});
  for (const Json& row : list(reply, "link_groups"))
    table.add_row({text(row, "id"), text(row, "role"), text(row, "type"), text(row, "version"),
                   count_text(row, "connections") + "/" + count_text(row, "connections_max"),
                   std::to_string(list(row, "links").size()) + "/" + count_text(row, "links_max"),
                   bytes_text(number(row, "rmb_bytes")), seconds_text(real(row, "idle_seconds")),
                   text(row, "peer_id"), text(row, "peer_host"), text(row, "ueid"),
                   count_text(row, "worker")});
  return table.empty() ? "no link groups\n" : table.text();
}

std::string links_text(const Json& reply) {
  Table table({{"LG-ID"},
               {"Link", Align::kRight},
               {"State"},
               {"RNIC"},
               {"Port", Align::kRight},
               {"#Conns", Align::kRight},
               {"MTU", Align::kRight},
               {"RTT", Align::kRight},
               {"QP"},
               {"Peer-QP"},
               {"GID"},
               {"Peer-GID"}});
  for (const Json& row : list(reply, "links"))
    table.add_row({text(row, "group"), count_text(row, "number"), text(row, "state"),
                   text(row, "rnic"), count_text(row, "port"), count_text(row, "connections"),
                   count_text(row, "mtu_bytes"), seconds_text(real(row, "rtt_seconds")),
                   hex_text(number(row, "local_qp")), hex_text(number(row, "peer_qp")),
                   text(row, "local_gid"), text(row, "peer_gid")});
  return table.empty() ? "no links\n" : table.text();
}

std::string devices_text(const Json& reply) {
  Table table({{"Device"},
               {"Port", Align::kRight},
               {"Kind"},
               {"State"},
               {"MTU", Align::kRight},
               {"PNET-ID"},
               {"From"},
               {"MAC"},
               {"GID"},
               {"Of"},
               {"Workers"},
               {"Reason"},
               {"Detail"}});
  for (const Json& row : list(reply, "devices"))
    table.add_row({text(row, "name"), count_text(row, "port"), text(row, "kind"),
                   text(row, "state"), count_text(row, "mtu_bytes"), text(row, "pnet"),
                   text(row, "pnet_source"), text(row, "mac"), text(row, "gid"),
                   text(row, "gid_source"), numbers_text(list(row, "workers")), text(row, "reason"),
                   text(row, "detail")});
  return table.empty() ? "no devices\n" : table.text();
}

std::string fallbacks_text(const Json& reply) {
  Table table({{"Count", Align::kRight}, {"Dir"}, {"Side"}, {"Reason"}, {"Code"}, {"Meaning"}});
  std::string hints;
  std::set<std::string> hinted;
  for (const Json& row : list(reply, "fallbacks")) {
    const std::string reason = printable(text(row, "reason"));
    table.add_row({count_text(row, "count"), direction_text(row), text(row, "side"), reason,
                   text(row, "code"), text(row, "sentence")});
    if (number(row, "count") > 0 && !flag(row, "expected") && hinted.insert(reason).second)
      hints += "  " + reason + ": " + printable(text(row, "hint")) + '\n';
  }
  if (table.empty()) return "no fallbacks\n";
  return hints.empty() ? table.text() : table.text() + "\nWhat to do:\n" + hints;
}

}  // namespace fairlead::ctl
