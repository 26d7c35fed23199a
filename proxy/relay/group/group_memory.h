// The memory that a group has registered: slabs of RMB elements, whose keys the peer knows, and
// slabs of send rings.
//
// Slabs that have been empty for GroupResources::slab_idle are given back while the group lives,
// except the last one. An RMB slab is freed when the peer has answered DELETE_RKEY, a send ring
// slab when no write from it is in flight.
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
#include "smc/group/link_group.h"

namespace fairlead::relay {

// With this many elements in quarantine a group takes no more connections. Otherwise a peer that
// never finishes connections could use up all memory with one group.
inline constexpr unsigned kQuarantinedMax = 32;
// How often a retired slab of send rings is checked again while writes from it are in flight.
inline constexpr Duration kSlabRecheck = std::chrono::seconds(1);

class GroupMemory {
 public:
  GroupMemory(GroupResources& shared, const GroupStart& start, smc::LinkGroup& protocol,
              const LinkTransport& transport)
      : shared_(shared), start_(start), protocol_(protocol), transport_(transport) {}

  // Adds a device to both kinds of slabs. On an error, nothing changes.
  Result<void> add_device(rdma::Device& device, rdma::ProtectionDomain& domain);

  const BufferSlabs& rmbs() const { return *rmbs_; }
  const BufferSlabs& send_rings() const { return *send_rings_; }

  // Takes an element of an RMB. Errors: as BufferSlabs::take().
  Result<smc::ElementId> take_element(const BufferSizes& sizes) { return rmbs_->take(sizes); }
  // `quarantine`: the peer may still write into the element, so it stays taken.
  void release_element(smc::ElementId element, bool quarantine, TimePoint now);
  bool quarantine_full() const { return quarantined_ >= kQuarantinedMax; }

  // Lists new slabs: the peer must know a slab on each link before an element of it is named. True
  // if a slab must be announced to the peer.
  Result<bool> list_slabs(smc::LinkIndex link);
  // Sets the keys of all listed slabs for a link that is being added.
  void set_keys(smc::LinkIndex link);
  // The key under which the peer reaches an RMB slab over a link that has a queue pair.
  smc::RmbKey rmb_key(std::uint16_t slab, smc::LinkIndex link) const;
  enum class Announcement : std::uint8_t {
    kUnderWay,  // do not name the element until the group reports news
    kDone,      // the peer can find the element on all links
    kRefused,   // the peer has refused the key: the element is useless
  };
  Announcement announcement(smc::ElementId element) const;
  // Takes no more elements from slabs whose keys the peer has refused.
  void bar_refused_slabs();

  Result<smc::ElementId> take_send_ring(const BufferSizes& sizes) {
    return send_rings_->take(sizes);
  }
  std::span<std::byte> send_ring_bytes(smc::ElementId ring) const {
    return send_rings_->bytes(ring);
  }
  // `last_request`: the last request on `link`, which may still read from the ring. The connection
  // has used other links only before they failed.
  void release_send_ring(smc::ElementId ring, smc::LinkIndex link, std::uint64_t last_request,
                         TimePoint now);

  // `done`: per link, the last request known to be complete; empty if nothing is in flight.
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
  std::array<std::optional<smc::RmbRow>, smc::kSlabsMax> rows_;  // by RMB slab
  // By send ring slab and link: the last request that may read from the slab.
  std::vector<std::array<std::uint64_t, smc::kLinksMax>> last_reads_;
  std::optional<TimePoint> recheck_;  // when send rings that were in use are checked again
  unsigned quarantined_ = 0;
};

}  // namespace fairlead::relay
