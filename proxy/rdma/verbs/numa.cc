#include "rdma/verbs/numa.h"
#include "base/linux/files.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace fairlead::rdma::verbs {
namespace {

namespace fs = std::filesystem;

constexpr int kProcessorsMax = 4096;
constexpr std::string_view kNodePrefix = "node";

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::set<int> parse_number_list(const std::string& text) {
  std::set<int> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t dash = entry.find('-');
    const auto first = number_in(entry.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_in(entry.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kProcessorsMax) return {};
    for (int number = *first; number <= *last; ++number) numbers.insert(number);
  }
  return numbers;
}

std::optional<int> numa_node_of(const std::string& rnic, const std::string& sysfs) {
  const std::optional<int> node =
      number_in(first_line(fs::path(sysfs) / "class/infiniband" / rnic / "device/numa_node"));
  return node && *node >= 0 ? node : std::nullopt;
}

std::set<int> numa_nodes_of(const std::set<int>& processors, const std::string& sysfs) {
  std::set<int> nodes;
  std::error_code error;
  // A range-for over it throws when reading the directory fails.
  for (fs::directory_iterator entry(fs::path(sysfs) / "devices/system/node", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kNodePrefix)) continue;
    const auto number = number_in(std::string_view(name).substr(kNodePrefix.size()));
    if (!number) continue;
    for (const int processor : parse_number_list(first_line(entry->path() / "cpulist")))
      if (processors.contains(processor)) nodes.insert(*number);
  }
  return nodes;
}

std::set<int> allowed_processors() {
  std::set<int> processors;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int number = 0; number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(static_cast<std::size_t>(number), &set)) processors.insert(number);
  return processors;
}

std::vector<std::string> near_first(const std::vector<RnicPlace>& rnics,
                                    const std::set<int>& own_nodes) {
  std::vector<std::string> names;
  for (const bool near : {true, false})
    for (const RnicPlace& rnic : rnics)
      if ((!rnic.numa_node || own_nodes.empty() || own_nodes.contains(*rnic.numa_node)) == near)
        names.push_back(rnic.name);
  return names;
}

}  // namespace fairlead::rdma::verbs
