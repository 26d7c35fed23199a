// What an idle connection keeps of its peer's memory. The sender of a ring touches its pages, and
// alone knows when nothing in them will be read any more; so it gives them back (ADR 35).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "rdma/device.h"

namespace fairlead::relay {

class SmcRelay;

// A connection that has moved nothing for so long is idle. Its next bytes cost a page fault each
// page, which is little beside such a pause.
inline constexpr Duration kIdlePagesAfter = std::chrono::seconds(3);
// The peer is first told what was consumed; that message may take so long to leave.
inline constexpr Duration kIdleAnnounceWait = std::chrono::milliseconds(100);
// How often a connection with bytes to send looks whether its pages are settled, and for how long.
// A peer that makes it longer loses the link group.
inline constexpr Duration kSettleInterval = std::chrono::milliseconds(1);
inline constexpr Duration kSettleWaitMax = std::chrono::seconds(10);
// How often a device is asked that cannot give them back now.
inline constexpr unsigned kPageReturnTriesMax = 3;

class IdlePages {
 public:
  // Before the connection moves bytes or says that it ends. False while pages of the peer's element
  // are being given back.
  bool settled(TimePoint now);
  // Perhaps: a return that has been asked for, and that settled() has not looked at since.
  bool returning() const { return returning_ != nullptr; }
  // REQUIRES: !settled(). It has waited for kSettleWaitMax.
  bool waited_too_long(TimePoint now) const { return now - *waits_since_ >= kSettleWaitMax; }
  // At the end of a turn, before messages are sent.
  void check(SmcRelay& relay, TimePoint now);
  // When check() is due although nothing happens.
  Deadline next_deadline() const { return due_; }

 private:
  void try_return(SmcRelay& relay, TimePoint now);

  std::uint64_t moved_ = 0;            // in both directions, when it was looked at last
  std::uint64_t returned_ = 0;         // the bytes sent until the last return
  std::uint64_t returning_until_ = 0;  // the same of `returning_`
  TimePoint moved_at_{};
  unsigned refused_ = 0;  // since then
  bool wanted_ = false;   // something has moved since the last return
  std::optional<TimePoint> due_;
  std::optional<TimePoint> waits_since_;
  std::unique_ptr<rdma::PageReturn> returning_;
};

}  // namespace fairlead::relay
