#include "ctl/socket_table.h"

#include <arpa/inet.h>

#include <charconv>
#include <cstring>
#include <set>
#include <sstream>
#include <string_view>

namespace fairlead::ctl {
namespace {

constexpr unsigned kEstablished = 1;
constexpr std::size_t kWordChars = 8;  // the kernel prints words of 32 bits in host byte order
constexpr std::string_view kMapped = "0000000000000000FFFF0000";
constexpr std::string_view kLoopback6 = "00000000000000000000000001000000";

template <class Number>
bool parse(std::string_view text, Number& number, int base) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc{} && at == end;
}

std::string unmapped(const std::string& end) {
  return end.starts_with(kMapped) ? end.substr(kMapped.size()) : end;
}

std::string_view address_of(std::string_view end) { return end.substr(0, end.find(':')); }

bool leaves_namespace(std::string_view remote) {
  const std::string_view address = address_of(remote);
  if (address.size() == kWordChars) return !address.ends_with("7F");
  return address != kLoopback6;
}

std::string readable(std::string_view end) {
  const std::string_view address = address_of(end);
  std::uint32_t words[4] = {};
  std::uint16_t port = 0;
  const std::size_t count = address.size() / kWordChars;
  if ((count != 1 && count != 4) || address.size() == end.size() ||
      !parse(end.substr(address.size() + 1), port, 16))
    return std::string(end);
  for (std::size_t i = 0; i < count; ++i)
    if (!parse(address.substr(i * kWordChars, kWordChars), words[i], 16)) return std::string(end);
  char text[INET6_ADDRSTRLEN] = {};
  if (inet_ntop(count == 1 ? AF_INET : AF_INET6, words, text, sizeof text) == nullptr)
    return std::string(end);
  const std::string host = count == 1 ? text : "[" + std::string(text) + "]";
  return host + ":" + std::to_string(port);
}

}  // namespace

std::vector<SocketLine> parse_sockets(const std::string& table) {
  std::vector<SocketLine> sockets;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmitted, user;
    SocketLine socket;
    if (!(fields >> number >> local >> remote >> state >> queues >> timer >> retransmitted >> user))
      continue;
    if (!parse(state, socket.state, 16) || !parse(user, socket.user, 10)) continue;
    socket.local = unmapped(local);
    socket.remote = unmapped(remote);
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

std::vector<std::string> connections_past(const std::vector<SocketLine>& sockets,
                                          std::uint32_t proxy_user) {
  std::set<std::string_view> remotes;
  for (const SocketLine& socket : sockets) remotes.insert(socket.remote);
  std::vector<std::string> past;
  for (const SocketLine& socket : sockets) {
    if (socket.state != kEstablished || socket.user == proxy_user) continue;
    if (leaves_namespace(socket.remote) && !remotes.contains(socket.local))
      past.push_back(readable(socket.remote));
  }
  return past;
}

}  // namespace fairlead::ctl
