// The place of one connection in a link group: its token, its element of an RMB, its send ring, and
// the link that the handshake names.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "relay/group/group.h"
#include "relay/pipes/smc_relay.h"
#include "wire/clc.h"

namespace fairlead::relay {

class GroupMembership {
 public:
  // Takes a place in `group`, which begins on `link`. On an error there is none.
  // `first_contact`: the group ends if this handshake fails.
  Result<void> join(Group& group, smc::LinkIndex link, const RingSizes& sizes, bool first_contact,
                    ConnectionOwner& owner, TimePoint now);
  // `quarantine`: the peer may still write into the element.
  void leave(TimePoint now, bool quarantine);
  // As leave(). The element goes to quarantine unless both sides have closed.
  void leave_at_end(TimePoint now);
  // The first contact fails, if this is one.
  void abort_first_contact(TimePoint now);

  bool joined() const { return relay_ != nullptr; }
  // REQUIRES: joined(), as all below
  SmcRelay& relay() const { return *relay_; }
  Group& group() const { return relay_->group(); }
  bool is_first_contact() const { return first_contact_; }

  // The link that the Accept or Confirm names.
  void set_named_link(smc::LinkIndex link);
  // Empty if the link has been deleted since; its slot may have another link by now.
  std::optional<smc::LinkIndex> named_link() const;

  // Whether the peer knows where the element is.
  GroupMemory::Announcement announcement() const {
    return group().memory().announcement(member_.element);
  }
  // Before any link is added or lost, so that the group can find the same memory over other links.
  void name_peer_rmb(const wire::AcceptConfirm& answer);
  // What the peer's Accept or Confirm says of its half. An error when it cannot be used, see
  // rdma::QueuePair::remote_memory().
  Result<void> set_peer(const wire::AcceptConfirm& answer);
  // Fills in what this side's Accept or Confirm says of its half.
  void describe(wire::AcceptConfirm& answer) const;

 private:
  std::unique_ptr<SmcRelay> relay_;  // until leave()
  Group::Member member_;
  smc::LinkIndex named_on_ = 0;
  LinkNumber named_link_;  // tells a link from a later one in the same slot; 0 at first contact
  bool first_contact_ = false;
};

}  // namespace fairlead::relay
