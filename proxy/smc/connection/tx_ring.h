// The bytes of one connection towards the peer: its element, the own send ring where the element
// cannot be written directly, and all positions in them (docs/wire.md, "Rings").
//
//   direct:     peer_consumed <= produced == taken
//   send ring:  acked <= produced <= taken, and peer_consumed <= produced
#pragma once

#include <cstdint>
#include <optional>

#include "base/fallback.h"
#include "base/ids.h"
#include "smc/connection/cursor.h"
#include "wire/cdc.h"

namespace fairlead::smc {

struct RmbElement {
  RemoteKey rkey;
  RemoteAddress address;  // of the element, not of the RMB
  std::uint32_t size_bytes = 0;
};

// One piece of a transmission from the send ring.
struct SendRingWrite {
  std::uint32_t ring_offset = 0;
  std::uint32_t remote_offset = 0;
  std::uint32_t length = 0;
};

struct Transmit {
  static constexpr unsigned kWritesMax = 3;  // both rings may wrap once
  SendRingWrite writes[kWritesMax];
  unsigned write_count = 0;
  wire::CdcMessage cdc;
  bool validation = false;     // its completion needs no report
  std::uint64_t sequence = 0;  // this and the next: for handle_transmit_done()
  std::uint64_t written_until = 0;
};

class TxRing {
 public:
  // Both sizes are powers of two. `send_ring_bytes` 0 means direct. `reserve_bytes` of the element,
  // less than all, stay free for failover.
  void set_peer(const RmbElement& element, std::uint32_t send_ring_bytes,
                std::uint32_t reserve_bytes);
  bool has_peer() const { return element_.size_bytes != 0; }
  const RmbElement& element() const { return element_; }
  bool uses_send_ring() const { return send_ring_bytes_ != 0; }

  // For the next bytes of the application. Empty behind an urgent byte, until the peer has consumed
  // it: Linux takes the last byte in its element for the urgent one.
  RingWindow window() const;
  // `last_is_urgent`: the last of them is urgent data.
  void produced(std::uint32_t bytes, bool last_is_urgent);
  bool urgent() const { return urgent_at_ != 0; }

  std::uint32_t peer_free() const;
  std::uint32_t pending() const { return static_cast<std::uint32_t>(taken_ - produced_); }
  bool has_news() const { return uses_send_ring() ? due() && peer_free() : !announced(); }
  // Nothing leaves the send ring any more, but what a link that failed may have lost. Returns what
  // has never left it.
  RingWindow stop() {
    stopped_ = true;
    if (!uses_send_ring()) return {};
    return ring_window(reached_, send_ring_bytes_, static_cast<std::uint32_t>(taken_ - reached_));
  }
  bool all_consumed() const { return pending() == 0 && peer_consumed_ == produced_; }
  // Ever taken from the application.
  std::uint64_t taken() const { return taken_; }
  // Ever put into the peer's element.
  std::uint64_t bytes() const { return reached_; }

  // Takes what fits out of the send ring.
  void fill_writes(Transmit& transmit);
  void fill_cursor(wire::CdcMessage& cdc) const;
  void fill_flags(wire::CdcMessage& cdc, bool ended);
  // The message is sent.
  void announce(Transmit& transmit);
  void handle_done(std::uint64_t sequence, std::uint64_t written_until);
  // The latest message whose completion was seen; 0 if none.
  std::uint64_t sequence_done() const { return sequence_done_; }
  std::uint64_t next_sequence() { return ++sequence_; }

  // How the peer's consumer cursor moves the position, and that it does.
  CursorStep step(const wire::CdcCursor& consumer) const;
  void peer_has_consumed(std::uint32_t bytes);

  // The element is reached over another link. What was not seen done is sent again.
  void switch_link(const RmbElement& element);

  void invariants() const;

 private:
  bool announced() const { return produced_ == announced_; }
  // To be written.
  std::uint32_t due() const {
    return stopped_ ? static_cast<std::uint32_t>(reached_ - produced_) : pending();
  }
  bool update_doubtful() const { return peer_consumed_ < doubtful_; }

  RmbElement element_;
  std::uint32_t send_ring_bytes_ = 0;
  std::uint32_t reserve_ = 0;
  std::uint64_t taken_ = 0;          // from the application
  std::uint64_t produced_ = 0;       // in the peer's element
  std::uint64_t announced_ = 0;      // by a CDC
  std::uint64_t acked_ = 0;          // bytes of the send ring that are free again
  std::uint64_t reached_ = 0;        // highest produced_ ever; above it after a switch only
  std::uint64_t peer_consumed_ = 0;  // the peer's consumer cursor
  std::uint64_t doubtful_ = 0;       // below it, updates of that cursor may be lost with a link
  std::uint64_t sequence_ = 0;       // of the last message; the wire takes 16 bits
  std::uint64_t sequence_done_ = 0;
  std::uint64_t urgent_at_ = 0;  // position behind the urgent byte; 0 = none that matters
  bool stopped_ = false;
  bool urgent_due_ = false;        // not announced yet
  bool urgent_announced_ = false;  // perhaps over a link that failed
};

}  // namespace fairlead::smc
