// How fairlead-node hands a sidecar the map of its pod's client-address programs: the sidecar
// listens in the abstract namespace of its network namespace, root connects and sends one record
// with the map's descriptor. The connection stays open, so that the node side notices a restarted
// sidecar.
#pragma once

#include <array>
#include <cstddef>

namespace fairlead {

inline constexpr const char* kClientAddressSocket = "@fairlead-client-address";

// The whole record: a name and a version. A newer node side may send a longer one.
inline constexpr std::array<std::byte, 8> kClientAddressRecord = {
    std::byte{'F'}, std::byte{'L'}, std::byte{'c'}, std::byte{'a'},
    std::byte{1},   std::byte{0},   std::byte{0},   std::byte{0}};

}  // namespace fairlead
