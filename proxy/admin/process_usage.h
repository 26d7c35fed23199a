// What the kernel says about this process, for the process_* metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fairlead::admin {

struct ProcessUsage {
  double cpu_seconds = 0;
  double start_time_seconds = 0;  // since 1970; 0 when unknown
  std::uint64_t resident_bytes = 0;
  std::uint64_t open_fds = 0;
  std::uint64_t max_fds = 0;
};

// Reads /proc/self. What cannot be read stays 0.
ProcessUsage read_process_usage();

// Units of the kernel, as in the text.
struct ProcessStat {
  std::uint64_t cpu_ticks = 0;    // user and system
  std::uint64_t start_ticks = 0;  // since boot
  std::uint64_t resident_pages = 0;
};

// The line of /proc/PID/stat, proc(5). The name in it may hold spaces and parentheses.
std::optional<ProcessStat> parse_process_stat(std::string_view line);

// The line `btime SECONDS` of /proc/stat.
std::optional<std::uint64_t> parse_boot_time(std::string_view text);

}  // namespace fairlead::admin
