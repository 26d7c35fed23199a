// A thin front to spdlog. Each line is a LogEvent with fixed keys, in logfmt or JSON. wire and smc
// may not include this file.
//
// Lines are written to standard error. A program with workers declares a LogQueue in main(): then a
// thread of its own writes them, and a standard error that nobody reads stops nobody else.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fairlead {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat : std::uint8_t { kLogfmt, kJson };

std::optional<LogLevel> log_level_from(std::string_view name);
std::string_view to_string(LogLevel level);

// Thread-safe. Before log_start() everything goes to stderr at info.
void log_start(LogLevel level, LogFormat format);
void log_set_level(LogLevel level);
LogLevel log_level();
inline bool log_enabled(LogLevel level) { return level >= log_level(); }

// Lines that wait for the writing thread at a time. Beyond that the oldest is dropped.
inline constexpr std::size_t kLogQueueLines = 4096;
// How long the end of a process waits for lines to be written, and how long its abort does.
inline constexpr std::chrono::milliseconds kLogEndWait{1000};
inline constexpr std::chrono::milliseconds kLogAbortWait{200};

// From the first LogQueue of a process on, every line goes through its queue. The destructor waits
// until the lines so far are written, for at most kLogEndWait. The thread is not joined: it may
// hang in write(2) until the process ends.
class LogQueue {
 public:
  LogQueue();
  ~LogQueue();
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;
};

// Waits until all lines of the calling thread so far are written. False when that takes longer.
bool log_flush(std::chrono::milliseconds wait_max);
// Lines that were dropped because the queue was full, since the start.
std::uint64_t log_dropped_lines();

// Receives every line without its time, instead of standard error; nullptr ends that. For programs
// of one thread that have no LogQueue.
using LogReceiver = void (*)(std::string_view line);
void log_set_receiver(LogReceiver receiver);

// Writes a line that another program has composed, complete but for its end. It goes the way of all
// others.
void log_foreign_line(std::string_view line);

// One line: time, level, `logger` ("smc.fallback", "relay", …), then key=value pairs in the order
// given. Values with spaces or quotes are quoted. Written when the object dies.
class LogEvent {
 public:
  LogEvent(LogLevel level, std::string_view logger, std::string_view event);
  LogEvent(const LogEvent&) = delete;
  LogEvent& operator=(const LogEvent&) = delete;
  ~LogEvent();

  LogEvent& field(std::string_view key, std::string_view value);
  LogEvent& field(std::string_view key, std::uint64_t value);
  LogEvent& code(std::string_view key, std::uint32_t value);     // 0x%08x; 0 prints "-"
  LogEvent& milliseconds(std::string_view key, double seconds);  // one decimal

 private:
  bool enabled_;
  std::string line_;
};

}  // namespace fairlead
