#include "cni/node/broker/broker_shares.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fairlead::cni::node {

BrokerShares::BrokerShares(std::size_t descriptors_max, std::function<double()> kernel_share)
    : waiting_max_(descriptors_max / 4),
      buffers_max_(std::min(descriptors_max / 2, kBuffersPerNodeMax)),
      kernel_share_(std::move(kernel_share)) {}

BrokerShares::Share::~Share() {
  remove(&Held::waiting, held_.waiting);
  remove(&Held::grants, held_.grants);
  remove(&Held::buffers, held_.buffers);
}

bool BrokerShares::Share::may_wait(std::size_t descriptors) const {
  if (descriptors == 0) return true;
  const bool scarce = node_.held_.waiting >= node_.waiting_max_ / 4 * 3;
  return node_.held_.waiting + descriptors <= node_.waiting_max_ &&
         held_.waiting + descriptors <= (scarce ? kWaitingPerPodWhenScarce : kWaitingPerPodMax);
}

bool BrokerShares::Share::may_hold_grant() const {
  return node_.held_.grants < kHeldGrantsMax && held_.grants < kHeldGrantsPerPodMax;
}

bool BrokerShares::Share::may_have_buffer() const {
  const bool scarce = node_.held_.buffers >= node_.buffers_max_ / 4 * 3;
  return node_.held_.buffers < node_.buffers_max_ &&
         held_.buffers < (scarce ? kBuffersPerPodWhenScarce : kBuffersPerPodMax);
}

void BrokerShares::Share::forget_given(TimePoint now) {
  const std::chrono::duration<double> passed = given_at_ ? now - *given_at_ : Duration::zero();
  given_at_ = now;
  // While memory is short, a pod may still hold everything that it was given, so nothing is
  // forgotten.
  if (node_.share_ < kStrainedShare)
    given_bytes_ = std::max(0.0, given_bytes_ - passed.count() * kForgottenBytesPerSecond);
}

bool BrokerShares::Share::may_give(TimePoint now) {
  if (!node_.looked_at_ || now - *node_.looked_at_ >= kMemoryLookInterval) {
    node_.looked_at_ = now;
    node_.share_ = node_.kernel_share_();
  }
  if (node_.share_ >= kFullShare) return false;
  forget_given(now);
  return given_bytes_ <= kGivenWhenStrainedBytes || node_.share_ < kStrainedShare;
}

void BrokerShares::Share::given(double kernel_bytes, TimePoint now) {
  forget_given(now);
  given_bytes_ += kernel_bytes;
}

}  // namespace fairlead::cni::node
