// One SMC-R connection: cursors of both directions, CDC messages, close states. Sans-IO: it owns no
// memory of the rings, only says which ranges may be read or written.
// Read first: docs/wire.md, "CDC", "Rings", "Closing".
//
// How to drive it. In: handle_cdc() for each CDC that names our token, handle_transmit_done() for
// completed transmissions of a staged connection, handle_deadline(). The application: produced(),
// consumed(), shutdown_write(), close(), abort(). Out: after any of these, drain poll_transmit()
// while the link has room, then look at rx_window(), rx_end() and finished(), and arm
// next_deadline().
//
// Two ways of sending. Direct: the caller writes into the peer's element itself, at tx_window(),
// and then calls produced(). Staged: tx_window() names ranges of a local send ring of
// `staging_bytes`; poll_transmit() says which RDMA WRITEs move them, and handle_transmit_done()
// frees them.
//
// When its link fails, handle_link_switched() starts again on another one: a failover validation,
// then one message with the state of everything, behind the writes whose completion was not seen.
// That message also repeats a consumer update or an end that was lost, which Linux does not.
//
// Timers: the end-of-stream grace, see kCloseGrace, and the wait for what a failover validation
// found missing, see kValidationWait.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "smc/close_state.h"
#include "smc/cursor.h"
#include "wire/cdc.h"

namespace fairlead::smc {

// Linux sends "done writing" or "closed" two seconds after shutdown() or close() even if data is
// left, and says so only by leaving write_blocked set. After draining such a stream we wait this
// long for more before believing it.
inline constexpr Duration kCloseGrace = std::chrono::milliseconds(200);

// After a failover validation that is ahead of what has come. Our peers repeat everything at once,
// others do so only when they have something to send.
inline constexpr Duration kValidationWait = std::chrono::seconds(2);

// Of a peer's element, where links can be lost: never used but after a switch, a byte each. Linux
// does not repeat a consumer update that died with a link, and says it again only when its
// application takes something new: a sender that had filled the element would never go on.
inline constexpr std::uint32_t kSwitchReserveBytes = 64;

// A consumer update is due only when more than this is unconfirmed, or a tenth of the element.
inline constexpr std::uint32_t kUpdateBytesMin = 2304;

struct RmbElement {
  RemoteKey rkey;
  RemoteAddress address;  // of the element, not of the RMB
  std::uint32_t size_bytes = 0;
};

// One piece of a staged transmission.
struct StagedWrite {
  std::uint32_t staging_offset = 0;
  std::uint32_t remote_offset = 0;
  std::uint32_t length = 0;
};

struct Transmit {
  static constexpr unsigned kWritesMax = 3;  // both rings may wrap once
  StagedWrite writes[kWritesMax];
  unsigned write_count = 0;
  wire::CdcMessage cdc;
  bool validation = false;     // nothing to be told of its completion
  std::uint64_t sequence = 0;  // these two: for handle_transmit_done()
  std::uint64_t staged_until = 0;
};

enum class StreamEnd : std::uint8_t {
  kNone,  // more may come
  kFin,   // the peer's data ended and all of it was consumed
  // The peer or this side aborted, or the connection was lost, and all that the peer had announced
  // was consumed.
  kReset,
};

class Connection {
 public:
  Connection(AlertToken local_token, std::uint32_t local_element_bytes);

  // The peer's half, from its Accept or Confirm. Before this, CDCs are taken but nothing can be
  // sent: the peer's data may overtake its Confirm. `staging_bytes` 0 means direct. `reserve_bytes`
  // of the element, less than all, are kept for questions after a switch (kSwitchReserveBytes).
  void set_peer(AlertToken peer_token, const RmbElement& element, std::uint32_t staging_bytes,
                std::uint32_t reserve_bytes = 0);

  AlertToken local_token() const { return local_token_; }
  AlertToken peer_token() const { return peer_token_; }
  const RmbElement& peer_element() const { return peer_element_; }
  std::uint32_t local_element_bytes() const { return rx_size_; }
  CloseState close_state() const { return state_; }
  std::uint64_t tx_bytes() const { return tx_reached_; }
  std::uint64_t rx_bytes() const { return rx_consumed_; }

  // An error means the peer broke the protocol and the connection has been aborted locally; what is
  // left is to send the abort and to reset the application.
  Result<void> handle_cdc(const wire::CdcMessage& message, TimePoint now);
  void handle_transmit_done(std::uint64_t sequence, std::uint64_t staged_until);
  void handle_deadline(TimePoint now);
  // The link died and `element` is the peer's on another one. What was not reported done before
  // this call counts as lost, and no report of the old link may follow.
  void handle_link_switched(const RmbElement& element);
  // The link group is gone; nothing can be sent any more.
  void handle_link_lost();

  // Where bytes of the application may be put now; empty when blocked or ended.
  RingWindow tx_window() const;
  void produced(std::uint32_t bytes);  // REQUIRES: bytes <= tx_window().bytes()
  // One byte of urgent data was put at tx_window(), which is empty from now on until the peer has
  // consumed that byte: Linux takes the last byte in its element for the urgent one.
  void produced_urgent();  // REQUIRES: tx_window().bytes() >= 1
  // Where bytes for the application lie. Ends before an urgent byte, which then is a window of its
  // own.
  RingWindow rx_window() const;
  // The one byte in rx_window() is urgent data.
  bool rx_urgent() const { return rx_urgent_at_ != 0 && rx_consumed_ + 1 == rx_urgent_at_; }
  void consumed(std::uint32_t bytes, TimePoint now);  // REQUIRES: bytes <= rx_window().bytes()

  void shutdown_write();  // the application's FIN: no more produced()
  void close();           // FINs of both directions have been handed over
  // Resets the connection. The peer learns it with the next message; bytes that no message has
  // announced may be lost. What the peer announced before stays in rx_window().
  void abort();
  // Resets the connection behind the bytes that were produced. abort() ends the wait for room in
  // the peer's element.
  void abort_behind_data();

  // True when poll_transmit() has something to say. Cheap.
  bool transmit_due() const;
  std::optional<Transmit> poll_transmit();
  std::optional<TimePoint> next_deadline() const {
    if (!missing_until_ || (grace_until_ && *grace_until_ < *missing_until_)) return grace_until_;
    return missing_until_;
  }

  StreamEnd rx_end() const;
  // Aborted by whichever side, or lost. Bytes may be left in rx_window().
  bool reset() const { return peer_aborted_ || lost_ || abort_wanted_; }
  // REQUIRES: reset(). Nothing is left to be said of it.
  bool reset_said() const {
    return lost_ || (!transmit_due() && (!abort_wanted_ || sent_.aborted || !has_peer_));
  }
  // The peer's data ended in order, although its connection may have been reset afterwards.
  bool peer_ended() const { return peer_done_ || peer_closed_; }
  // The peer's application has closed: whatever ours still sends has no reader.
  bool peer_closed() const { return peer_closed_; }
  // Nothing that was produced is left in a ring, or none of it has a reader any more.
  bool tx_consumed() const {
    return peer_closed_ || (staged_pending() == 0 && tx_peer_consumed_ == tx_produced_);
  }
  // A sender finds no room: in the peer's element (kPeer), or in the own ring (kLocal).
  std::optional<Side> tx_blocked() const {
    if (!has_peer_ || tx_window().bytes() != 0 || tx_ended_ || tx_urgent_at_ != 0)
      return std::nullopt;
    return staged() && peer_free() != 0 ? Side::kLocal : Side::kPeer;
  }
  // Both sides have closed or aborted and said so: element and token may be used again.
  bool finished() const {
    return state_ == CloseState::kClosed && !close_due() && !abort_due() && !repeat_due_;
  }
  bool lost() const { return lost_; }

 private:
  bool staged() const { return staging_size_ != 0; }
  std::uint32_t peer_free() const;
  bool update_doubtful() const { return tx_peer_consumed_ < tx_doubtful_; }
  std::uint32_t staged_pending() const;
  // Nothing is left that the peer could still want.
  bool tx_drained() const { return staged_pending() == 0 || peer_closed_; }
  bool data_due() const;
  bool update_due() const;
  bool done_writing_due() const;
  bool close_due() const { return close_wanted_ && !sent_.closed && !sent_.aborted; }
  bool abort_due() const {
    return abort_wanted_ && !sent_.aborted && (!abort_behind_data_ || tx_drained());
  }
  void stage_writes(Transmit& transmit);
  void fill_urgent_flags(wire::CdcMessage& cdc);
  void take_urgent_flag(const wire::CdcMessage& message);
  Transmit validation();
  void fill_state_flags(wire::CdcMessage& cdc);
  Result<void> take_cursors(const wire::CdcMessage& message);
  void take_state(const wire::ConnectionStateFlags& state, TimePoint now);
  void apply(CloseEvent event);
  void invariants() const;

  AlertToken local_token_;
  AlertToken peer_token_;
  bool has_peer_ = false;
  bool lost_ = false;

  // Towards the peer. staged: acked <= produced <= staged_; direct: staged_ == produced.
  RmbElement peer_element_;
  std::uint32_t staging_size_ = 0;
  std::uint64_t tx_staged_ = 0;         // taken from the application
  std::uint64_t tx_produced_ = 0;       // in the peer's element
  std::uint64_t tx_announced_ = 0;      // told by a CDC
  std::uint64_t tx_acked_ = 0;          // staging bytes free again
  std::uint64_t tx_reached_ = 0;        // highest tx_produced_ ever; above it after a switch only
  std::uint64_t tx_peer_consumed_ = 0;  // the peer's consumer cursor
  std::uint64_t tx_doubtful_ = 0;       // below it, news of that cursor may have died with a link
  std::uint32_t tx_reserve_ = 0;
  std::uint64_t tx_sequence_ = 0;       // of the last message; the wire takes 16 bits
  std::uint64_t tx_sequence_done_ = 0;  // of the last one whose completion was seen
  std::uint64_t tx_urgent_at_ = 0;      // position behind the urgent byte; 0 = none that matters
  bool tx_urgent_due_ = false;          // it is still to be announced
  bool tx_urgent_told_ = false;         // it was announced, perhaps over a link that died
  bool validation_due_ = false;
  bool repeat_due_ = false;  // the whole state must be sent again
  bool tx_ended_ = false;

  // From the peer. confirmed <= consumed <= produced <= confirmed + size.
  std::uint32_t rx_size_;
  std::uint64_t rx_produced_ = 0;
  std::uint64_t rx_consumed_ = 0;
  std::uint64_t rx_confirmed_ = 0;
  std::uint64_t rx_urgent_at_ = 0;  // position behind the urgent byte; 0 = none
  std::uint16_t rx_sequence_ = 0;
  bool rx_started_ = false;
  bool peer_write_blocked_ = false;
  bool update_requested_ = false;

  CloseState state_ = CloseState::kActive;
  wire::ConnectionStateFlags sent_;
  bool close_wanted_ = false;
  bool abort_wanted_ = false;
  bool abort_behind_data_ = false;
  bool peer_done_ = false;
  bool peer_closed_ = false;
  bool peer_aborted_ = false;
  std::optional<TimePoint> grace_until_;
  std::optional<TimePoint> missing_until_;  // messages of the peer that it took for received
};

}  // namespace fairlead::smc
