#include "relay/group/peer_memory.h"

namespace fairlead::relay {

Result<smc::RmbElement> PeerMemory::find(const SmcBuffers& buffers, smc::LinkIndex on) const {
  const auto key = protocol_.peer_rmbs().translate(buffers.named_on(), buffers.peer().rmb, on);
  if (!key) return Error{Errc::kNotFound, "the peer did not tell the key of its buffer there"};
  return buffers.peer().over(*key);
}

Result<void> PeerMemory::open(SmcRelay& relay, const smc::RmbElement& element) {
  std::span<std::byte> view;
  if (transport_.remote_memory_addressable())
    view = SMC_TRY(transport_.queue_pair(relay.link())
                       ->remote_memory({element.rkey, element.address}, element.size_bytes));
  relay.buffers().reach_peer(element, relay.link(), view);
  return {};
}

Result<void> PeerMemory::claim(SmcRelay& relay, const smc::RmbElement& element) {
  if (relay.buffers().send_ring() || relay.buffers().peer_ring()) return {};
  const PeerRingId ring{element.rkey, element.address};
  if (auto paid = rings_.claim(relay.buffers().reserved(), ring, element.size_bytes); !paid) {
    relay.buffers().drop_remote();  // without payment there is no view
    return paid;
  }
  relay.buffers().set_paid_for(ring);
  return {};
}

void PeerMemory::release(SmcRelay& relay) {
  const std::optional<PeerRingId> ring = relay.buffers().release_peer();
  if (!ring || !rings_.release(*ring)) return;
  drop_views(ring->rkey);
  drop_views(relay.buffers().peer().rmb.rkey);  // a different key after a move
}

void PeerMemory::forget(RemoteKey rkey) {
  if (rings_.forget(rkey)) drop_views(rkey);
}

// Keys may be the same on all links. A view that a connection writes to stays, whatever the peer
// says.
void PeerMemory::drop_views(RemoteKey rkey) {
  bool used = false;
  connections_.for_each([&](const SmcRelay& relay) {
    used = used || (!relay.buffers().remote().empty() && relay.buffers().peer().rmb.rkey == rkey);
  });
  if (used) return;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (rdma::QueuePair* queue_pair = transport_.queue_pair(i))
      queue_pair->release_remote_memory(rkey);
}

Result<void> PeerMemory::check(smc::LinkIndex link, const wire::LlcMessage& message) {
  const smc::RmbKeys& rmbs = protocol_.peer_rmbs();
  const smc::LinkSet& links = protocol_.links();
  if (std::holds_alternative<wire::ConfirmLink>(message.body) && !links.active(link)) {
    for (std::size_t row = 0; row < rmbs.rows(); ++row)
      if (const auto& key = rmbs.key(static_cast<smc::RmbRow>(row), link))
        SMC_TRY(check(link, *key));
    return {};
  }
  const auto* announced = std::get_if<wire::ConfirmRkey>(&message.body);
  if (announced == nullptr || announced->kind != wire::LlcKind::kRequest) return {};
  SMC_TRY(check(link, smc::RmbKey{announced->rkey, announced->address}));
  for (const wire::RkeyOnLink& other : announced->others.view())
    for (smc::LinkIndex on = 0; on < smc::kLinksMax; ++on)
      if (links.active(on) && links[on]->number() == other.link)
        SMC_TRY(check(on, smc::RmbKey{other.rkey, other.address}));
  return {};
}

// Fails if memory is addressable and the memory at the key cannot be written to. A link that leads
// nowhere is detected elsewhere.
Result<void> PeerMemory::check(smc::LinkIndex link, const smc::RmbKey& key) {
  rdma::QueuePair* queue_pair = transport_.queue_pair(link);
  if (queue_pair == nullptr || !transport_.remote_memory_addressable()) return {};
  const auto view = queue_pair->remote_memory({key.rkey, key.address}, 1);
  drop_views(key.rkey);  // not used yet
  const bool refused =
      !view && (view.error().code == Errc::kNotFound || view.error().code == Errc::kExhausted);
  if (refused) return view.error();
  return {};
}

}  // namespace fairlead::relay
