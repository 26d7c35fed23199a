#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <ctime>
#include <memory>

namespace fairlead {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info",
                                                    "warn",  "error", "off"};

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kLogfmt};

// spdlog gives the thread-safe sink; the line is ours, because its keys are a documented interface.
spdlog::logger& sink() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("fairlead",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

std::string now_text() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now.tv_nsec / 1000000);
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
void log_set_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level.load(std::memory_order_relaxed); }

LogEvent::LogEvent(LogLevel level, std::string_view logger, std::string_view event)
    : level_(level), enabled_(log_enabled(level)) {
  if (!enabled_) return;
  if (g_format == LogFormat::kJson) {
    line_ = fmt::format(R"({{"time":"{}","level":"{}","logger":"{}")", now_text(), to_string(level),
                        logger);
  } else {
    line_ = fmt::format("{} {} {}", now_text(), upper(to_string(level)), logger);
  }
  field("event", event);
}

LogEvent::~LogEvent() {
  if (!enabled_) return;
  if (g_format == LogFormat::kJson) line_ += '}';
  sink().log(spdlog::level::info, line_);
}

LogEvent& LogEvent::field(std::string_view key, std::string_view value) {
  if (!enabled_) return *this;
  if (g_format == LogFormat::kJson) {
    line_ += ',';
    append_quoted(line_, key);
    line_ += ':';
    append_quoted(line_, value);
  } else {
    line_ += ' ';
    line_ += key;
    line_ += '=';
    if (needs_quotes(value))
      append_quoted(line_, value);
    else
      line_ += value;
  }
  return *this;
}

LogEvent& LogEvent::field(std::string_view key, std::uint64_t value) {
  if (!enabled_) return *this;
  if (g_format == LogFormat::kJson)
    line_ += fmt::format(",\"{}\":{}", key, value);
  else
    line_ += fmt::format(" {}={}", key, value);
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
