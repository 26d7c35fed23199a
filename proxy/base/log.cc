#include "base/log.h"

#include <poll.h>
#include <pthread.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>

#include "base/assert.h"
#include "base/utc_time.h"

namespace fairlead {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info",
                                                    "warn",  "error", "off"};

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kLogfmt};

std::string now_text() { return utc_text(std::chrono::system_clock::now()); }

// Of one value in a line. The rest is cut, so that the memory of a line is bounded.
constexpr std::size_t kValueBytesMax = 2048;
constexpr std::string_view kCutMark = "...(cut)";

// The first bytes of a value that is too long, up to the begin of a UTF-8 character.
std::string_view first_bytes(std::string_view value) {
  if (value.size() <= kValueBytesMax) return value;
  constexpr std::size_t kCharacterBytesMax = 4;
  const auto continues = [&value](std::size_t at) {
    return (static_cast<unsigned char>(value[at]) & 0xc0U) == 0x80U;
  };
  std::size_t end = kValueBytesMax;
  while (end > kValueBytesMax - kCharacterBytesMax && continues(end)) --end;
  return value.substr(0, end);
}

bool needs_quotes(std::string_view value) {
  if (value.empty()) return true;
  for (char c : value)
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || static_cast<unsigned char>(c) >= 0x7f)
      return true;
  return false;
}

void append_quoted(std::string& out, std::string_view value) {
  out += '"';
  for (char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string begin_line(LogLevel level, std::string_view logger) {
  if (g_format == LogFormat::kJson)
    return fmt::format(R"({{"time":"{}","level":"{}","logger":"{}")", now_text(), to_string(level),
                       logger);
  return fmt::format("{} {} {}", now_text(), upper(to_string(level)), logger);
}

void append_whole(std::string& line, std::string_view key, std::string_view value) {
  if (g_format == LogFormat::kJson) {
    line += ',';
    append_quoted(line, key);
    line += ':';
    append_quoted(line, value);
  } else {
    line += ' ';
    line += key;
    line += '=';
    if (needs_quotes(value))
      append_quoted(line, value);
    else
      line += value;
  }
}

void append_field(std::string& line, std::string_view key, std::string_view value) {
  const std::string_view first = first_bytes(value);
  if (first.size() == value.size()) return append_whole(line, key, value);
  append_whole(line, key, std::string(first).append(kCutMark));
}

void append_number(std::string& line, std::string_view key, std::uint64_t value) {
  if (g_format == LogFormat::kJson)
    line += fmt::format(",\"{}\":{}", key, value);
  else
    line += fmt::format(" {}={}", key, value);
}

void end_line(std::string& line) {
  if (g_format == LogFormat::kJson) line += '}';
}

// A reader that is slow for long makes one line about it in this time.
constexpr auto kDropLineInterval = std::chrono::seconds(1);

// Writes without stdio, whose lock a thread in write(2) would keep from the end of the process.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StderrSink(std::function<std::uint64_t()> dropped = {},
                      std::function<bool()> is_last = {})
      : dropped_(std::move(dropped)), is_last_(std::move(is_last)) {}

  // False when `wait_max` passes before the flush that was asked for by `ask`.
  bool wait_for_flush(std::chrono::milliseconds wait_max, const std::function<void()>& ask) {
    std::unique_lock lock(flush_mutex_);
    const std::uint64_t before = flushes_;
    lock.unlock();
    ask();
    lock.lock();
    return flushed_.wait_for(lock, wait_max, [&] { return flushes_ != before; });
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string line(message.payload.data(), message.payload.size());
    line += '\n';
    write_all(line);
    if (dropped_) report_dropped();
  }
  void flush_() override {
    const std::lock_guard lock(flush_mutex_);
    ++flushes_;
    flushed_.notify_all();
  }

  void report_dropped() {
    const std::uint64_t total = dropped_();
    if (total == reported_) return;
    const auto now = std::chrono::steady_clock::now();
    if (!is_last_() && now - reported_at_ < kDropLineInterval) return;
    std::string line = begin_line(LogLevel::kWarn, "log");
    append_field(line, "event", "dropped");
    append_number(line, "lines", total - reported_);
    append_number(line, "total", total);
    append_field(line, "hint", "whoever reads standard error was too slow for this log level");
    end_line(line);
    line += '\n';
    reported_ = total;
    reported_at_ = now;
    if (log_enabled(LogLevel::kWarn)) write_all(line);
  }

  static void write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
      if (n > 0) {
        text.remove_prefix(static_cast<std::size_t>(n));
      } else if (n < 0 && errno == EAGAIN) {
        // Somebody who shares the pipe has made it non-blocking.
        pollfd room{STDERR_FILENO, POLLOUT, 0};
        if (::poll(&room, 1, -1) < 0 && errno != EINTR) return;
      } else if (n == 0 || errno != EINTR) {
        return;  // nobody will ever read it
      }
    }
  }

  std::function<std::uint64_t()> dropped_;
  std::function<bool()> is_last_;
  std::uint64_t reported_ = 0;
  std::chrono::steady_clock::time_point reported_at_{};
  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  std::uint64_t flushes_ = 0;
};

// spdlog's queue and thread. Never destroyed, because its thread may hang in write(2) when the
// process ends.
class Queue {
 public:
  Queue()
      : pool_(make_pool()),
        sink_(std::make_shared<StderrSink>([this] { return dropped(); },
                                           [this] { return pool_->queue_size() == 0; })),
        logger_(std::make_shared<spdlog::async_logger>(
            "fairlead", sink_, pool_, spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_level(spdlog::level::trace);
    logger_->flush_on(spdlog::level::off);
  }

  void write(const std::string& line) { logger_->log(spdlog::level::info, line); }
  bool flush(std::chrono::milliseconds wait_max) {
    return sink_->wait_for_flush(wait_max, [this] { logger_->flush(); });
  }
  std::uint64_t dropped() { return pool_->overrun_counter(); }

 private:
  // The thread takes no signal: they are for main().
  static std::shared_ptr<spdlog::details::thread_pool> make_pool() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    auto pool = std::make_shared<spdlog::details::thread_pool>(kLogQueueLines, 1);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return pool;
  }

  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<StderrSink> sink_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

std::atomic<Queue*> g_queue{nullptr};

std::atomic<LogReceiver> g_receiver{nullptr};

// REQUIRES: a line in logfmt
std::string_view without_time(std::string_view line) { return line.substr(line.find(' ') + 1); }

void write_line(const std::string& line) {
  if (const LogReceiver receiver = g_receiver.load(std::memory_order_relaxed))
    return receiver(without_time(line));
  if (Queue* queue = g_queue.load(std::memory_order_acquire)) return queue->write(line);
  static StderrSink& direct = *new StderrSink;  // threads may log until the process ends
  direct.log(spdlog::details::log_msg({}, spdlog::level::info, line));
}

}  // namespace

std::optional<LogLevel> log_level_from(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  return std::nullopt;
}

std::string_view to_string(LogLevel level) { return kNames[static_cast<std::size_t>(level)]; }

void log_start(LogLevel level, LogFormat format) {
  g_level = level;
  g_format = format;
}
void log_set_receiver(LogReceiver receiver) { g_receiver = receiver; }
void log_set_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level.load(std::memory_order_relaxed); }

LogQueue::LogQueue() {
  if (g_queue.load() != nullptr) return;
  g_queue.store(new Queue, std::memory_order_release);
  detail::set_abort_hook([]() noexcept { (void)log_flush(kLogAbortWait); });
}

LogQueue::~LogQueue() { (void)log_flush(kLogEndWait); }

bool log_flush(std::chrono::milliseconds wait_max) {
  Queue* queue = g_queue.load(std::memory_order_acquire);
  return queue == nullptr || queue->flush(wait_max);
}

std::uint64_t log_dropped_lines() {
  Queue* queue = g_queue.load(std::memory_order_acquire);
  return queue == nullptr ? 0 : queue->dropped();
}

void log_foreign_line(std::string_view line) { write_line(std::string(line)); }

LogEvent::LogEvent(LogLevel level, std::string_view logger, std::string_view event)
    : enabled_(log_enabled(level)) {
  if (!enabled_) return;
  line_ = begin_line(level, logger);
  field("event", event);
}

LogEvent::~LogEvent() {
  if (!enabled_) return;
  end_line(line_);
  write_line(line_);
}

LogEvent& LogEvent::field(std::string_view key, std::string_view value) {
  if (enabled_) append_field(line_, key, value);
  return *this;
}

LogEvent& LogEvent::field(std::string_view key, std::uint64_t value) {
  if (enabled_) append_number(line_, key, value);
  return *this;
}

LogEvent& LogEvent::code(std::string_view key, std::uint32_t value) {
  if (!enabled_) return *this;
  return field(key, value == 0 ? std::string("-") : fmt::format("0x{:08x}", value));
}

LogEvent& LogEvent::milliseconds(std::string_view key, double seconds) {
  if (!enabled_) return *this;
  return field(key, fmt::format("{:.1f}", seconds * 1e3));
}

}  // namespace fairlead
