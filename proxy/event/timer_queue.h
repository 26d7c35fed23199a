// Deadlines of many objects under one clock, which the owner turns. No system calls.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "base/time.h"

namespace fairlead::event {

class Timer;

class TimerQueue {
 public:
  Deadline next_deadline() const;
  // Calls each timer that is due, in order of time; timers set meanwhile to a time that has passed
  // run in the next call.
  void run(TimePoint now);

 private:
  friend class Timer;
  std::multimap<TimePoint, Timer*> timers_;
};

// Belongs to the object that waits; destroying it cancels. The queue outlives its timers.
class Timer {
 public:
  Timer(TimerQueue& queue, std::function<void()> handler)
      : queue_(queue), handler_(std::move(handler)) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void set(TimePoint deadline);
  void set(Deadline deadline) { deadline ? set(*deadline) : cancel(); }
  void cancel();
  bool pending() const { return place_.has_value(); }

 private:
  friend class TimerQueue;
  TimerQueue& queue_;
  std::function<void()> handler_;
  std::optional<std::multimap<TimePoint, Timer*>::iterator> place_;
};

}  // namespace fairlead::event
