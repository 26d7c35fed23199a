#include "event/timer_queue.h"

namespace fairlead::event {

std::optional<TimePoint> TimerQueue::next_deadline() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first;
}

void TimerQueue::run(TimePoint now) {
  // One set again for a time that has passed waits for the next call, or this would never end.
  std::size_t left = timers_.size();
  while (left-- != 0 && !timers_.empty() && timers_.begin()->first <= now) {
    Timer* timer = timers_.begin()->second;
    timer->cancel();
    timer->handler_();
  }
}

void Timer::set(TimePoint deadline) {
  if (place_) {
    if ((*place_)->first == deadline) return;
    cancel();
  }
  place_ = queue_.timers_.emplace(deadline, this);
}

void Timer::cancel() {
  if (!place_) return;
  queue_.timers_.erase(*place_);
  place_.reset();
}

}  // namespace fairlead::event
