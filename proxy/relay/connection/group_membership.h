// One connection's membership of a link group: its token, RMB element and send ring, and the link
// that the handshake names.
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
  // Joins `group`, and uses `link` first. On an error nothing is taken. `first_contact`: the group
  // ends if this handshake fails.
  Result<void> join(Group& group, smc::LinkIndex link, const RingSizes& sizes, bool first_contact,
                    ConnectionOwner& owner, TimePoint now);
  // `quarantine`: the peer may still write into the element.
  void leave(TimePoint now, bool quarantine);
  // As leave(), with quarantine unless both sides have closed.
  void leave_at_end(TimePoint now);
  // Ends the group if this connection makes its first contact.
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

  // Whether the peer knows the key of the element.
  GroupMemory::Announcement announcement() const {
    return group().memory().announcement(member_.element);
  }
  // To be called before any link is added or lost, so that the group can find the same memory over
  // other links.
  void name_peer_rmb(const wire::AcceptConfirm& answer);
  // Sets the peer's half from its Accept or Confirm. Fails if the memory cannot be used, see
  // rdma::QueuePair::remote_memory().
  Result<void> set_peer(const wire::AcceptConfirm& answer);
  // Writes this side's half into its Accept or Confirm.
  void describe(wire::AcceptConfirm& answer) const;

 private:
  std::unique_ptr<SmcRelay> relay_;  // until leave()
  Group::Member member_;
  smc::LinkIndex named_on_ = 0;
  LinkNumber named_link_;  // tells a link from a later one in the same slot; 0 at first contact
  bool first_contact_ = false;
};

}  // namespace fairlead::relay
