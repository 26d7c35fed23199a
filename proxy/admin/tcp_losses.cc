#include "admin/tcp_losses.h"

#include <algorithm>
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
  const auto counter = [](std::int64_t number) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
  };
  // A connect(2) that is held repeats its SYN on loopback, where nothing is lost.
  const std::int64_t syns = extended["TCPSynRetrans"];
  return {.retransmitted = counter(tcp["RetransSegs"] - syns),
          .timeouts = counter(extended["TCPTimeouts"] - syns),
          .receive_drops = counter(extended["TCPRcvQDrop"]),
          .receive_prunes = counter(extended["RcvPruned"])};
}

void raise_to(TcpLosses& shown, const TcpLosses& read) {
  for (const auto counter : {&TcpLosses::retransmitted, &TcpLosses::timeouts,
                             &TcpLosses::receive_drops, &TcpLosses::receive_prunes})
    shown.*counter = std::max(shown.*counter, read.*counter);
}

}  // namespace fairlead::admin
