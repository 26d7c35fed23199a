// What the kernel counts of TCP segments that were lost, in the network namespace of this process:
// of all connections there, those of applications included.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fairlead::admin {

struct TcpLosses {
  std::uint64_t retransmitted = 0;   // segments
  std::uint64_t timeouts = 0;        // of retransmission
  std::uint64_t receive_drops = 0;   // segments for which the receive buffer had no room
  std::uint64_t receive_prunes = 0;  // of receive buffers, after which segments were dropped
};

// Reads /proc/self/net. What cannot be read stays 0.
TcpLosses read_tcp_losses();

// A value of /proc/net/snmp or /proc/net/netstat: two lines for each `prefix`, names and numbers.
std::optional<std::uint64_t> find_net_counter(std::string_view text, std::string_view prefix,
                                              std::string_view name);

}  // namespace fairlead::admin
