// Sets of ports and of addresses as sorted, disjoint intervals: the form in which the packet filter
// takes them, where neighbours that touch or overlap are an error. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace fairlead::cni {

inline constexpr std::size_t kListEntriesMax = 64;

// Keys are big-endian: 2 bytes of a port, 4 of IPv4, 16 of IPv6, at the front of the array.
using Key = std::array<std::uint8_t, 16>;

struct Interval {
  Key first{};
  Key last{};  // inclusive
  friend bool operator==(const Interval&, const Interval&) = default;
};
using Intervals = std::vector<Interval>;

// "80", "80,443", "8000-8010": 1 to 64 of them, each from 1 to 65535, blanks around commas allowed.
// Nothing for anything else.
std::optional<Intervals> parse_ports(std::string_view text);

// "10.0.0.0/8,fd00::/8": 1 to 64 blocks. Nothing for anything else.
std::optional<std::vector<Cidr>> parse_cidrs(std::string_view text);

Intervals port_interval(std::uint16_t port);
// Of one family: AF_INET or AF_INET6.
Intervals intervals_of(const std::vector<Cidr>& blocks, sa_family_t family);

// Sorts, and joins what overlaps or touches. `key_bytes`: how many bytes of each key count.
Intervals merged(Intervals intervals, std::size_t key_bytes);

// The key after this one; nothing after the last of all.
std::optional<Key> successor(Key key, std::size_t key_bytes);

}  // namespace fairlead::cni
