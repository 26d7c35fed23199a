#include "event/library_log.h"

#include <event2/event.h>

#include <mutex>

#include "base/assert.h"
#include "base/line_pace.h"
#include "base/log.h"

namespace fairlead::event {
namespace {

LogLevel level_of(int severity) {
  switch (severity) {
    case EVENT_LOG_DEBUG:
      return LogLevel::kDebug;
    case EVENT_LOG_MSG:
      return LogLevel::kInfo;
    case EVENT_LOG_WARN:
      return LogLevel::kWarn;
    default:
      return LogLevel::kError;
  }
}

// Strangers can make libevent warn as often as they like: each watch that the kernel refuses is a
// warning. Errors come once, before the end.
std::mutex pace_mutex;
LinePace pace{1, kLibraryLineInterval};

void on_message(int severity, const char* text) noexcept {
  std::optional<std::uint64_t> left_out;
  {
    const std::lock_guard lock(pace_mutex);
    left_out = pace.admit(std::chrono::steady_clock::now());
  }
  if (!left_out && severity != EVENT_LOG_ERR) return;
  LogEvent line(level_of(severity), "event", "libevent");
  line.field("what", text);
  if (left_out && *left_out != 0) line.field("left_out", *left_out);
}

[[noreturn]] void on_fatal(int code) noexcept {
  const auto value = static_cast<std::uint64_t>(code);
  detail::assertion_failed("libevent can go on", __FILE__, __LINE__, "code", &value, 1);
}

}  // namespace

void log_library_messages() {
  static std::once_flag once;
  std::call_once(once, [] {
    event_set_log_callback(&on_message);
    event_set_fatal_callback(&on_fatal);
  });
}

}  // namespace fairlead::event
