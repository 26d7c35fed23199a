// The bytes of one connection from the peer: the own RMB element and the positions in it
// (docs/wire.md, "Rings"). confirmed <= consumed <= produced <= confirmed + size.
#pragma once

#include <cstdint>

#include "smc/connection/cursor.h"
#include "wire/cdc.h"

namespace fairlead::smc {

// A consumer update is due only when more than this is unconfirmed, or a tenth of the element.
inline constexpr std::uint32_t kUpdateBytesMin = 2304;

class RxRing {
 public:
  explicit RxRing(std::uint32_t size_bytes) : size_(size_bytes) {}

  std::uint32_t size_bytes() const { return size_; }
  std::uint64_t bytes() const { return consumed_; }
  // Those that the peer has announced.
  std::uint64_t received() const { return produced_; }
  // For the application. Ends before an urgent byte, which then is a window of its own.
  RingWindow window() const;
  // The one byte in window() is urgent data.
  bool urgent() const { return urgent_at_ != 0 && consumed_ + 1 == urgent_at_; }
  bool drained() const { return consumed_ == produced_; }
  void consumed(std::uint32_t bytes) { consumed_ += bytes; }

  // The peer's sender has said that it lacks room.
  bool write_blocked() const { return write_blocked_; }
  void clear_write_blocked() { write_blocked_ = false; }
  // The peer wants to know what was consumed. `peer_ended`: it sends nothing more.
  bool update_due(bool peer_ended) const;
  // An update is due for whatever the peer does not know yet.
  void announce_consumed() { update_requested_ = update_requested_ || confirmed_ != consumed_; }

  // How the peer's producer cursor moves the position. What was not announced as free, the peer may
  // not touch, even if it is free by now.
  CursorStep step(const wire::CdcCursor& producer) const;
  void peer_has_produced(std::uint32_t bytes) { produced_ += bytes; }
  void take_flags(const wire::CdcMessage& message);

  void fill_cursor(wire::CdcMessage& cdc) const { cdc.consumer = cursor_at(consumed_, size_); }
  // A message with the cursor is sent.
  void confirm();

  void invariants() const;

 private:
  std::uint32_t size_;
  std::uint64_t produced_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t confirmed_ = 0;
  std::uint64_t urgent_at_ = 0;  // position behind the urgent byte; 0 = none
  bool write_blocked_ = false;
  bool update_requested_ = false;
};

}  // namespace fairlead::smc
