#include "base/ids.h"

#include <arpa/inet.h>

#include <cstdio>

namespace fairlead {
namespace {

template <std::size_t N>
std::string hexadecimal(const std::array<std::uint8_t, N>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  return text;
}

std::string to_string(const Mac& mac) {
  char text[18];
  const auto& b = mac.bytes;
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4],
                b[5]);
  return text;
}

std::string to_string(const PeerId& peer) { return hexadecimal(peer.bytes); }

std::string to_string(const FabricId& fabric) { return hexadecimal(fabric.bytes); }

}  // namespace fairlead
