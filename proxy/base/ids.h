// The identifiers that wire, smc and rdma share, as types that cannot be swapped by accident. All
// hold host byte order; the wire layer alone knows how they are written.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fairlead {

// An integer that converts to nothing else. Tag makes each use a type of its own.
template <class Tag, class Int>
struct StrongId {
  Int value{};
  constexpr StrongId() = default;
  constexpr explicit StrongId(Int v) : value(v) {}
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

using QpNumber = StrongId<struct QpNumberTag, std::uint32_t>;    // 24 bits
using PacketSeq = StrongId<struct PacketSeqTag, std::uint32_t>;  // 24 bits, initial PSN
using LocalKey = StrongId<struct LocalKeyTag, std::uint32_t>;    // verbs lkey
using RemoteKey = StrongId<struct RemoteKeyTag, std::uint32_t>;  // verbs rkey
using RemoteAddress =
    StrongId<struct RemoteAddressTag, std::uint64_t>;              // opaque: never an own pointer
using AlertToken = StrongId<struct AlertTokenTag, std::uint32_t>;  // RMBE alert token, non-zero
using LinkNumber = StrongId<struct LinkNumberTag, std::uint8_t>;   // given by the SMC server
using RmbIndex = StrongId<struct RmbIndexTag, std::uint8_t>;       // RMB element, from 1
using PortNumber = StrongId<struct PortNumberTag, std::uint8_t>;   // RNIC port, from 1

// Bytes in network order, as in the GID table of an RNIC port.
struct Gid {
  std::array<std::uint8_t, 16> bytes{};
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
  constexpr bool is_zero() const { return *this == Gid{}; }
  // ::ffff:a.b.c.d, the only form that the Linux kernel uses for SMC-Rv2.
  constexpr bool is_ipv4_mapped() const {
    for (std::size_t i = 0; i < 10; ++i)
      if (bytes[i] != 0) return false;
    return bytes[10] == 0xff && bytes[11] == 0xff;
  }
};

struct Mac {
  std::array<std::uint8_t, 6> bytes{};
  friend constexpr auto operator<=>(const Mac&, const Mac&) = default;
};

// The 8-byte system id of RFC 7609 ("peer id"): random, one per worker, never shared, because peers
// tell link groups apart by it (docs/wire.md, "Link groups").
struct PeerId {
  std::array<std::uint8_t, 8> bytes{};
  friend constexpr auto operator<=>(const PeerId&, const PeerId&) = default;
  constexpr bool is_zero() const { return *this == PeerId{}; }
};

// A set of shared-memory devices that can reach each other. Random, the same for all of one set.
struct FabricId {
  std::array<std::uint8_t, 5> bytes{};
  friend constexpr auto operator<=>(const FabricId&, const FabricId&) = default;
};

// Path MTU codes of InfiniBand, as CLC and LLC carry them.
enum class Mtu : std::uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

std::string to_string(const Gid& gid);          // as an IPv6 address
std::string to_string(const Mac& mac);          // aa:bb:cc:dd:ee:ff
std::string to_string(const PeerId& peer);      // 16 hex digits
std::string to_string(const FabricId& fabric);  // 10 hex digits

template <std::size_t N>
std::size_t hash_bytes(const std::array<std::uint8_t, N>& bytes) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (std::uint8_t b : bytes) h = (h ^ b) * 0x100000001b3ULL;
  return static_cast<std::size_t>(h);
}

}  // namespace fairlead

template <class Tag, class Int>
struct std::hash<fairlead::StrongId<Tag, Int>> {
  std::size_t operator()(const fairlead::StrongId<Tag, Int>& id) const noexcept {
    return std::hash<Int>{}(id.value);
  }
};
template <>
struct std::hash<fairlead::Gid> {
  std::size_t operator()(const fairlead::Gid& gid) const noexcept {
    return fairlead::hash_bytes(gid.bytes);
  }
};
template <>
struct std::hash<fairlead::PeerId> {
  std::size_t operator()(const fairlead::PeerId& id) const noexcept {
    return fairlead::hash_bytes(id.bytes);
  }
};
