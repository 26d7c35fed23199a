// What the kernel counts of TCP segments that were lost, in the network namespace of this process:
// of all connections there, those of applications included.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>

namespace fairlead::admin {

struct TcpLosses {
  std::uint64_t retransmitted = 0;  // segments, but for SYNs and their answers
  std::uint64_t timeouts = 0;  // of retransmission; at least, because those of SYNs are left out
  std::uint64_t receive_drops = 0;   // segments for which the receive buffer had no room
  std::uint64_t receive_prunes = 0;  // of receive buffers, after which segments were dropped
};

// Reads /proc/self/net. What cannot be read stays 0.
TcpLosses read_tcp_losses();
// Raises each counter of `shown` to that of `read`. A difference of two counters of the kernel may
// fall, and what Prometheus is shown may not.
void raise_to(TcpLosses& shown, const TcpLosses& read);

// The counters of `prefix` in /proc/net/snmp or /proc/net/netstat, which have a line of names and a
// line of numbers for each prefix. Stops at what is no number.
std::map<std::string, std::int64_t> read_net_counters(std::istream& text,
                                                      const std::string& prefix);

}  // namespace fairlead::admin
