// How long a connection that ends in a reset continues, so that bytes from before the reset arrive.
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

// The wait starts again whenever bytes move.
inline constexpr Duration kResetDelay = std::chrono::seconds(1);
// How often a socket is asked whether its last bytes are sent; no event tells this. The interval
// grows while nothing moves.
inline constexpr Duration kUnsentPoll = std::chrono::milliseconds(5);
inline constexpr Duration kUnsentPollMax = std::chrono::seconds(1);
// What the reader sends meanwhile has no receiver. It is dropped, because a reader may have to
// finish writing before it reads on. A reader that sends more than this without reading is reset.
inline constexpr std::uint64_t kUnheardBytesMax = 16 * 1024 * 1024;

class ResetDelay {
 public:
  // Called in each turn before the reset. `moved` changes when bytes have moved. `unsent`: what
  // remains is in a socket's buffer only. False when the wait is over.
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
  // As wait(), if a FIN came before the reset. `unheard`: bytes that the reader has sent since the
  // last turn.
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
