// The peer's memory that connections of a group may write to: its elements by the keys of each
// link, views of them if remote memory is addressable, and the budget that these cost.
#pragma once

#include <optional>

#include "base/result.h"
#include "relay/group/link_transport.h"
#include "relay/group/peer_rings.h"
#include "relay/pipes/smc_relay.h"
#include "smc/group/connection_table.h"
#include "smc/group/link_group.h"

namespace fairlead::relay {

class PeerMemory {
 public:
  PeerMemory(MemoryBudget& budget, const smc::LinkGroup& protocol, const LinkTransport& transport,
             smc::ConnectionTable<SmcRelay>& connections)
      : protocol_(protocol), transport_(transport), connections_(connections), rings_(budget) {}

  // Reserves budget for an element that the peer has not named yet. Used if memory is addressable.
  Result<MemoryCharge> reserve(std::size_t bytes) { return rings_.reserve(bytes); }
  // The connection's element at the peer, as reached over link `on`.
  Result<smc::RmbElement> find(const SmcBuffers& buffers, smc::LinkIndex on) const;
  // Opens the element over the connection's link: a view if memory is addressable, else the key.
  Result<void> open(SmcRelay& relay, const smc::RmbElement& element);
  // Pays for the element from the reservation, if memory is addressable.
  Result<void> claim(SmcRelay& relay, const smc::RmbElement& element);
  // Called when the connection writes no more.
  void release(SmcRelay& relay);
  // Called when the peer has deleted the key of an RMB. Frees the budget of its elements, and
  // unmaps its memory as soon as no connection uses it.
  void forget(RemoteKey rkey);
  // True if too many elements without a connection are paid for.
  bool crowded() const { return rings_.crowded(); }

  // Checks that the memory which a message of the peer announces can be written to, before a
  // connection depends on it. A peer that has sent its Confirm, or has answered CONFIRM_LINK,
  // accepts no Decline.
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
