// Until when a connection waits, and for what. All its deadlines stand in one table, behind one
// timer of the worker's queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/time.h"
#include "event/timer_queue.h"

namespace fairlead::relay {

enum class DeadlineKind : std::uint8_t {
  kPermit,     // a turn for a handshake with the peer
  kDial,       // the stream that is dialled
  kHandshake,  // the peer's next message, its memory, a link, another connection's first contact
  kLiveness,   // the next look at whether the peer's host answers
  kWindow,     // frames: the peer opens its window
  kHalfClose,  // frames and TCP: what a half-closed connection may still say
  kSmc,        // SMC-R: the earliest of what its parts wait for
  kFin,        // both applications have ended, and the peer closes first
  kLasting,    // the connection counts as lasting
};
inline constexpr std::size_t kDeadlineKinds = 9;

// What follows when a deadline has passed.
enum class DeadlineEffect : std::uint8_t {
  kEvent,    // the stage gets DeadlineDue
  kTurn,     // the stage gets Ready
  kSession,  // the session acts, in whichever stage it is
};

struct DeadlineRow {
  DeadlineKind kind;
  const char* name;
  DeadlineEffect effect;
  bool of_stage;  // ends with the stage that has set it
};
// In the order of DeadlineKind. The page docs/architecture.md shows it.
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
  // `due` is called when the earliest has passed; it calls take_earliest(). `queue` outlives this.
  Deadlines(event::TimerQueue& queue, std::function<void()> due);

  // Replaces that of its kind.
  void set(DeadlineKind kind, Deadline deadline);
  void cancel(DeadlineKind kind) { set(kind, std::nullopt); }
  // Those of the stage that has set them.
  void end_stage();
  void clear();

  Deadline next() const;
  // The earliest is over. The first of the table, of some at one time. REQUIRES: next()
  DeadlineKind take_earliest();

 private:
  static constexpr TimePoint kNever = TimePoint::max();

  std::array<TimePoint, kDeadlineKinds> at_;
  event::Timer timer_;
};

}  // namespace fairlead::relay
