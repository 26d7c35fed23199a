// All events of a connection, except the results of its own calls. Session::handle() takes each;
// the stage of the connection acts on it, or declares that it ignores it (see stage.h).
#pragma once

#include <type_traits>
#include <variant>

#include "base/fallback.h"
#include "relay/connection/deadlines.h"

namespace fairlead::relay {

// The stage has just become the connection's current one.
struct Entered {
  static constexpr const char* kName = "Entered";
};
// A turn after mark_ready(): a stream, a message of the peer or a timer has changed something.
struct Ready {
  static constexpr const char* kName = "Ready";
};
// A deadline set by the stage has passed.
struct DeadlineDue {
  static constexpr const char* kName = "DeadlineDue";
  DeadlineKind kind;
};
// The connection waited in the queue for a handshake with its peer, and it is its turn.
struct PermitGranted {
  static constexpr const char* kName = "PermitGranted";
};
// The first contact of the link group is complete. Also sent to sessions that waited for it.
struct GroupConfirmed {
  static constexpr const char* kName = "GroupConfirmed";
};
// The first contact cannot be completed. Only sent to owners of connections in the group.
struct GroupRefused {
  static constexpr const char* kName = "GroupRefused";
  FallbackReason reason;
};
// The group is terminated. Also sent to sessions that waited for it.
struct GroupLost {
  static constexpr const char* kName = "GroupLost";
};
// The peer has accepted or refused the keys of one of this side's RMBs.
struct RmbAnnounced {
  static constexpr const char* kName = "RmbAnnounced";
};
// This process ends, another one is to take over, and no time is left to wait for a moment at which
// the connection can be parked.
struct ParkWanted {
  static constexpr const char* kName = "ParkWanted";
};
// The process ends, and the connection with it. It is reset afterwards unless the stage ends it.
struct WorkerEnds {
  static constexpr const char* kName = "WorkerEnds";
};

using Event = std::variant<Entered, Ready, DeadlineDue, PermitGranted, GroupConfirmed, GroupRefused,
                           GroupLost, RmbAnnounced, ParkWanted, WorkerEnds>;

// A subset of the events.
template <class... Listed>
struct Events {
  template <class One>
  static constexpr bool kHas = (std::is_same_v<One, Listed> || ...);
};

}  // namespace fairlead::relay
