#include "cni/node/agent/memory_gauge.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/linux/files.h"

namespace fairlead::cni::node {
namespace {

constexpr std::size_t kBytesMax = 64 * 1024;
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;  // version 1 has a number for it
constexpr const char* kV1Used = "/memory.kmem.usage_in_bytes";
constexpr const char* kV2Used = "/memory.stat";

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

// The value in a line "name value".
std::optional<std::uint64_t> value_of(std::string_view name, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ')
      return number_in(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

// The path behind `controllers` in lines "number:controllers:path".
std::string path_of(std::string_view controllers, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controllers)
      return std::string(line.substr(second + 1));
  }
  return {};
}

}  // namespace

MemoryGauge MemoryGauge::find(const std::string& root, const std::string& membership) {
  const auto text = read_file(membership, kBytesMax);
  const std::string_view lines = text ? std::string_view(*text) : std::string_view();
  MemoryGauge gauge;
  // A container may see its own cgroup as the root.
  const std::string v1 = root + "/memory";
  for (const auto& [folder, is_v1] :
       {std::pair(root + path_of("", lines), false), std::pair(root, false),
        std::pair(v1 + path_of("memory", lines), true), std::pair(v1, true)}) {
    const auto limit =
        number_in(first_line(folder + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max")));
    if (!read_file(folder + (is_v1 ? kV1Used : kV2Used), kBytesMax)) continue;
    if (!limit || *limit == 0 || *limit >= kNoLimit) break;
    gauge.folder_ = folder;
    gauge.is_v1_ = is_v1;
    gauge.limit_ = *limit;
    break;
  }
  return gauge;
}

double MemoryGauge::kernel_share() const {
  if (folder_.empty()) return 0;
  const auto text = read_file(folder_ + (is_v1_ ? kV1Used : kV2Used), kBytesMax);
  if (!text) return 0;
  const auto used = is_v1_ ? number_in(*text) : value_of("slab", *text);
  return static_cast<double>(used.value_or(0)) / static_cast<double>(limit_);
}

}  // namespace fairlead::cni::node
