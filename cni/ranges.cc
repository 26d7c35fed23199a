#include "cni/ranges.h"

#include <algorithm>
#include <charconv>

namespace fairlead::cni {
namespace {

constexpr std::size_t kPortBytes = 2;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Calls `take` for each entry between commas; false when one is refused or there are too many.
template <class Take>
bool each_entry(std::string_view text, Take take) {
  for (std::size_t count = 0; count < kListEntriesMax; ++count) {
    const std::size_t comma = text.find(',');
    if (!take(trimmed(text.substr(0, comma)))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
  return false;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

Key key_of(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff)};
}

}  // namespace

std::optional<Intervals> parse_ports(std::string_view text) {
  Intervals intervals;
  const bool good = each_entry(text, [&](std::string_view entry) {
    const std::size_t dash = entry.find('-');
    const auto first = parse_port(entry.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_port(entry.substr(dash + 1));
    if (!first || !last || *first > *last) return false;
    intervals.push_back({key_of(*first), key_of(*last)});
    return true;
  });
  if (!good) return std::nullopt;
  return merged(std::move(intervals), kPortBytes);
}

std::optional<std::vector<Cidr>> parse_cidrs(std::string_view text) {
  std::vector<Cidr> blocks;
  const bool good = each_entry(text, [&](std::string_view entry) {
    const Result<Cidr> block = Cidr::parse(entry);
    if (block) blocks.push_back(*block);
    return block.has_value();
  });
  if (!good) return std::nullopt;
  return blocks;
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
