// Shared state of a simulation: the virtual clock with its events, random numbers, the trace of
// past events, and the result.
#pragma once

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/digest.h"
#include "sim/random.h"

namespace fairlead::sim {

class EventFile;

inline constexpr std::size_t kTraceLines = 400;

class World {
 public:
  explicit World(std::uint64_t begin) : seed(begin), random(begin), ties_(random.fork()) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Starts at a second, because zero could be taken for "not set".
  TimePoint now() const { return now_; }

  // Events that are due at the same instant run in an order drawn from the seed.
  void at(TimePoint when, std::function<void()> what) {
    events_.push_back({std::max(when, now_), ties_.next(), std::move(what)});
    std::push_heap(events_.begin(), events_.end(), later);
  }
  void after(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  // Runs the next event. False if there is none, none before `until`, or the simulation has failed.
  bool step(TimePoint until) {
    if (failure_ || events_.empty() || events_.front().when > until) return false;
    std::pop_heap(events_.begin(), events_.end(), later);
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.when;
    ++steps_;
    event.what();
    return true;
  }
  std::uint64_t steps() const { return steps_; }
  // Removes all pending events and frees their objects.
  void forget_all() { events_.clear(); }

  // Keeps only the first failure, because later ones may result from it.
  __attribute__((format(printf, 2, 3))) void fail(const char* format, ...) {
    if (failure_) return;
    va_list arguments;
    va_start(arguments, format);
    failure_ = formatted(format, arguments);
    va_end(arguments);
    trace("FAILED: %s", failure_->c_str());
  }
  const std::optional<std::string>& failure() const { return failure_; }

  __attribute__((format(printf, 2, 3))) void trace(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::string text = formatted(format, arguments);
    va_end(arguments);
    if (print_trace) std::fprintf(stderr, "%14.6f %s\n", seconds(now_), text.c_str());
    lines_[line_count_++ % kTraceLines] = {now_, std::move(text)};
  }
  // The last lines of the trace, oldest first.
  void write_trace(std::FILE* out, std::size_t count_max) const {
    const std::size_t count = std::min({line_count_, kTraceLines, count_max});
    for (std::size_t i = line_count_ - count; i < line_count_; ++i) {
      const Line& line = lines_[i % kTraceLines];
      std::fprintf(out, "%14.6f %s\n", seconds(line.when), line.text.c_str());
    }
  }

  // Begins a record of the digest. nullptr without a digest, which is the usual case.
  Digest* record(const char* kind) { return digest ? &digest->begin(kind, now_) : nullptr; }

  const std::uint64_t seed;
  Random random;
  std::optional<Digest> digest;
  bool print_trace = false;
  std::uint64_t tcp_connections = 0;  // that there have been
  EventFile* events = nullptr;        // not owned; null: nothing is written

 private:
  struct Event {
    TimePoint when;
    std::uint64_t tie = 0;
    std::function<void()> what;
  };
  struct Line {
    TimePoint when;
    std::string text;
  };
  static bool later(const Event& a, const Event& b) {
    return std::pair(a.when, a.tie) > std::pair(b.when, b.tie);
  }
  static double seconds(TimePoint when) {
    return std::chrono::duration<double>(when.time_since_epoch()).count();
  }
  static std::string formatted(const char* format, va_list arguments) {
    char text[240];
    std::vsnprintf(text, sizeof text, format, arguments);
    return text;
  }

  TimePoint now_{std::chrono::seconds(1)};
  Random ties_;
  std::vector<Event> events_;
  std::uint64_t steps_ = 0;
  std::optional<std::string> failure_;
  std::array<Line, kTraceLines> lines_;
  std::size_t line_count_ = 0;
};

}  // namespace fairlead::sim
