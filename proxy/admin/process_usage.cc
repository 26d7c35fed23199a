#include "admin/process_usage.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <string>

#include "base/linux/files.h"
#include "base/linux/handle.h"

namespace fairlead::admin {
namespace {

// Numbers of the fields in proc(5), counted from the state, which is field 3.
constexpr int kUserTicksField = 14 - 3;
constexpr int kSystemTicksField = 15 - 3;
constexpr int kStartTicksField = 22 - 3;
constexpr int kResidentPagesField = 24 - 3;
constexpr std::size_t kProcFileBytesMax = 4 << 20;  // interrupts of many processors

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::uint64_t count_open_fds() {
  const Handle<DIR, closedir> folder(opendir("/proc/self/fd"));
  if (!folder) return 0;
  std::uint64_t count = 0;
  while (const dirent* entry = readdir(folder.get()))
    if (entry->d_name[0] != '.') ++count;
  return count > 0 ? count - 1 : 0;  // the folder's own
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view line) {
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 > line.size()) return std::nullopt;
  std::string_view rest = line.substr(name_end + 2);
  ProcessStat stat;
  for (int field = 0; field <= kResidentPagesField; ++field) {
    const std::size_t space = rest.find(' ');
    const std::string_view text = rest.substr(0, space);
    if (field == kUserTicksField || field == kSystemTicksField || field == kStartTicksField ||
        field == kResidentPagesField) {
      const auto number = parse_number(text);
      if (!number) return std::nullopt;
      if (field == kStartTicksField)
        stat.start_ticks = *number;
      else if (field == kResidentPagesField)
        stat.resident_pages = *number;
      else
        stat.cpu_ticks += *number;
    }
    if (space == std::string_view::npos && field < kResidentPagesField) return std::nullopt;
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
  }
  return stat;
}

std::optional<std::uint64_t> parse_boot_time(std::string_view text) {
  constexpr std::string_view kKey = "\nbtime ";
  const std::size_t at = text.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  return parse_number(text.substr(at + kKey.size()));
}

ProcessUsage read_process_usage() {
  ProcessUsage usage;
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (const auto stat =
          parse_process_stat(read_file("/proc/self/stat", kProcFileBytesMax).value_or(""))) {
    usage.cpu_seconds = static_cast<double>(stat->cpu_ticks) / ticks_per_second;
    usage.resident_bytes = stat->resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    if (const auto boot = parse_boot_time(read_file("/proc/stat", kProcFileBytesMax).value_or("")))
      usage.start_time_seconds =
          static_cast<double>(*boot) + static_cast<double>(stat->start_ticks) / ticks_per_second;
  }
  usage.open_fds = count_open_fds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.max_fds = limit.rlim_cur;
  return usage;
}

}  // namespace fairlead::admin
