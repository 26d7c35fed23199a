// Log lines that strangers can cause, at a bounded rate. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/line_pace.h"
#include "base/log.h"
#include "base/time.h"

namespace fairlead {

// The rate for lines of one kind where the caller has no reason for another one.
inline constexpr unsigned kRemoteLines = 10;
inline constexpr Duration kRemoteLineInterval = std::chrono::seconds(1);

// Writes a line if `pace` admits it; fill(LogEvent&) adds its fields. The field `left_out` says how
// many lines the pace has left out since the last one. A level that is not logged costs no turn.
template <class Fill>
void write_paced(LinePace& pace, LogLevel level, std::string_view logger, std::string_view event,
                 TimePoint now, Fill&& fill) {
  if (!log_enabled(level)) return;
  const std::optional<std::uint64_t> left_out = pace.admit(now);
  if (!left_out) return;
  LogEvent line(level, logger, event);
  fill(line);
  if (*left_out != 0) line.field("left_out", *left_out);
}

// A pace for each kind of line, so that one kind does not hide another.
class PacedLines {
 public:
  explicit PacedLines(unsigned burst = kRemoteLines, Duration interval = kRemoteLineInterval)
      : burst_(burst), interval_(interval) {}

  // `logger` and `event` are string literals: there are as many paces as calls in the program.
  template <class Fill>
  void write(LogLevel level, std::string_view logger, std::string_view event, TimePoint now,
             Fill&& fill) {
    LinePace& pace = paces_.try_emplace({logger, event}, burst_, interval_).first->second;
    write_paced(pace, level, logger, event, now, std::forward<Fill>(fill));
  }

 private:
  unsigned burst_;
  Duration interval_;
  std::map<std::pair<std::string_view, std::string_view>, LinePace> paces_;
};

}  // namespace fairlead
