// The counters as JSON, apart from the rows of json.cc only for length.
#include <array>

#include "admin/json.h"

namespace fairlead::admin {
namespace {

Json traffic_json(StatsSpan workers, Direction direction, Transport transport) {
  const auto sum = [&](Counter TrafficStats::*counter) {
    return sum_of(workers, [&](const WorkerStats& worker) -> const Counter& {
      return worker.traffic[direction][transport].*counter;
    });
  };
  return {{"total", sum(&TrafficStats::connections_total)},
          {"active", sum(&TrafficStats::connections_active)},
          {"tx_bytes", sum(&TrafficStats::tx_bytes)},
          {"rx_bytes", sum(&TrafficStats::rx_bytes)}};
}

Json direction_json(StatsSpan workers, Direction direction) {
  return {{"smcr", traffic_json(workers, direction, Transport::kSmcr)},
          {"tcp", traffic_json(workers, direction, Transport::kTcp)},
          {"short", traffic_json(workers, direction, Transport::kShort)}};
}

std::uint64_t fallback_count(StatsSpan workers) {
  std::uint64_t count = 0;
  for (const WorkerStats* worker : workers)
    for (const auto& sides : worker->fallback)
      for (const auto& reasons : sides)
        for (const Counter& reason : reasons) count += reason.get();
  return count;
}

Json handshake_json(StatsSpan workers, Histogram WorkerStats::*histogram) {
  std::uint64_t count = 0;
  std::uint64_t nanoseconds = 0;
  for (const WorkerStats* worker : workers) {
    nanoseconds += (worker->*histogram).sum_nanoseconds();
    for (std::size_t index = 0; index < Histogram::kBucketCount; ++index)
      count += (worker->*histogram).bucket(index);
  }
  return {{"count", count}, {"sum_seconds", static_cast<double>(nanoseconds) / 1e9}};
}

std::uint64_t refused_count(StatsSpan workers) {
  std::uint64_t count = 0;
  for (const WorkerStats* worker : workers)
    for (const Counter& refused : worker->refused) count += refused.get();
  return count;
}

}  // namespace

Json stats_json(StatsSpan workers) {
  const auto sum = [workers](Counter WorkerStats::*counter) { return sum_of(workers, counter); };
  using S = WorkerStats;
  return {
      {"connections",
       {{"outbound", direction_json(workers, Direction::kOutbound)},
        {"inbound", direction_json(workers, Direction::kInbound)},
        {"moved", sum(&S::connections_moved)},
        {"reset", sum(&S::connections_reset)},
        {"refused", refused_count(workers)},
        {"accept_errors", sum(&S::accept_errors)},
        {"taken_back", sum(&S::taken_back)},
        {"taken_back_lost", sum(&S::taken_back_lost)},
        {"parked_nanoseconds", sum(&S::parked_nanoseconds)}}},
      {"handshakes",
       {{"smcr", handshake_json(workers, &S::handshake_smcr)},
        {"fallback", handshake_json(workers, &S::handshake_fallback)}}},
      {"fallbacks", fallback_count(workers)},
      {"link_groups",
       {{"single", sum(&S::link_groups_single)},
        {"symmetric", sum(&S::link_groups_symmetric)},
        {"asymmetric_local", sum(&S::link_groups_asymmetric_local)},
        {"asymmetric_peer", sum(&S::link_groups_asymmetric_peer)},
        {"none", sum(&S::link_groups_none)}}},
      {"links",
       {{"active", sum(&S::links_active)},
        {"added", sum(&S::link_added)},
        {"deleted", sum(&S::link_deleted)},
        {"failed", sum(&S::link_failed)},
        {"moved", sum(&S::link_moved)},
        {"refused", sum(&S::link_refused)},
        {"test_ok", sum(&S::link_test_ok)},
        {"test_timeout", sum(&S::link_test_timeout)}}},
      {"memory",
       {{"rmb_used_bytes", sum(&S::rmb_used_bytes)},
        {"rmb_free_bytes", sum(&S::rmb_free_bytes)},
        {"pinned_bytes", sum(&S::pinned_bytes)},
        {"pinned_limit_bytes", sum(&S::pinned_limit_bytes)},
        {"buffer_full_local", sum(&S::buffer_full_local)},
        {"buffer_full_peer", sum(&S::buffer_full_peer)},
        {"buffer_downgrade", sum(&S::buffer_downgrade)}}},
      {"cdc",
       {{"sent", sum(&S::cdc_sent)},
        {"received", sum(&S::cdc_received)},
        {"rejected", sum(&S::cdc_rejected)}}},
      {"llc",
       {{"sent", sum(&S::llc_sent)},
        {"received", sum(&S::llc_received)},
        {"rejected", sum(&S::llc_rejected)}}},
      {"loop",
       {{"turns", sum(&S::loop_turns)},
        {"receive_queue_low", sum(&S::receive_limit_events)},
        {"spin_hits", sum(&S::spin_hits)},
        {"spin_misses", sum(&S::spin_misses)},
        {"spin_seconds", static_cast<double>(sum(&S::spin_nanoseconds)) / 1e9}}},
  };
}

}  // namespace fairlead::admin
