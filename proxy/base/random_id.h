// Ids that are told apart by chance alone: PeerId, FabricId. From the kernel's generator,
// random(4).
#pragma once

#include <cstdint>
#include <random>

namespace fairlead {

// Never all zero, which stands for none.
template <class Id>
Id random_id() {
  std::random_device random;
  Id id;
  for (std::uint8_t& byte : id.bytes) byte = static_cast<std::uint8_t>(random());
  id.bytes[0] |= 1;
  return id;
}

}  // namespace fairlead
