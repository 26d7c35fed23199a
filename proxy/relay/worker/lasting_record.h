// What outlives the process if it dies: the sockets of its connections, and how those at rest would
// be described to the next process. See docs/hand-over.md.
//
// A connection is at rest when everything that was read from one of its sockets has been written to
// the other one. From the first byte that it moves on, and until it is at rest again, it is busy.
#pragma once

#include <cstdint>
#include <optional>

#include "base/address.h"
#include "relay/connection/parked_connection.h"

namespace fairlead::relay {

// Any thread. A slot belongs to the thread that began it.
class LastingRecord {
 public:
  // Of a connection, which is busy. The sockets stay open until end(). Nothing when no slot is
  // free.
  virtual std::optional<std::uint32_t> begin(int app, int net) = 0;
  virtual void busy(std::uint32_t slot) = 0;
  // `state` has both streams without their sockets.
  virtual void at_rest(std::uint32_t slot, const ParkedSockets& state) = 0;
  virtual void end(std::uint32_t slot) = 0;

  virtual void listener_opened(const SocketAddress& address, int socket) = 0;
  // Before it is closed.
  virtual void listener_closed(int socket) = 0;

 protected:
  ~LastingRecord() = default;
};

}  // namespace fairlead::relay
