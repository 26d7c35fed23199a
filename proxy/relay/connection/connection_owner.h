// What a link group tells the session of one of its connections. All calls come from the worker's
// thread.
#pragma once

#include "base/time.h"
#include "relay/connection/event.h"

namespace fairlead::relay {

class ConnectionOwner {
 public:
  // A message of the peer, or the completion of requests, has changed the connection. The owner
  // acts in its next turn.
  virtual void handle_connection_event() = 0;
  // Handles an event of the group: GroupConfirmed, GroupRefused, GroupLost, RmbAnnounced.
  virtual void handle(const Event& event, TimePoint now) = 0;

 protected:
  ~ConnectionOwner() = default;
};

}  // namespace fairlead::relay
