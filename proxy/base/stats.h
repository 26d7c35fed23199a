// Counters of one worker. The worker alone writes them, with relaxed stores; the admin thread reads
// them at any time and never stops a worker. admin/metrics.cc maps them to the names of metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/client_address.h"
#include "base/enum_array.h"
#include "base/fallback.h"

namespace fairlead {

// Single writer: an increment is a plain load and store, no locked instruction.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.store(get() + n, std::memory_order_relaxed); }
  void sub(std::uint64_t n = 1) noexcept { value_.store(get() - n, std::memory_order_relaxed); }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Upper bounds in seconds, shared by all histograms; the last bucket is +Inf.
inline constexpr std::array<double, 12> kWaitBucketsSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 2.5, 6.0};

class Histogram {
 public:
  void observe(double seconds) noexcept;
  std::uint64_t bucket(std::size_t index) const noexcept { return buckets_[index].get(); }
  std::uint64_t sum_nanoseconds() const noexcept { return sum_nanoseconds_.get(); }
  static constexpr std::size_t kBucketCount = kWaitBucketsSeconds.size() + 1;

 private:
  std::array<Counter, kBucketCount> buckets_;  // not cumulative
  Counter sum_nanoseconds_;
};

inline constexpr std::size_t kFallbackReasonsMax = 64;
inline constexpr std::size_t kDirections = 2;
inline constexpr std::size_t kSides = 2;
inline constexpr std::size_t kTransports = 3;

// What a part of memory.limit is used for.
enum class MemoryUse : std::uint8_t {
  kRings,        // registered slabs of RMBs and of send rings
  kPeerRings,    // RMB elements of peers in shared memory, whose pages the writer is charged for
  kMessages,     // receive buffers for messages, and what else a link group needs
  kConnections,  // buffers of sockets, pipes, kernel objects and state of connections
};
inline constexpr std::size_t kMemoryUses = 4;

// Why a connection was closed instead of being carried.
enum class RefusedFor : std::uint8_t {
  kLimit,      // limits.connections, memory.limit or descriptors
  kDenied,     // it would be TCP, and the configuration says `fallback: deny`
  kHandshake,  // inbound: the handshake failed when TCP was possible no more
  kRedirect,   // it reached a redirect port without an original destination
};
inline constexpr std::size_t kRefusedFor = 4;
// What to do about kRedirect.
inline constexpr std::string_view kNoDestinationHint =
    "it reached the redirect port directly; check the pod's redirect rules";

struct TrafficStats {
  Counter connections_total;  // kShort: that ended as such
  Counter connections_active;
  Counter tx_bytes;  // towards the peer
  Counter rx_bytes;  // from the peer
};

struct WorkerStats {
  EnumArray<Direction, EnumArray<Transport, TrafficStats, kTransports>, kDirections> traffic;
  EnumArray<Direction,
            EnumArray<Side, EnumArray<FallbackReason, Counter, kFallbackReasonsMax>, kSides>,
            kDirections>
      fallback;
  Histogram handshake_smcr;
  Histogram handshake_fallback;
  // What the side that connected waits for, by direction of the connection.
  EnumArray<Direction, Histogram, kDirections> first_answer;
  EnumArray<Direction, Histogram, kDirections> longest_wait;  // of each connection, when it ends

  Counter link_groups_single, link_groups_symmetric, link_groups_asymmetric_local,
      link_groups_asymmetric_peer, link_groups_none;
  Counter links_active;
  Counter link_added, link_deleted, link_failed, link_moved;
  Counter link_refused;  // of those that failed
  Counter link_test_ok, link_test_timeout;
  Counter connections_moved;
  Counter connections_reset;  // ended by an abort, either side's

  Counter rmb_used_bytes, rmb_free_bytes;
  Counter pinned_bytes, pinned_limit_bytes;
  Counter slabs_returned;      // deregistered because they stood empty
  Counter memory_limit_bytes;  // this worker's part of memory.limit
  EnumArray<MemoryUse, Counter, kMemoryUses> memory_used;
  Counter buffer_full_local, buffer_full_peer;  // turns in which a sender found no room
  Counter buffer_downgrade;                     // elements given smaller than asked for

  Counter cdc_sent, cdc_received, cdc_rejected;
  Counter llc_sent, llc_received, llc_rejected;
  Counter receive_limit_events;  // a receive queue ran low
  Counter loop_turns, spin_hits, spin_misses, spin_nanoseconds;
  Counter accept_errors;  // accept(2) failed: descriptors or memory
  Counter peer_timeouts;  // TCP connections whose peer's host no longer answered
  EnumArray<RefusedFor, Counter, kRefusedFor> refused;  // connections that were closed, by reason
  Counter refused_memory;       // those of kLimit that found memory.limit spent
  Counter peer_faults;          // what peers did wrong on a device, or wanted beyond a limit
  Counter refused_descriptors;  // those of kLimit that found descriptors used up
  Counter redirected;           // connections that came with an original destination
  Counter taken_back;           // connections of the process before that go on here
  Counter taken_back_lost;      // and those that could not
  Counter parked_nanoseconds;   // how long they were parked; worker 0
  // Connections to the application, by whether it sees the client's address.
  EnumArray<ClientAddress, Counter, kClientAddresses> client_address;
};

}  // namespace fairlead
