#include "relay/group/link_transport.h"

#include <algorithm>
#include <utility>

#include "relay/group/group_memory.h"

namespace fairlead::relay {

LinkTransport::~LinkTransport() {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) destroy(i);
}

// Registers all present and future slabs with the device.
Result<std::size_t> LinkTransport::attach(LinkDevice& device, GroupMemory& memory) {
  for (std::size_t i = 0; i < attachments_.size(); ++i)
    if (attachments_[i].device == &device) return i;
  if (attachments_.size() == smc::kLinksMax) return Error{Errc::kExhausted, "devices of the group"};
  Attachment made{&device, SMC_TRY(device.device->create_protection_domain()), nullptr};
  if (device.shared_pool == nullptr && device.device->capabilities().shared_receive_queues)
    made.own_pool = SMC_TRY(ReceivePool::create(device.receives, *device.device, *made.domain,
                                                kPoolOfGroup, *shared_.budget));
  SMC_TRY(memory.add_device(*device.device, *made.domain));
  attachments_.push_back(std::move(made));
  return attachments_.size() - 1;
}

// The pool that supplies the queue pair's receive buffers.
Result<ReceivePool*> LinkTransport::pool_for(Endpoint& endpoint) {
  const Attachment& attachment = attachments_[endpoint.attachment];
  if (attachment.own_pool) return attachment.own_pool.get();
  LinkDevice& on = *attachment.device;
  if (on.shared_pool != nullptr) return on.shared_pool;
  endpoint.own_pool = SMC_TRY(ReceivePool::create(on.receives, *on.device, *attachment.domain,
                                                  kPoolOfLink, *shared_.budget));
  return endpoint.own_pool.get();
}

Result<void> LinkTransport::create(smc::LinkIndex link, const PortCandidate& at,
                                   GroupMemory& memory) {
  destroy(link);
  Endpoint& endpoint = endpoints_[link];
  endpoint.attachment = SMC_TRY(attach(*at.device, memory));
  rdma::QueuePairOptions options;
  options.domain = attachments_[endpoint.attachment].domain.get();
  options.receive_queue = &SMC_TRY(pool_for(endpoint))->queue();
  options.port = at.port.number;
  options.gid = at.port.gid;
  options.prefer_roce_v1 = start_.terms.version == 1;
  options.peer = start_.peer;
  options.send_requests = send_requests_max(link);
  Result<std::unique_ptr<rdma::QueuePair>> made = at.device->device->create_queue_pair(options);
  if (!made) {
    endpoint.own_pool.reset();
    return made.error();
  }
  endpoint.queue_pair = std::move(*made);
  endpoint.port = at.port;
  at.device->queue_pairs[endpoint.queue_pair->number()] = {receiver_, link};
  return {};
}

void LinkTransport::destroy(smc::LinkIndex link) {
  Endpoint& endpoint = endpoints_[link];
  if (!endpoint.queue_pair) return;
  device(link).queue_pairs.erase(endpoint.queue_pair->number());
  endpoint.queue_pair.reset();  // before its pool
  endpoint = {};
}

Result<void> LinkTransport::connect(smc::LinkIndex link, const rdma::PeerEndpoint& peer) {
  SMC_TRY(endpoints_[link].queue_pair->connect(peer));
  endpoints_[link].peer = peer;
  return {};
}

Result<void> LinkTransport::connect(smc::LinkIndex link, const smc::LinkPeer& peer) {
  const smc::LinkIdentity& identity = peer.identity;
  Endpoint& endpoint = endpoints_[link];
  const auto direct = device(link).reachability->direct(endpoint.port.gid, identity.gid);
  endpoint.peer = {identity.gid,   identity.mac, identity.queue_pair,
                   peer.first_psn, peer.mtu,     direct.value_or(true)};
  return endpoint.queue_pair->connect(endpoint.peer);
}

bool LinkTransport::fail(smc::LinkIndex link) {
  if (!works(link)) return false;
  endpoints_[link].failed = true;
  endpoints_[link].queue_pair->fail();
  return true;
}

smc::LinkIdentity LinkTransport::identity(smc::LinkIndex link) const {
  const Endpoint& endpoint = endpoints_[link];
  return {endpoint.port.gid, endpoint.port.mac, endpoint.queue_pair->number()};
}

std::uint32_t LinkTransport::send_requests_max(smc::LinkIndex link) const {
  return std::min(kSendRequestsPerLink, device(link).device->capabilities().send_requests_max);
}

bool LinkTransport::remote_memory_addressable() const {
  return attachments_[0].device->device->capabilities().remote_memory_addressable;
}

bool LinkTransport::returns_pages() const {
  return attachments_[0].device->device->capabilities().returns_pages;
}

bool LinkTransport::ends_at(smc::LinkIndex link, const Gid& peer, const Mac& mac) const {
  const rdma::PeerEndpoint& endpoint = endpoints_[link].peer;
  return endpoint.gid == peer && (start_.terms.version != 1 || endpoint.mac == mac);
}

bool LinkTransport::leads_to(const Gid& peer, const Mac& mac, const smc::LinkSet& links) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (links.active(i) && ends_at(i, peer, mac)) return true;
  return false;
}

std::optional<smc::LinkIndex> LinkTransport::link_to(QpNumber queue_pair, const Gid& gid,
                                                     const Mac& mac) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (endpoints_[i].queue_pair && endpoints_[i].peer.queue_pair == queue_pair &&
        ends_at(i, gid, mac))
      return i;
  return std::nullopt;
}

bool LinkTransport::uses(const LinkDevice& device) const {
  return std::any_of(attachments_.begin(), attachments_.end(),
                     [&](const Attachment& attachment) { return attachment.device == &device; });
}

bool LinkTransport::leads_to_peers(const LinkDevice& device, const rdma::Port& port) const {
  return alike(*attachments_[0].device->reachability, start_.port, *device.reachability, port);
}

std::vector<LinkTransport::PortCandidate> LinkTransport::candidates() const {
  const LinkDevice* first = attachments_[0].device;
  std::vector<PortCandidate> own, others;
  for (LinkDevice* device : shared_.devices)
    for (const rdma::Port& port : device->device->ports())
      if (usable(port) && leads_to_peers(*device, port))
        (device == first ? own : others).push_back({device, port});
  own.insert(own.end(), others.begin(), others.end());
  return own;
}

std::optional<LinkTransport::PortCandidate> LinkTransport::choose_port(
    const smc::LinkPeer& peer, const smc::LinkSet& links) const {
  Place place = *start_.place;
  const bool server = start_.role == smc::GroupRole::kServer;
  place.peer_gid = server ? endpoints_[links.least_used()].peer.gid : peer.identity.gid;
  std::vector<PortCandidate> fitting;
  for (const PortCandidate& at : candidates())
    if (const auto port = at.device->reachability->choose_port({&at.port, 1}, place))
      fitting.push_back({at.device, *port});
  for (const bool may_be_spare : {false, true})
    for (const PortCandidate& at : fitting)
      if (!taken(at, links, may_be_spare)) return at;
  if (fitting.empty()) return std::nullopt;
  const bool crowded = server ? links.active_count() > 1
                              : leads_to(peer.identity.gid, peer.identity.mac, links) ||
                                    links.type() == smc::GroupType::kSymmetric;
  if (crowded) return std::nullopt;
  return fitting.front();
}

bool LinkTransport::taken(const PortCandidate& at, const smc::LinkSet& links,
                          bool may_be_spare) const {
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (links.active(i) && is_at(i, *at.device, at.port.number) &&
        !(may_be_spare && links.is_asymmetric(i)))
      return true;
  return false;
}

}  // namespace fairlead::relay
