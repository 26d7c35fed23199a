#include "cni/node/broker/pod_credits.h"

#include <algorithm>

namespace fairlead::cni::node {

std::optional<Duration> PodCredits::spend(TimePoint now) {
  const std::chrono::duration<double> passed = counted_at_ ? now - *counted_at_ : Duration::zero();
  counted_at_ = now;
  requests_ = std::min(kRequestsBurst, requests_ + passed.count() * kRequestsPerSecond);
  if (requests_ >= 1) {
    requests_ -= 1;
    return std::nullopt;
  }
  const std::chrono::duration<double> missing((1 - requests_) / kRequestsPerSecond);
  return std::chrono::ceil<std::chrono::milliseconds>(missing);
}

void PodCredits::charge_time(Duration processor_time) {
  const double requests = std::chrono::duration<double>(processor_time) /
                          std::chrono::duration<double>(kTimePerRequest);
  if (requests > 1) charge(requests - 1);
}

}  // namespace fairlead::cni::node
