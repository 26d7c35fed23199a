#include "smc/group/link.h"

#include <algorithm>

namespace fairlead::smc {

std::optional<TimePoint> Link::test_deadline(Duration interval) const {
  if (state_ != LinkState::kActive) return std::nullopt;
  if (test_sent_) return *test_sent_ + kLlcAnswerWait;
  if (doubted_) return doubted_;
  if (interval == Duration::zero()) return std::nullopt;
  return last_received_ + interval;
}

Link::TestStep Link::handle_test_deadline(TimePoint now, Duration interval) {
  const std::optional<TimePoint> due = test_deadline(interval);
  if (!due || now < *due) return TestStep::kNothing;
  if (!test_sent_) {
    test_sent_ = now;
    doubted_.reset();
    ++test_count_;
    return TestStep::kSend;
  }
  // Other traffic may have queued before the answer, and proves the peer alive just as well.
  if (last_received_ > *test_sent_) {
    test_sent_.reset();
    disowned_ = false;
    return TestStep::kNothing;
  }
  return TestStep::kDead;
}

std::array<std::byte, 16> Link::test_data() const {
  std::array<std::byte, 16> data{};
  for (std::size_t i = 0; i < 8; ++i) data[i] = static_cast<std::byte>(test_count_ >> (8 * i));
  return data;
}

std::optional<Duration> Link::handle_test_response(const std::array<std::byte, 16>& data,
                                                   TimePoint now) {
  if (!test_sent_ || data != test_data()) return std::nullopt;
  const Duration round_trip = now - *test_sent_;
  test_sent_.reset();
  disowned_ = false;
  return round_trip;
}

}  // namespace fairlead::smc
