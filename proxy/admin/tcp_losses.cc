#include "admin/tcp_losses.h"

#include <fstream>
#include <sstream>

namespace fairlead::admin {

std::map<std::string, std::int64_t> read_net_counters(std::istream& text,
                                                      const std::string& prefix) {
  std::map<std::string, std::int64_t> counters;
  std::string names_line, numbers_line;
  while (std::getline(text, names_line) && std::getline(text, numbers_line)) {
    std::istringstream names(names_line), numbers(numbers_line);
    std::string name, other;
    if (!(names >> name && numbers >> other) || name != prefix || other != prefix) continue;
    std::int64_t number = 0;
    while (names >> name && numbers >> number) counters[name] = number;
  }
  return counters;
}

TcpLosses read_tcp_losses() {
  std::ifstream snmp("/proc/self/net/snmp"), netstat("/proc/self/net/netstat");
  auto tcp = read_net_counters(snmp, "Tcp:");
  auto extended = read_net_counters(netstat, "TcpExt:");
  const auto counter = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  return {.retransmitted = counter(tcp["RetransSegs"]),
          .timeouts = counter(extended["TCPTimeouts"]),
          .receive_drops = counter(extended["TCPRcvQDrop"]),
          .receive_prunes = counter(extended["RcvPruned"])};
}

}  // namespace fairlead::admin
