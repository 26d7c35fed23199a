// Sets of ports and of addresses as sorted, disjoint intervals. The packet filter requires this
// form: intervals that touch or overlap are an error. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/node_annotations.h"

namespace fairlead::cni {

// Keys are big-endian: 2 bytes of a port, 4 of IPv4, 16 of IPv6, at the front of the array.
using Key = std::array<std::uint8_t, 16>;

struct Interval {
  Key first{};
  Key last{};  // inclusive
  friend bool operator==(const Interval&, const Interval&) = default;
};
using Intervals = std::vector<Interval>;

Intervals intervals_of(const std::vector<kubernetes::PortRange>& ranges);
Intervals port_interval(std::uint16_t port);
// Of one family: AF_INET or AF_INET6.
Intervals intervals_of(const std::vector<Cidr>& blocks, sa_family_t family);

// Sorts the intervals, and joins those that overlap or touch. `key_bytes`: significant bytes of
// each key.
Intervals merged(Intervals intervals, std::size_t key_bytes);

// The next key; nothing after the largest one.
std::optional<Key> successor(Key key, std::size_t key_bytes);

}  // namespace fairlead::cni
