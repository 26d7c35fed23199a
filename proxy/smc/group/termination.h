// The end of a link group: DELETE_LINK (all) of this side and of the peer.
#pragma once

#include "smc/group/link_group_parts.h"
#include "wire/llc.h"

namespace fairlead::smc {

class Termination {
 public:
  // True once the peer has sent its final message, or there is nobody to send one.
  bool peer_terminated() const { return peer_terminated_; }

  // Returns the link that carries the message; empty if none is left.
  std::optional<LinkIndex> begin(LinkGroupParts& group, wire::DeleteLinkReason reason,
                                 bool orderly);
  // The peer has deleted the group.
  void take_first(LinkGroupParts& group, const wire::DeleteLink& message);
  // The peer has deleted the last link.
  void set_peer_terminated() { peer_terminated_ = true; }
  // A message after the end. Only the peer's final one counts.
  void take_later(LinkGroupParts& group, const wire::LlcMessage& message);

 private:
  bool peer_terminated_ = false;
};

}  // namespace fairlead::smc
