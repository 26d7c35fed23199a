// What the connections of a group may write of the peer's memory: its elements, by the keys of each
// link, as views where remote memory is addressable, and the budget that those cost.
#pragma once

#include <optional>

#include "base/result.h"
#include "relay/group/link_transport.h"
#include "relay/group/peer_rings.h"
#include "relay/pipes/smc_relay.h"
#include "smc/connection_table.h"
#include "smc/link_group.h"

namespace fairlead::relay {

class PeerMemory {
 public:
  PeerMemory(MemoryBudget& budget, const smc::LinkGroup& protocol, const LinkTransport& transport,
             smc::ConnectionTable<SmcRelay>& connections)
      : protocol_(protocol), transport_(transport), connections_(connections), rings_(budget) {}

  // The budget for an element that the peer has not named yet; where addressable.
  Result<MemoryCharge> reserve(std::size_t bytes) { return rings_.reserve(bytes); }
  // The element that the connection uses, as it is reached over a link.
  Result<smc::RmbElement> find(const SmcBuffers& buffers, smc::LinkIndex on) const;
  // The way to the element over the connection's link: a view where addressable, else its key.
  Result<void> open(SmcRelay& relay, const smc::RmbElement& element);
  // Pays for the element with what was reserved, where addressable.
  Result<void> claim(SmcRelay& relay, const smc::RmbElement& element);
  // The connection writes no more.
  void release(SmcRelay& relay);
  // The peer has deleted the key of an RMB: what was paid for its elements is free again, and its
  // memory is unmapped as soon as no connection uses it.
  void forget(RemoteKey rkey);
  // Too many elements without a connection are paid for.
  bool crowded() const { return rings_.crowded(); }

  // Whether the memory that a message of the peer makes usable can be written to. It is checked
  // before a connection depends on it: a peer that has sent its Confirm, or has answered
  // CONFIRM_LINK, hears no Decline.
  Result<void> check(smc::LinkIndex link, const wire::LlcMessage& message);

 private:
  Result<void> check(smc::LinkIndex link, const smc::RmbKey& key);
  void drop_views(RemoteKey rkey);

  const smc::LinkGroup& protocol_;
  const LinkTransport& transport_;
  smc::ConnectionTable<SmcRelay>& connections_;
  PeerRings rings_;
};

}  // namespace fairlead::relay
