#include "cni/node/broker/broker_shares.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fairlead::cni::node {

BrokerShares::BrokerShares(std::size_t descriptors_max, std::function<double()> kernel_share)
    : waiting_max_(descriptors_max / 4), kernel_share_(std::move(kernel_share)) {}

const BrokerShares::Pod* BrokerShares::find(const std::string& pod) const {
  const auto found = pods_.find(pod);
  return found == pods_.end() ? nullptr : &found->second;
}

bool BrokerShares::may_wait(const std::string& pod, std::size_t descriptors) const {
  if (descriptors == 0) return true;
  const bool scarce = waiting_ >= waiting_max_ / 4 * 3;
  const Pod* known = find(pod);
  const std::size_t own = known == nullptr ? 0 : known->waiting;
  return waiting_ + descriptors <= waiting_max_ &&
         own + descriptors <= (scarce ? kWaitingPerPodWhenScarce : kWaitingPerPodMax);
}

void BrokerShares::change_waiting(const std::string& pod, std::size_t before, std::size_t after) {
  if (before == after) return;
  Pod& own = pods_[pod];
  own.waiting += after - before;
  waiting_ += after - before;
}

bool BrokerShares::may_hold_grant(const std::string& pod) const {
  const Pod* known = find(pod);
  return grants_ < kHeldGrantsMax && (known == nullptr || known->grants < kHeldGrantsPerPodMax);
}

void BrokerShares::grant_held(const std::string& pod) {
  ++pods_[pod].grants;
  ++grants_;
}

void BrokerShares::grant_let_go(const std::string& pod) {
  --pods_[pod].grants;
  --grants_;
}

BrokerShares::Pod& BrokerShares::given_of(const std::string& pod, TimePoint now) {
  Pod& own = pods_[pod];
  const std::chrono::duration<double> passed =
      own.given_at ? now - *own.given_at : Duration::zero();
  own.given_at = now;
  // While memory is short, a pod may still hold everything that it was given, so nothing is
  // forgotten.
  if (share_ < kStrainedShare)
    own.given_bytes = std::max(0.0, own.given_bytes - passed.count() * kForgottenBytesPerSecond);
  return own;
}

bool BrokerShares::may_give(const std::string& pod, TimePoint now) {
  if (!looked_at_ || now - *looked_at_ >= kMemoryLookInterval) {
    looked_at_ = now;
    share_ = kernel_share_();
  }
  if (share_ >= kFullShare) return false;
  return given_of(pod, now).given_bytes <= kGivenWhenStrainedBytes || share_ < kStrainedShare;
}

void BrokerShares::given(const std::string& pod, double kernel_bytes, TimePoint now) {
  given_of(pod, now).given_bytes += kernel_bytes;
}

}  // namespace fairlead::cni::node
