// What a link group tells the session of one of its connections. All calls come from the worker's
// thread.
#pragma once

#include "base/fallback.h"
#include "base/time.h"

namespace fairlead::relay {

class ConnectionOwner {
 public:
  // The peer's message, or the end of requests in flight, has changed the connection. The owner
  // acts in its next turn.
  virtual void handle_connection_event() = 0;

  // First contact is complete. Also for those that waited for it.
  virtual void handle_group_confirmed(TimePoint now) = 0;
  // First contact cannot be completed. Only for those with a connection of the group.
  virtual void handle_group_refused(FallbackReason reason, TimePoint now) = 0;
  // The group is terminated. Also for those that waited for it.
  virtual void handle_group_lost(TimePoint now) = 0;
  // The peer has accepted or refused the keys of one of this side's RMBs.
  virtual void handle_rmb_announced(TimePoint now) = 0;

 protected:
  ~ConnectionOwner() = default;
};

}  // namespace fairlead::relay
