// Returns memory of the peer's element while the connection is idle. The sender of a ring touches
// its pages, and only the sender knows when their content will not be read any more. So it returns
// them (ADR 35).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "rdma/device.h"

namespace fairlead::relay {

class SmcRelay;

// A connection that has moved no bytes for this time is idle. Its next bytes cost a page fault per
// page, which is little compared with such a pause.
inline constexpr Duration kIdlePagesAfter = std::chrono::seconds(3);
// The peer is first told what was consumed; that message may take this long to leave.
inline constexpr Duration kIdleAnnounceWait = std::chrono::milliseconds(100);
// How often a connection with bytes to send checks whether the return is complete, and for how
// long. A peer that takes longer loses the link group.
inline constexpr Duration kSettleInterval = std::chrono::milliseconds(1);
inline constexpr Duration kSettleWaitMax = std::chrono::seconds(10);
// How often a device that refuses is asked to return the pages.
inline constexpr unsigned kPageReturnTriesMax = 3;

class IdlePages {
 public:
  // To be called before the connection moves bytes or announces its end. False while pages of the
  // peer's element are being returned.
  bool settled(TimePoint now);
  // True if a return was started, and settled() has not reported its end since.
  bool returning() const { return returning_ != nullptr; }
  // True if settled() has returned false for kSettleWaitMax. REQUIRES: !settled()
  bool waited_too_long(TimePoint now) const { return now - *waits_since_ >= kSettleWaitMax; }
  // Called at the end of a turn, before messages are sent.
  void check(SmcRelay& relay, TimePoint now);
  // When check() must be called although nothing happens.
  Deadline next_deadline() const { return due_; }

 private:
  void try_return(SmcRelay& relay, TimePoint now);

  std::uint64_t moved_ = 0;            // in both directions, at the last check
  std::uint64_t returned_ = 0;         // bytes sent before the last return
  std::uint64_t returning_until_ = 0;  // bytes sent before `returning_`
  TimePoint moved_at_{};
  unsigned refused_ = 0;  // tries refused since moved_at_
  bool wanted_ = false;   // bytes have moved since the last return
  std::optional<TimePoint> due_;
  std::optional<TimePoint> waits_since_;
  std::unique_ptr<rdma::PageReturn> returning_;
};

}  // namespace fairlead::relay
