// How long a connection that ends in a reset goes on for what was said before the reset.
//
// TCP delivers the bytes that came before a reset. A proxy that resets its other side at once would
// lose what is still in its buffers. So both relays first pass on what they have, and give up only
// when the reader takes nothing for kResetDelay.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace fairlead::relay {

// Bytes that move begin this wait again.
inline constexpr Duration kResetDelay = std::chrono::seconds(1);
// How often a socket is asked whether it has passed on its last bytes; no event tells of it.
inline constexpr Duration kUnsentPoll = std::chrono::milliseconds(5);

class ResetDelay {
 public:
  // Called in each turn before the reset. `moved` changes when bytes have moved. `unsent`: all that
  // is left is in the buffer of a socket. False when the wait is over.
  bool wait(std::uint64_t moved, bool unsent, TimePoint now) {
    if (!until_ || moved != moved_) until_ = now + kResetDelay;
    moved_ = moved;
    poll_.reset();
    if (unsent) poll_ = now + kUnsentPoll;
    if (now < *until_) return true;
    until_ = now + kResetDelay;
    return false;
  }
  // When the next turn is due although nothing has happened.
  std::optional<TimePoint> next_deadline() const {
    return poll_ && *poll_ < *until_ ? poll_ : until_;
  }

 private:
  std::optional<TimePoint> until_;
  std::optional<TimePoint> poll_;
  std::uint64_t moved_ = 0;
};

}  // namespace fairlead::relay
