// When to poll instead of blocking. Waking a sleeping CPU costs more than a small message does, so
// a worker that expects an answer polls for a while. Three rules protect other threads from that:
//
//   budget     fruitless polling may use `share_max` percent of a core, from a bucket of kBucket;
//              successful polling is free, because it replaces a wake-up
//   courtesy   the core is always offered to others (sched_yield); if somebody keeps it longer than
//              kYieldMax, polling stops for a time, which doubles if this soon happens again
//   idleness   nothing is polled for unless something has happened since the last wait
//
// Pure: takes times, and returns advice.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace fairlead::relay {

class SpinBudget {
 public:
  static constexpr Duration kBucket = std::chrono::milliseconds(5);
  static constexpr Duration kYieldMax = std::chrono::milliseconds(1);
  static constexpr Duration kBackoffMin = std::chrono::milliseconds(20);
  static constexpr Duration kBackoffMax = std::chrono::seconds(4);

  SpinBudget(Duration limit, unsigned share_max_percent)
      : limit_(limit), share_(share_max_percent), credit_(kBucket) {}

  // How long to poll from `now`; 0 is not at all.
  Duration allowance(TimePoint now) {
    if (limit_ == Duration::zero() || now < barred_until_) return Duration::zero();
    refill(now);
    return share_ >= 100 ? limit_ : std::min(limit_, credit_);
  }

  // Polling ended after `spent` without result.
  void miss(Duration spent) { credit_ = std::max(credit_ - spent, Duration::zero()); }

  // A yield took this long. True when polling must stop.
  bool yielded(Duration took, TimePoint now) {
    if (took < kYieldMax) return false;
    backoff_ =
        now - barred_until_ > 4 * backoff_ ? kBackoffMin : std::min(2 * backoff_, kBackoffMax);
    barred_until_ = now + backoff_;
    return true;
  }

 private:
  void refill(TimePoint now) {
    if (last_ != TimePoint{}) credit_ = std::min(kBucket, credit_ + (now - last_) * share_ / 100);
    last_ = now;
  }

  Duration limit_;
  unsigned share_;
  Duration credit_;
  Duration backoff_ = kBackoffMin;
  TimePoint last_{};
  TimePoint barred_until_{};
};

}  // namespace fairlead::relay
