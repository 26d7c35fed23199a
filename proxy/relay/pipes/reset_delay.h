// How long a connection that ends in a reset goes on for what was said before the reset.
//
// TCP delivers the bytes that came before a reset. A proxy that resets its other side at once would
// lose what is still in its buffers. So all relays first pass on what they have:
//
//   before a FIN    as long as the reader lives. Its own stream tells when it has gone
//   without a FIN   until the reader takes nothing for kResetDelay
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace fairlead::relay {

// Bytes that move begin this wait again.
inline constexpr Duration kResetDelay = std::chrono::seconds(1);
// How often a socket is asked whether it has passed on its last bytes; no event tells of it. While
// nothing moves, less and less often.
inline constexpr Duration kUnsentPoll = std::chrono::milliseconds(5);
inline constexpr Duration kUnsentPollMax = std::chrono::seconds(1);
// What a reader says meanwhile is for nobody. It is dropped, because a reader may have to finish
// before it reads on. One that says more, and reads nothing, is reset.
inline constexpr std::uint64_t kUnheardBytesMax = 16 * 1024 * 1024;

class ResetDelay {
 public:
  // Called in each turn before the reset. `moved` changes when bytes have moved. `unsent`: all that
  // is left is in the buffer of a socket. False when the wait is over.
  bool wait(std::uint64_t moved, bool unsent, TimePoint now) {
    if (!until_ || moved != moved_) until_ = now + kResetDelay;
    moved_ = moved;
    waits_for_reader_ = false;
    poll_.reset();
    if (unsent) poll_ = now + kUnsentPoll;
    if (now < *until_) return true;
    until_ = now + kResetDelay;
    return false;
  }
  // The same for what came before a FIN. `unheard`: bytes that the reader has said since the last
  // turn.
  bool wait_for_reader(std::uint64_t moved, bool unsent, std::uint64_t unheard, TimePoint now) {
    const bool stalled = waits_for_reader_ && moved == moved_;
    waits_for_reader_ = true;
    until_.reset();
    moved_ = moved;
    unheard_ = unheard + (stalled ? unheard_ : 0);
    if (!stalled) interval_ = kUnsentPoll;
    if (!unsent) {
      poll_.reset();
    } else if (!poll_ || now >= *poll_) {
      poll_ = now + interval_;
      interval_ = std::min(2 * interval_, kUnsentPollMax);
    }
    return unheard_ <= kUnheardBytesMax;
  }
  // When the next turn is due although nothing has happened.
  Deadline next_deadline() const { return earliest(until_, poll_); }

 private:
  std::optional<TimePoint> until_;
  std::optional<TimePoint> poll_;
  Duration interval_ = kUnsentPoll;
  bool waits_for_reader_ = false;
  std::uint64_t moved_ = 0;
  std::uint64_t unheard_ = 0;
};

}  // namespace fairlead::relay
