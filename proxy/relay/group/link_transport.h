// The queue pairs of a group's links, on the devices and ports that lead to its peer.
//
// A failed queue pair stays until its index is used again, because its number is still needed:
// messages that it has received may still be polled, and an Accept in flight may name it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "rdma/device.h"
#include "relay/group/group_resources.h"
#include "relay/group/receive_pool.h"
#include "smc/group/link_set.h"

namespace fairlead::relay {

class GroupMemory;

class LinkTransport {
 public:
  // `receiver` is registered for what arrives on the queue pairs. This class does not call it.
  LinkTransport(GroupResources& shared, const GroupStart& start, Group* receiver)
      : shared_(shared), start_(start), receiver_(receiver) {}
  ~LinkTransport();
  LinkTransport(const LinkTransport&) = delete;
  LinkTransport& operator=(const LinkTransport&) = delete;

  // A port on which a link may begin.
  struct PortCandidate {
    LinkDevice* device = nullptr;
    rdma::Port port;
  };

  // Creates the queue pair of a link. Registers `memory` with the device if that is new to the
  // group.
  Result<void> create(smc::LinkIndex link, const PortCandidate& at, GroupMemory& memory);
  Result<void> connect(smc::LinkIndex link, const rdma::PeerEndpoint& peer);
  Result<void> connect(smc::LinkIndex link, const smc::LinkPeer& peer);
  // Fails the link: nothing more goes over it, and no posted request will be reported. False if it
  // had failed before, or has no queue pair.
  bool fail(smc::LinkIndex link);
  void destroy(smc::LinkIndex link);

  // Null if the link has no queue pair. A failed link still has one.
  rdma::QueuePair* queue_pair(smc::LinkIndex link) const {
    return endpoints_[link].queue_pair.get();
  }
  bool works(smc::LinkIndex link) const { return queue_pair(link) && !endpoints_[link].failed; }
  const rdma::Port& port(smc::LinkIndex link) const { return endpoints_[link].port; }
  const rdma::PeerEndpoint& peer(smc::LinkIndex link) const { return endpoints_[link].peer; }
  // Index of the link's device among the devices of the group, in the order of attachment.
  std::size_t attachment(smc::LinkIndex link) const { return endpoints_[link].attachment; }
  LinkDevice& device(smc::LinkIndex link) const { return *attachments_[attachment(link)].device; }
  bool is_at(smc::LinkIndex link, const LinkDevice& device, PortNumber port) const {
    return &this->device(link) == &device && endpoints_[link].port.number == port;
  }
  smc::LinkIdentity identity(smc::LinkIndex link) const;
  std::uint32_t send_requests_max(smc::LinkIndex link) const;
  // These are the same for all devices of a group.
  bool remote_memory_addressable() const;
  bool returns_pages() const;
  // As Device::return_pages(), on the device of that link.
  std::unique_ptr<rdma::PageReturn> return_pages(smc::LinkIndex link,
                                                 std::span<std::byte> view) const {
    return device(link).device->return_pages(view);
  }

  // The link that ends, or has ended, at this queue pair of the peer. The MAC matters in version 1
  // only.
  std::optional<smc::LinkIndex> link_to(QpNumber queue_pair, const Gid& gid, const Mac& mac) const;
  // True if an active link leads to that port of the peer. The MAC matters in version 1 only.
  bool leads_to(const Gid& peer, const Mac& mac, const smc::LinkSet& links) const;
  // True if the group has resources on the device.
  bool uses(const LinkDevice& device) const;

  // Usable ports that lead to the peers of the first link, beginning with those of its own device.
  std::vector<PortCandidate> candidates() const;
  bool leads_to_peers(const LinkDevice& device, const rdma::Port& port) const;
  // Chooses the port of a further link: one without a link, else one whose link can be spared. A
  // port carries two links only if the peer has two ports, and only if no two other links use
  // separate ports. Otherwise the new link would be deleted at once.
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
    // A domain per group makes this peer's keys useless to every other peer.
    std::unique_ptr<rdma::ProtectionDomain> domain;
    // Set if no pool can serve all groups, but one can serve all links of this group.
    std::unique_ptr<ReceivePool> own_pool;
  };
  struct Endpoint {
    std::unique_ptr<ReceivePool> own_pool;  // if no pool can serve several queue pairs
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
  std::vector<Attachment> attachments_;  // at most kLinksMax; the first carries the first link
  std::array<Endpoint, smc::kLinksMax> endpoints_;
};

}  // namespace fairlead::relay
