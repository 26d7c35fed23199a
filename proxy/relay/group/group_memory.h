// The memory that a group has registered: slabs of RMB elements, of which the peer knows the keys,
// and slabs of send rings.
//
// Slabs that have stood empty for GroupResources::slab_idle are given back while the group lives,
// but for the last one: those of RMBs when the peer has answered to DELETE_RKEY, those of send
// rings when no write from them is on its way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "relay/group/buffer_slabs.h"
#include "relay/group/group_resources.h"
#include "relay/group/link_transport.h"
#include "smc/link_group.h"

namespace fairlead::relay {

// Elements in quarantine with which a group takes no more connections: a peer that never finishes
// them cannot use up all memory with one group.
inline constexpr unsigned kQuarantinedMax = 32;
// How often writes from a send ring are looked at that are on their way long after its connections.
inline constexpr Duration kSlabRecheck = std::chrono::seconds(1);

class GroupMemory {
 public:
  GroupMemory(GroupResources& shared, const GroupStart& start, smc::LinkGroup& protocol,
              const LinkTransport& transport)
      : shared_(shared), start_(start), protocol_(protocol), transport_(transport) {}

  // All or nothing.
  Result<void> add_device(rdma::Device& device, rdma::ProtectionDomain& domain);

  const BufferSlabs& rmbs() const { return *rmbs_; }
  const BufferSlabs& send_rings() const { return *send_rings_; }

  // An element of an RMB. Errors: as BufferSlabs::take().
  Result<smc::ElementId> take_element(const BufferSizes& sizes) { return rmbs_->take(sizes); }
  // `quarantine`: the peer may still write into the element, so it stays taken.
  void release_element(smc::ElementId element, bool quarantine, TimePoint now);
  bool quarantine_full() const { return quarantined_ >= kQuarantinedMax; }

  // The peer must know each slab on each link before an element of it is named. True if there is
  // one to announce.
  Result<bool> list_slabs(smc::LinkIndex link);
  // Likewise for a link that is being added.
  void set_keys(smc::LinkIndex link);
  // Under which key the peer reaches a slab of RMBs over a link that has a queue pair.
  smc::RmbKey rmb_key(std::uint16_t slab, smc::LinkIndex link) const;
  enum class Announcement : std::uint8_t {
    kUnderWay,  // the element must not be named before the group has news of that
    kDone,      // the peer can find the element on all links
    kRefused,   // the peer does not take its key: the element is of no use
  };
  Announcement announcement(smc::ElementId element) const;
  // Takes no more elements from slabs that the peer has refused.
  void bar_refused_slabs();

  Result<smc::ElementId> take_send_ring(const BufferSizes& sizes) {
    return send_rings_->take(sizes);
  }
  std::span<std::byte> send_ring_bytes(smc::ElementId ring) const {
    return send_rings_->bytes(ring);
  }
  // `last_request`: of the link, which may still read there. A connection has written over other
  // links only before they failed.
  void release_send_ring(smc::ElementId ring, smc::LinkIndex link, std::uint64_t last_request,
                         TimePoint now);

  // `done`: by link, the last request that is known to be over; empty where nothing is on its way.
  using DoneRequests = std::array<std::optional<std::uint64_t>, smc::kLinksMax>;
  void return_slabs(const DoneRequests& done, TimePoint now);
  Deadline next_deadline() const;

 private:
  void return_rmbs(TimePoint now);
  void return_send_rings(const DoneRequests& done, TimePoint now);
  bool reads_over(std::uint16_t slab, const DoneRequests& done) const;

  GroupResources& shared_;
  const GroupStart& start_;
  smc::LinkGroup& protocol_;
  const LinkTransport& transport_;
  std::unique_ptr<BufferSlabs> rmbs_;
  std::unique_ptr<BufferSlabs> send_rings_;
  std::array<std::optional<smc::RmbRow>, smc::kSlabsMax> rows_;  // by slab of RMBs
  // By slab of send rings and link: the last request that may read there.
  std::vector<std::array<std::uint64_t, smc::kLinksMax>> last_reads_;
  std::optional<TimePoint> recheck_;  // of send rings that could not be given back yet
  unsigned quarantined_ = 0;
};

}  // namespace fairlead::relay
