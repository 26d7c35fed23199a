#include "rdma/shm/shm_gid.h"

#include <algorithm>
#include <iterator>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

constexpr std::uint8_t kGidPrefix[2] = {0xfd, 0xfa};

}  // namespace

Gid gid_of(FabricId fabric, PortNumber port, PeerId peer) {
  Gid gid;
  auto at = std::copy(std::begin(kGidPrefix), std::end(kGidPrefix), gid.bytes.begin());
  at = std::copy(fabric.bytes.begin(), fabric.bytes.end(), at);
  *at++ = port.value;
  std::copy(peer.bytes.begin(), peer.bytes.end(), at);
  return gid;
}

std::optional<ParsedShmGid> parse_gid(const Gid& gid) {
  const auto& bytes = gid.bytes;
  if (bytes[0] != kGidPrefix[0] || bytes[1] != kGidPrefix[1]) return std::nullopt;
  ParsedShmGid parsed;
  std::copy_n(bytes.begin() + 2, parsed.fabric.bytes.size(), parsed.fabric.bytes.begin());
  parsed.port = PortNumber(bytes[7]);
  std::copy_n(bytes.begin() + 8, parsed.peer.bytes.size(), parsed.peer.bytes.begin());
  if (parsed.port.value == 0 || parsed.port.value > kPortsMax || parsed.peer.is_zero())
    return std::nullopt;
  return parsed;
}

}  // namespace fairlead::rdma::shm
