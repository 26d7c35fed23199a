// The queue pairs of a group's links, on the devices and ports that lead to its peer.
//
// A queue pair that has failed stays, for nothing but its name, until its index is used again:
// messages that it has received may still be polled, and an Accept may be on its way that names it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "rdma/device.h"
#include "relay/group/group_resources.h"
#include "relay/group/receive_pool.h"
#include "smc/link_set.h"

namespace fairlead::relay {

class GroupMemory;

class LinkTransport {
 public:
  // `receiver` gets what arrives on the queue pairs. It is not called here.
  LinkTransport(GroupResources& shared, const GroupStart& start, Group* receiver)
      : shared_(shared), start_(start), receiver_(receiver) {}
  ~LinkTransport();
  LinkTransport(const LinkTransport&) = delete;
  LinkTransport& operator=(const LinkTransport&) = delete;

  // A port where a link may begin.
  struct PortCandidate {
    LinkDevice* device = nullptr;
    rdma::Port port;
  };

  // Makes the queue pair of a link. `memory` is registered with a device that is new to the group.
  Result<void> create(smc::LinkIndex link, const PortCandidate& at, GroupMemory& memory);
  Result<void> connect(smc::LinkIndex link, const rdma::PeerEndpoint& peer);
  Result<void> connect(smc::LinkIndex link, const smc::LinkPeer& peer);
  // Nothing goes over it any more, and nothing that was posted will be reported. False if it had
  // failed before, or there is none.
  bool fail(smc::LinkIndex link);
  void destroy(smc::LinkIndex link);

  // Null where a link has no queue pair. That of a failed link is one.
  rdma::QueuePair* queue_pair(smc::LinkIndex link) const {
    return endpoints_[link].queue_pair.get();
  }
  bool works(smc::LinkIndex link) const { return queue_pair(link) && !endpoints_[link].failed; }
  const rdma::Port& port(smc::LinkIndex link) const { return endpoints_[link].port; }
  const rdma::PeerEndpoint& peer(smc::LinkIndex link) const { return endpoints_[link].peer; }
  // Which of the devices of the group, counted in the order in which they came.
  std::size_t attachment(smc::LinkIndex link) const { return endpoints_[link].attachment; }
  LinkDevice& device(smc::LinkIndex link) const { return *attachments_[attachment(link)].device; }
  bool is_at(smc::LinkIndex link, const LinkDevice& device, PortNumber port) const {
    return &this->device(link) == &device && endpoints_[link].port.number == port;
  }
  smc::LinkIdentity identity(smc::LinkIndex link) const;
  std::uint32_t send_requests_max(smc::LinkIndex link) const;
  // The same for all devices of a group.
  bool remote_memory_addressable() const;
  bool returns_pages() const;
  // As Device::return_pages(), on the device of that link.
  std::unique_ptr<rdma::PageReturn> return_pages(smc::LinkIndex link,
                                                 std::span<std::byte> view) const {
    return device(link).device->return_pages(view);
  }

  // The link that ends, or has ended, at this queue pair of the peer. The MAC counts in version 1.
  std::optional<smc::LinkIndex> link_to(QpNumber queue_pair, const Gid& gid, const Mac& mac) const;
  // An active link leads to that port of the peer; likewise.
  bool leads_to(const Gid& peer, const Mac& mac, const smc::LinkSet& links) const;
  // Something of the group lives on the device.
  bool uses(const LinkDevice& device) const;

  // Ports that work and lead to the peers of the first link; those of its own device come first.
  std::vector<PortCandidate> candidates() const;
  bool leads_to_peers(const LinkDevice& device, const rdma::Port& port) const;
  // For a further link: a port without one, else a port whose link can be spared. One port carries
  // two links only where the other side has two, and only if no two other links are apart: it would
  // be deleted at once.
  std::optional<PortCandidate> choose_port(const smc::LinkPeer& peer,
                                           const smc::LinkSet& links) const;

  Duration round_trip(smc::LinkIndex link) const { return endpoints_[link].round_trip; }
  void set_round_trip(smc::LinkIndex link, Duration round_trip) {
    endpoints_[link].round_trip = round_trip;
  }

 private:
  // What the group has on one device.
  struct Attachment {
    LinkDevice* device = nullptr;
    // Its own makes this peer's keys worthless to every other.
    std::unique_ptr<rdma::ProtectionDomain> domain;
    // Where one for all groups cannot be, and one for all links of this group can.
    std::unique_ptr<ReceivePool> own_pool;
  };
  struct Endpoint {
    std::unique_ptr<ReceivePool> own_pool;  // where none can be for several queue pairs
    std::unique_ptr<rdma::QueuePair> queue_pair;
    std::size_t attachment = 0;
    rdma::Port port;
    rdma::PeerEndpoint peer;
    Duration round_trip{};
    bool failed = false;
  };

  Result<std::size_t> attach(LinkDevice& device, GroupMemory& memory);
  Result<ReceivePool*> pool_for(Endpoint& endpoint);
  bool ends_at(smc::LinkIndex link, const Gid& peer, const Mac& mac) const;
  bool taken(const PortCandidate& at, const smc::LinkSet& links, bool may_be_spare) const;

  GroupResources& shared_;
  const GroupStart& start_;
  Group* receiver_;
  std::vector<Attachment> attachments_;  // kLinksMax at most; the first is that of the first link
  std::array<Endpoint, smc::kLinksMax> endpoints_;
};

}  // namespace fairlead::relay
