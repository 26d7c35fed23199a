// What an idle connection keeps of its peer's memory. The sender of a ring touches its pages, and
// alone knows when nothing in them will be read any more; so it gives them back.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "rdma/device.h"

namespace fairlead::relay {

class SmcRelay;

// A connection that has sent nothing for so long is idle. Its next bytes cost a page fault each
// page, which is little beside such a pause.
inline constexpr Duration kIdlePagesAfter = std::chrono::seconds(3);
// How often a connection with bytes to send looks whether its pages are settled. A peer that makes
// this long keeps nobody else waiting.
inline constexpr Duration kSettleInterval = std::chrono::milliseconds(1);

class IdlePages {
 public:
  // Before the connection moves bytes or says that it ends. False while pages of the peer's element
  // are being given back.
  bool settled();
  // At the end of a turn in which nothing was left to do.
  void check(SmcRelay& relay, TimePoint now);
  // When check() is due although nothing happens.
  std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  std::uint64_t sent_ = 0;  // by the application, when it was looked at last
  TimePoint sent_at_{};     // when that had grown last
  std::optional<TimePoint> due_;
  std::unique_ptr<rdma::PageReturn> returning_;
};

}  // namespace fairlead::relay
