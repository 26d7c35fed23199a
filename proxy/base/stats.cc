#include "base/stats.h"

namespace fairlead {

void Histogram::observe(double seconds) noexcept {
  std::size_t index = 0;
  while (index < kWaitBucketsSeconds.size() && seconds > kWaitBucketsSeconds[index]) ++index;
  buckets_[index].add();
  sum_nanoseconds_.add(static_cast<std::uint64_t>(seconds * 1e9));
}

}  // namespace fairlead
