// All that can happen to a connection, but for the calls that it makes itself. Session::handle()
// takes each; the stage of the connection acts on it, or says that it ignores it (see stage.h).
#pragma once

#include <type_traits>
#include <variant>

#include "base/fallback.h"
#include "relay/connection/deadlines.h"

namespace fairlead::relay {

// The stage has become that of the connection.
struct Entered {
  static constexpr const char* kName = "Entered";
};
// A turn after mark_ready(): a stream, the peer's message or a timer has changed something.
struct Ready {
  static constexpr const char* kName = "Ready";
};
// A deadline that the stage has set has passed.
struct DeadlineDue {
  static constexpr const char* kName = "DeadlineDue";
  DeadlineKind kind;
};
// The connection stood in line for a handshake with its peer, and it is its turn.
struct PermitGranted {
  static constexpr const char* kName = "PermitGranted";
};
// First contact of the link group is complete. Also for those that waited for it.
struct GroupConfirmed {
  static constexpr const char* kName = "GroupConfirmed";
};
// First contact cannot be completed. Only for those with a connection of the group.
struct GroupRefused {
  static constexpr const char* kName = "GroupRefused";
  FallbackReason reason;
};
// The group is terminated. Also for those that waited for it.
struct GroupLost {
  static constexpr const char* kName = "GroupLost";
};
// The peer has accepted or refused the keys of one of this side's RMBs.
struct RmbAnnounced {
  static constexpr const char* kName = "RmbAnnounced";
};
// The process ends, another one is to go on, and there is no more time to wait for a moment at
// which the connection can be parked.
struct ParkWanted {
  static constexpr const char* kName = "ParkWanted";
};
// The process ends with the connection, which is reset afterwards unless the stage ends it.
struct WorkerEnds {
  static constexpr const char* kName = "WorkerEnds";
};

using Event = std::variant<Entered, Ready, DeadlineDue, PermitGranted, GroupConfirmed, GroupRefused,
                           GroupLost, RmbAnnounced, ParkWanted, WorkerEnds>;

// Some of them.
template <class... Listed>
struct Events {
  template <class One>
  static constexpr bool kHas = (std::is_same_v<One, Listed> || ...);
};

}  // namespace fairlead::relay
