#include "cni/redirect/ranges.h"

#include <algorithm>
#include <utility>

namespace fairlead::cni {
namespace {

constexpr std::size_t kPortBytes = 2;

Key key_of(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff)};
}

}  // namespace

Intervals intervals_of(const std::vector<kubernetes::PortRange>& ranges) {
  Intervals intervals;
  for (const kubernetes::PortRange& range : ranges)
    intervals.push_back({key_of(range.first), key_of(range.last)});
  return merged(std::move(intervals), kPortBytes);
}

Intervals port_interval(std::uint16_t port) { return {{key_of(port), key_of(port)}}; }

Intervals intervals_of(const std::vector<Cidr>& blocks, sa_family_t family) {
  const std::size_t key_bytes = family == AF_INET ? 4 : 16;
  Intervals intervals;
  for (const Cidr& block : blocks) {
    if (block.family() != family) continue;
    Interval interval;
    for (std::size_t i = 0; i < key_bytes; ++i) {
      const std::uint8_t byte = block.network()[i];
      const std::size_t bits_before = 8 * i;
      const std::size_t fixed = std::min<std::size_t>(
          8, std::max<std::size_t>(block.prefix_length(), bits_before) - bits_before);
      interval.first[i] = byte;
      interval.last[i] = static_cast<std::uint8_t>(byte | (0xffU >> fixed));
    }
    intervals.push_back(interval);
  }
  return merged(std::move(intervals), key_bytes);
}

Intervals merged(Intervals intervals, std::size_t key_bytes) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.first < b.first; });
  Intervals joined;
  for (const Interval& interval : intervals) {
    if (!joined.empty()) {
      const auto after = successor(joined.back().last, key_bytes);
      if (!after || interval.first <= *after) {
        joined.back().last = std::max(joined.back().last, interval.last);
        continue;
      }
    }
    joined.push_back(interval);
  }
  return joined;
}

std::optional<Key> successor(Key key, std::size_t key_bytes) {
  for (std::size_t i = key_bytes; i-- > 0;)
    if (++key[i] != 0) return key;
  return std::nullopt;
}

}  // namespace fairlead::cni
