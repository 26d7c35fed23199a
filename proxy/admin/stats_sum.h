// Sums over the counters of several workers. Each counter is read once and without a lock, so two
// sums taken one after the other may differ by what happened in between.
#pragma once

#include <cstdint>
#include <span>

#include "base/stats.h"

namespace fairlead::admin {

using StatsSpan = std::span<const WorkerStats* const>;

// `counter_of` gives the Counter of one WorkerStats.
template <class CounterOf>
std::uint64_t sum_of(StatsSpan workers, CounterOf counter_of) {
  std::uint64_t sum = 0;
  for (const WorkerStats* stats : workers) sum += counter_of(*stats).get();
  return sum;
}

inline std::uint64_t sum_of(StatsSpan workers, Counter WorkerStats::*counter) {
  return sum_of(workers,
                [counter](const WorkerStats& stats) -> const Counter& { return stats.*counter; });
}

}  // namespace fairlead::admin
