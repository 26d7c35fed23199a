// Tasks and events of a link group for its owner: values only (link_group.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/fallback.h"
#include "base/ids.h"
#include "base/time.h"
#include "smc/group/link.h"
#include "smc/group/rmb_keys.h"

namespace fairlead::smc {

// Enough for all tasks between two calls of the owner: at most kLinksMax links, and a few tasks for
// each.
inline constexpr std::size_t kLinkTasksMax = 32;

// A local queue pair for a new link.
struct LinkOffer {
  LinkIdentity local;
  PacketSeq first_psn;
  Mtu mtu = Mtu::k1024;
};

// The peer's end of it.
struct LinkPeer {
  LinkIdentity identity;
  PacketSeq first_psn;
  Mtu mtu = Mtu::k1024;  // the smaller of both sides
};

struct LinkTask {
  enum class Kind : std::uint8_t {
    kPrepare,  // make a queue pair on a port that no link uses, else on another; then task_done()
               // with an offer, or without one if there is no port. A client knows `peer` already.
    kConnect,  // connect it to `peer`; then task_done(), or handle_link_down() if that failed
    kMove,     // move all connections of `link` to `to`
    kRelease,  // destroy the queue pair; the link is gone
  };
  Kind kind = Kind::kRelease;
  LinkIndex link = 0;
  LinkIndex to = 0;
  LinkPeer peer;
};

struct LlcToSend {
  LinkIndex link = 0;
  std::vector<std::byte> bytes;  // 44, or more where a message lists keys
};

struct GroupEvent {
  enum class Kind : std::uint8_t {
    kLinkConfirmed,  // first contact is complete: the group may be used
    kLinkRefused,    // first contact cannot be completed: `reason`
    kLinkTested,     // `round_trip` of a TEST_LINK
    kLinkDead,       // a TEST_LINK stayed unanswered
    kLinkAdded,      // one more link can be used
    kLinkNotAdded,   // … cannot: `why`
    kLinkLost,       // the link failed here, its connections have been moved
    kLinkDeleted,    // the link was deleted on purpose, or by the peer; likewise
    kRmbAnnounced,   // the peer knows `rmb` on all links
    kRmbRefused,     // … does not
    kTerminated,     // no link is left or the peer ended the group: abort every connection
    kRkeyDeleted,    // the peer deletes `rkey`; the connections that used it have ended
  };
  Kind kind = Kind::kTerminated;
  LinkIndex link = 0;
  LinkNumber number;  // of the link, which may have gone
  FallbackReason reason = FallbackReason::kInternal;
  Duration round_trip{};
  RemoteKey rkey;
  RmbRow rmb = 0;
  const char* why = "";
};

}  // namespace fairlead::smc
