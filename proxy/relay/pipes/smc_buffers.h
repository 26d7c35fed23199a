// The buffers of one SMC-R connection: this side's RMB element, and what this side writes to. That
// is the peer's element if it is addressable memory, else a send ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "relay/group/buffer_slabs.h"
#include "relay/group/peer_rings.h"
#include "smc/connection/tx_ring.h"
#include "smc/group/rmb_keys.h"

namespace fairlead::relay {

// An element of the peer, as reached over one link. Each link has its own key.
struct PeerElement {
  smc::RmbKey rmb;
  std::uint64_t offset = 0;  // in the RMB
  std::uint32_t size_bytes = 0;
  smc::RmbElement over(const smc::RmbKey& key) const {
    return {key.rkey, RemoteAddress{key.address.value + offset}, size_bytes};
  }
};

// Others own the memory and outlive this object: slabs of the group, a view of the device.
class SmcBuffers {
 public:
  SmcBuffers(smc::ElementId element, std::span<std::byte> local)
      : element_(element), local_(local) {}

  // This side's element.
  smc::ElementId element() const { return element_; }
  std::span<std::byte> local() const { return local_; }

  // What this side writes into. Empty until there is a way to the peer.
  std::span<std::byte> outgoing() const { return send_ring_ ? send_ring_bytes_ : remote_; }

  const std::optional<smc::ElementId>& send_ring() const { return send_ring_; }
  std::span<std::byte> send_ring_bytes() const { return send_ring_bytes_; }
  void take_send_ring(smc::ElementId ring, std::span<std::byte> bytes) {
    send_ring_ = ring;
    send_ring_bytes_ = bytes;
  }
  // The caller gives the ring back to the group.
  std::optional<smc::ElementId> release_send_ring() {
    return std::exchange(send_ring_, std::nullopt);
  }

  // The peer's element as last reached. `on`: the link on which it was named; empty if that link
  // has been deleted since.
  const PeerElement& peer() const { return peer_; }
  std::optional<std::uint8_t> named_on() const { return named_on_; }
  void name_peer(const PeerElement& element, std::optional<std::uint8_t> on) {
    peer_ = element;
    named_on_ = on;
  }
  // The element is reached over link `on` with this key. `view`: its memory, if addressable.
  void reach_peer(const smc::RmbElement& element, std::uint8_t on, std::span<std::byte> view) {
    remote_ = view;
    peer_.rmb = {element.rkey, RemoteAddress{element.address.value - peer_.offset}};
    named_on_ = on;
  }
  // The peer's element, if it is addressable and has been reached.
  std::span<std::byte> remote() const { return remote_; }
  void drop_remote() { remote_ = {}; }

  // Budget for the peer's element until that is known, if addressable.
  MemoryCharge& reserved() { return reserved_; }
  // The element that is paid for, if addressable.
  const std::optional<PeerRingId>& peer_ring() const { return peer_ring_; }
  void set_paid_for(const PeerRingId& ring) { peer_ring_ = ring; }
  // The connection writes no more. The caller gives the element's budget back.
  std::optional<PeerRingId> release_peer() {
    remote_ = {};
    reserved_ = {};
    return std::exchange(peer_ring_, std::nullopt);
  }

 private:
  smc::ElementId element_;
  std::span<std::byte> local_;
  std::span<std::byte> remote_;
  std::optional<smc::ElementId> send_ring_;
  std::span<std::byte> send_ring_bytes_;
  MemoryCharge reserved_;
  std::optional<PeerRingId> peer_ring_;
  PeerElement peer_;
  std::optional<std::uint8_t> named_on_;
};

}  // namespace fairlead::relay
