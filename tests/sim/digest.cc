#include "sim/digest.h"

#include <array>
#include <string>

#include "base/assert.h"

namespace fairlead::sim {
namespace {

constexpr std::uint64_t kPrime = 0x100000001b3ULL;

struct NamedCounter {
  const char* name;
  Counter WorkerStats::*counter;
};

constexpr std::array kCounters = {
    NamedCounter{"link_groups_single", &WorkerStats::link_groups_single},
    NamedCounter{"link_groups_symmetric", &WorkerStats::link_groups_symmetric},
    NamedCounter{"link_groups_asymmetric_local", &WorkerStats::link_groups_asymmetric_local},
    NamedCounter{"link_groups_asymmetric_peer", &WorkerStats::link_groups_asymmetric_peer},
    NamedCounter{"link_groups_none", &WorkerStats::link_groups_none},
    NamedCounter{"links_active", &WorkerStats::links_active},
    NamedCounter{"link_added", &WorkerStats::link_added},
    NamedCounter{"link_deleted", &WorkerStats::link_deleted},
    NamedCounter{"link_failed", &WorkerStats::link_failed},
    NamedCounter{"link_refused", &WorkerStats::link_refused},
    NamedCounter{"link_moved", &WorkerStats::link_moved},
    NamedCounter{"link_test_ok", &WorkerStats::link_test_ok},
    NamedCounter{"link_test_timeout", &WorkerStats::link_test_timeout},
    NamedCounter{"connections_moved", &WorkerStats::connections_moved},
    NamedCounter{"connections_reset", &WorkerStats::connections_reset},
    NamedCounter{"rmb_used_bytes", &WorkerStats::rmb_used_bytes},
    NamedCounter{"rmb_free_bytes", &WorkerStats::rmb_free_bytes},
    NamedCounter{"pinned_bytes", &WorkerStats::pinned_bytes},
    NamedCounter{"pinned_limit_bytes", &WorkerStats::pinned_limit_bytes},
    NamedCounter{"slabs_returned", &WorkerStats::slabs_returned},
    NamedCounter{"memory_limit_bytes", &WorkerStats::memory_limit_bytes},
    NamedCounter{"buffer_full_local", &WorkerStats::buffer_full_local},
    NamedCounter{"buffer_full_peer", &WorkerStats::buffer_full_peer},
    NamedCounter{"buffer_downgrade", &WorkerStats::buffer_downgrade},
    NamedCounter{"cdc_sent", &WorkerStats::cdc_sent},
    NamedCounter{"cdc_received", &WorkerStats::cdc_received},
    NamedCounter{"cdc_rejected", &WorkerStats::cdc_rejected},
    NamedCounter{"llc_sent", &WorkerStats::llc_sent},
    NamedCounter{"llc_received", &WorkerStats::llc_received},
    NamedCounter{"llc_rejected", &WorkerStats::llc_rejected},
    NamedCounter{"receive_limit_events", &WorkerStats::receive_limit_events},
    NamedCounter{"loop_turns", &WorkerStats::loop_turns},
    NamedCounter{"spin_hits", &WorkerStats::spin_hits},
    NamedCounter{"spin_misses", &WorkerStats::spin_misses},
    NamedCounter{"spin_nanoseconds", &WorkerStats::spin_nanoseconds},
    NamedCounter{"accept_errors", &WorkerStats::accept_errors},
    NamedCounter{"peer_timeouts", &WorkerStats::peer_timeouts},
    NamedCounter{"redirected", &WorkerStats::redirected},
    NamedCounter{"taken_back", &WorkerStats::taken_back},
    NamedCounter{"taken_back_lost", &WorkerStats::taken_back_lost},
    NamedCounter{"parked_nanoseconds", &WorkerStats::parked_nanoseconds},
    NamedCounter{"refused_memory", &WorkerStats::refused_memory},
    NamedCounter{"peer_faults", &WorkerStats::peer_faults},
    NamedCounter{"refused_descriptors", &WorkerStats::refused_descriptors},
};

// Fails for a counter that is neither in the list above nor in stats() below.
static_assert(sizeof(WorkerStats) ==
              sizeof(Counter) * kCounters.size() + sizeof(WorkerStats::traffic) +
                  sizeof(WorkerStats::fallback) + (2 + 2 * kDirections) * sizeof(Histogram) +
                  sizeof(WorkerStats::memory_used) + sizeof(WorkerStats::refused) +
                  sizeof(WorkerStats::client_address));

}  // namespace

void Digest::mix(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) hash_ = (hash_ ^ static_cast<std::uint64_t>(byte)) * kPrime;
}

Digest& Digest::begin(const char* kind, TimePoint when) {
  print_last();
  kind_ = kind;
  when_ = when;
  return text(kind).number(static_cast<std::uint64_t>(when.time_since_epoch().count()));
}

Digest& Digest::number(std::uint64_t value) {
  std::array<std::byte, 8> bytes{};
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(value & 0xff);
    value >>= 8;
  }
  mix(bytes);
  return *this;
}

Digest& Digest::bytes(std::span<const std::byte> value) {
  number(value.size());
  mix(value);
  return *this;
}

Digest& Digest::stats(const WorkerStats& stats) {
  const auto record = [this](std::string_view name, std::size_t index, const Counter& counter) {
    if (counter.get() != 0) text(name).number(index).number(counter.get());
  };
  for (const NamedCounter& named : kCounters) record(named.name, 0, stats.*named.counter);
  const auto record_all = [&record](std::string_view name, const auto& counters) {
    std::size_t index = 0;
    for (const Counter& counter : counters) record(name, index++, counter);
  };
  record_all("memory_used", stats.memory_used);
  record_all("refused", stats.refused);
  record_all("client_address", stats.client_address);
  using enum Direction;
  for (const Histogram* histogram : {&stats.handshake_smcr, &stats.handshake_fallback,
                                     &stats.first_answer[kOutbound], &stats.first_answer[kInbound],
                                     &stats.longest_wait[kOutbound], &stats.longest_wait[kInbound]})
    for (std::size_t i = 0; i < Histogram::kBucketCount; ++i)
      if (histogram->bucket(i) != 0) text("handshakes").number(i).number(histogram->bucket(i));
  for (const Direction direction : {kOutbound, kInbound}) {
    const auto d = static_cast<std::size_t>(direction);
    std::size_t index = d * kTransports;
    for (const TrafficStats& traffic : stats.traffic[direction]) {
      record("connections_total", index, traffic.connections_total);
      record("connections_active", index, traffic.connections_active);
      record("tx_bytes", index, traffic.tx_bytes);
      record("rx_bytes", index, traffic.rx_bytes);
      ++index;
    }
    for (const Side side : {Side::kLocal, Side::kPeer})
      for (const FallbackInfo& info : fallback_table())
        record(info.name, d * kSides + static_cast<std::size_t>(side),
               stats.fallback[direction][side][info.reason]);
  }
  return *this;
}

void Digest::print_last() const {
  if (!print_records || kind_ == nullptr) return;
  std::fprintf(stderr, "%14.6f %-8s %016llx\n",
               std::chrono::duration<double>(when_.time_since_epoch()).count(), kind_,
               static_cast<unsigned long long>(hash_));
}

}  // namespace fairlead::sim
