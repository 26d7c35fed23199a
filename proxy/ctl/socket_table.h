// The TCP sockets of a network namespace, as /proc/net/tcp and tcp6 list them (proc(5)). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fairlead::ctl {

struct SocketLine {
  // Hexadecimal address and port, as the kernel prints them; IPv4 also where a tcp6 socket has it.
  std::string local, remote;
  unsigned state = 0;  // 1: established
  std::uint32_t user = 0;
};

// Without lines that cannot be read.
std::vector<SocketLine> parse_sockets(const std::string& table);

// Remote addresses ("10.0.0.5:80") of the established connections of other users that leave the
// namespace directly. One that is redirected, or comes from the proxy, has both ends in it.
std::vector<std::string> connections_past(const std::vector<SocketLine>& sockets,
                                          std::uint32_t proxy_user);

}  // namespace fairlead::ctl
