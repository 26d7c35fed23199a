#include "config/cpu_limit.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

// Read this first: cgroups(7), "/proc/[pid]/cgroup"; proc(5), "/proc/[pid]/mountinfo".
namespace fairlead::config {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;  // mountinfo of a busy node has thousands of lines
constexpr unsigned kQuotaMax = 1 << 20;         // CPUs; beyond it a quota is no limit to anybody

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  std::size_t total = 0;
  for (std::string line; std::getline(file, line);) {
    total += line.size();
    if (total > kFileBytesMax) break;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

bool has_item(std::string_view list, std::string_view item) {
  while (true) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == item) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// 0 when there is no limit. Half a CPU still needs one worker, hence rounding up.
unsigned cpus(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return 0;
  const std::int64_t whole = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return whole > kQuotaMax ? 0 : static_cast<unsigned>(whole);
}

unsigned lesser_limit(unsigned a, unsigned b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

// "max 100000" or "50000 100000".
unsigned quota_v2(const std::string& folder) {
  const std::vector<std::string> lines = lines_of(folder + "/cpu.max");
  if (lines.empty()) return 0;
  const std::vector<std::string> words = words_of(lines[0]);
  return words.size() == 2 ? cpus(number(words[0]), number(words[1])) : 0;
}

unsigned quota_v1(const std::string& folder) {
  const std::vector<std::string> quota = lines_of(folder + "/cpu.cfs_quota_us");
  const std::vector<std::string> period = lines_of(folder + "/cpu.cfs_period_us");
  if (quota.empty() || period.empty()) return 0;
  return cpus(number(quota[0]), number(period[0]));
}

struct Mount {
  std::string root;   // which folder of the file system is mounted
  std::string point;  // where
};

std::optional<Mount> find_mount(const std::vector<std::string>& mountinfo, bool v2) {
  for (const std::string& line : mountinfo) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    // Before the dash at least six fields, behind it type, source and options of the super block.
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const bool wanted = v2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && has_item(dash[3], "cpu");
    if (wanted) return Mount{words[3], words[4]};
  }
  return std::nullopt;
}

std::optional<std::string> find_group(const std::vector<std::string>& cgroup, bool v2) {
  for (const std::string& line : cgroup) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() && line.starts_with("0:") : has_item(controllers, "cpu"))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// A container often sees its own group mounted as the root, while /proc still names it as the host
// does; what the mount does not show cannot be read, so the walk then begins at the mount itself.
std::string below_mount(const Mount& mount, const std::string& group) {
  if (mount.root == "/") return group == "/" ? "" : group;
  if (group.starts_with(mount.root) &&
      (group.size() == mount.root.size() || group[mount.root.size()] == '/'))
    return group.substr(mount.root.size());
  return "";
}

unsigned least_quota(const std::string& root, const std::vector<std::string>& mountinfo,
                     const std::vector<std::string>& cgroup, bool v2) {
  const std::optional<Mount> mount = find_mount(mountinfo, v2);
  const std::optional<std::string> group = find_group(cgroup, v2);
  if (!mount || !group) return 0;
  std::string below = below_mount(*mount, *group);
  // Below a foreign namespace the path begins with "/..", which leads out of the mount.
  if (below.find("/..") != std::string::npos) below.clear();
  unsigned least = 0;
  while (true) {
    const std::string folder = root + mount->point + below;
    least = lesser_limit(least, v2 ? quota_v2(folder) : quota_v1(folder));
    const std::size_t slash = below.rfind('/');
    if (below.empty() || slash == std::string::npos) return least;
    below.erase(slash);
  }
}

unsigned affinity_count() {
  for (int cpu_count = 1024; cpu_count <= 65536; cpu_count *= 2) {
    std::vector<cpu_set_t> set(static_cast<std::size_t>(cpu_count) / (8 * sizeof(cpu_set_t)));
    const std::size_t size_bytes = set.size() * sizeof(cpu_set_t);
    // EINVAL says that the kernel's mask is larger than ours.
    if (sched_getaffinity(0, size_bytes, set.data()) == 0)
      return static_cast<unsigned>(CPU_COUNT_S(size_bytes, set.data()));
  }
  return 1;
}

}  // namespace

unsigned cpu_quota(const std::string& root) {
  const std::vector<std::string> mountinfo = lines_of(root + "/proc/self/mountinfo");
  const std::vector<std::string> cgroup = lines_of(root + "/proc/self/cgroup");
  return lesser_limit(least_quota(root, mountinfo, cgroup, true),
                      least_quota(root, mountinfo, cgroup, false));
}

unsigned default_workers(unsigned quota, unsigned cpus) {
  const unsigned shared = cpus / 2 + cpus % 2;
  return std::max(1U, quota != 0 ? lesser_limit(quota, cpus) : shared);
}

unsigned default_workers() { return default_workers(cpu_quota(""), affinity_count()); }

}  // namespace fairlead::config
