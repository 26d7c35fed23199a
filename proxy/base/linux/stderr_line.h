// The last resort of a process that cannot use its log: one line to standard error, which never
// waits for a reader for long.
#pragma once

#include <string_view>

namespace fairlead {

// How long a line waits for room in standard error before it is given up.
inline constexpr int kStderrWaitMilliseconds = 200;

// Writes `line` with write(2). A pipe without room after kStderrWaitMilliseconds loses it. Lines of
// up to PIPE_BUF bytes are written whole. Thread-safe and async-signal-safe.
void write_stderr_line(std::string_view line) noexcept;

}  // namespace fairlead
