#include "base/assert.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/linux/stderr_line.h"

namespace fairlead::detail {
namespace {

// Standard error may be a pipe that nobody reads and that other processes fill, too. Then a signal
// ends the wait.
constexpr unsigned kAbortWaitSeconds = 2;

std::atomic<AbortHook> g_abort_hook{nullptr};

// One line of bounded length, without allocation.
class Line {
 public:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) noexcept {
    va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text_ + used_, sizeof text_ - used_, format, arguments);
    va_end(arguments);
    if (length > 0) used_ = std::min(used_ + static_cast<std::size_t>(length), sizeof text_ - 1);
  }
  std::string_view view() const noexcept { return {text_, used_}; }

 private:
  char text_[1024] = {};
  std::size_t used_ = 0;
};

void abort_after_wait() noexcept {
  (void)std::signal(SIGALRM, [](int) { std::abort(); });
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  (void)::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  (void)::alarm(kAbortWaitSeconds);
}

}  // namespace

void set_abort_hook(AbortHook hook) noexcept { g_abort_hook.store(hook); }

void assertion_failed(const char* expression, const char* file, int line, const char* names,
                      const std::uint64_t* values, unsigned count) noexcept {
  Line text;
  text.add("%s:%d: assertion failed: %s", file, line, expression);
  if (count != 0) text.add("; (%s) are", names);
  for (unsigned i = 0; i < count; ++i)
    text.add(" %llu (0x%llx)", static_cast<unsigned long long>(values[i]),
             static_cast<unsigned long long>(values[i]));
  text.add("\n");
  abort_after_wait();
  // The hook is not called again by an assertion inside of it.
  if (const AbortHook hook = g_abort_hook.exchange(nullptr)) hook();
  write_stderr_line(text.view());
  std::abort();
}

}  // namespace fairlead::detail
