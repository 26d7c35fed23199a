#include "base/ids.h"

#include <arpa/inet.h>

#include <cstdio>

namespace fairlead {

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

std::string to_string(const PeerId& peer) {
  char text[17];
  for (std::size_t i = 0; i < peer.bytes.size(); ++i)
    std::snprintf(text + 2 * i, 3, "%02x", peer.bytes[i]);
  return text;
}

}  // namespace fairlead
