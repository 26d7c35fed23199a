// What a connection waits for, and until when. All its deadlines are in one table, behind one timer
// of the worker's queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/time.h"
#include "event/timer_queue.h"

namespace fairlead::relay {

enum class DeadlineKind : std::uint8_t {
  kPermit,     // its turn for a handshake with the peer
  kDial,       // the stream that is being dialled
  kHandshake,  // the peer's next message, its memory, a link, another connection's first contact
  kLiveness,   // the next check whether the peer's host answers
  kWindow,     // frames: until the peer opens its window
  kHalfClose,  // frames and TCP: how long a half-closed connection may go on
  kSmc,        // SMC-R: the earliest deadline of its parts
  kFin,        // both applications have ended, and the peer must close first
  kLasting,    // from then on the connection counts as lasting
};
inline constexpr std::size_t kDeadlineKinds = 9;

// What happens when a deadline has passed.
enum class DeadlineEffect : std::uint8_t {
  kEvent,    // the stage gets DeadlineDue
  kTurn,     // the stage gets Ready
  kSession,  // the session acts, whatever its stage is
};

struct DeadlineRow {
  DeadlineKind kind;
  const char* name;
  DeadlineEffect effect;
  bool of_stage;  // ends with the stage that has set it
};
// In the order of DeadlineKind. docs/architecture.md shows this table.
inline constexpr std::array<DeadlineRow, kDeadlineKinds> kDeadlineRows{{
    {DeadlineKind::kPermit, "kPermit", DeadlineEffect::kEvent, true},
    {DeadlineKind::kDial, "kDial", DeadlineEffect::kEvent, true},
    {DeadlineKind::kHandshake, "kHandshake", DeadlineEffect::kEvent, true},
    {DeadlineKind::kLiveness, "kLiveness", DeadlineEffect::kEvent, true},
    {DeadlineKind::kWindow, "kWindow", DeadlineEffect::kTurn, true},
    {DeadlineKind::kHalfClose, "kHalfClose", DeadlineEffect::kTurn, true},
    {DeadlineKind::kSmc, "kSmc", DeadlineEffect::kTurn, true},
    {DeadlineKind::kFin, "kFin", DeadlineEffect::kTurn, false},
    {DeadlineKind::kLasting, "kLasting", DeadlineEffect::kSession, false},
}};
const DeadlineRow& row_of(DeadlineKind kind);

class Deadlines {
 public:
  // `due` is called when the earliest deadline has passed, and calls take_earliest(). `queue`
  // outlives this.
  Deadlines(event::TimerQueue& queue, std::function<void()> due);

  // Replaces the deadline of this kind.
  void set(DeadlineKind kind, Deadline deadline);
  void cancel(DeadlineKind kind) { set(kind, std::nullopt); }
  // Cancels the deadlines that end with the stage.
  void end_stage();
  void clear();

  Deadline next() const;
  // Removes and returns the earliest; of several at one time, the first of the table. REQUIRES:
  // next()
  DeadlineKind take_earliest();

 private:
  static constexpr TimePoint kNever = TimePoint::max();

  std::array<TimePoint, kDeadlineKinds> at_;
  event::Timer timer_;
};

}  // namespace fairlead::relay
