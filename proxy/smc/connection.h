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
// left. The only sign of that is that write_blocked stays set. After draining such a stream, this
// side waits this long for more data before it accepts the end.
inline constexpr Duration kCloseGrace = std::chrono::milliseconds(200);

// How long to wait for data that a failover validation found missing. Fairlead peers repeat
// everything at once; others do so only when they have something to send.
inline constexpr Duration kValidationWait = std::chrono::seconds(2);

// Bytes of the peer's element reserved for failover, if links can be lost. Linux does not repeat a
// consumer update that was lost with a link until its application reads more data. A sender that
// had filled the element would then block forever; writing a reserved byte makes Linux repeat the
// cursor.
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
  bool validation = false;     // its completion needs no report
  std::uint64_t sequence = 0;  // this and the next: for handle_transmit_done()
  std::uint64_t staged_until = 0;
};

enum class StreamEnd : std::uint8_t {
  kNone,  // more may come
  kFin,   // the peer's data ended and all of it was consumed
  // Aborted by either side, or lost, and all data that the peer had announced was consumed.
  kReset,
};

class Connection {
 public:
  Connection(AlertToken local_token, std::uint32_t local_element_bytes);

  // Sets the peer's token and element, from its Accept or Confirm. Before this call CDCs are
  // accepted, because the peer's data may overtake its Confirm, but nothing can be sent.
  // `staging_bytes` 0 means direct. `reserve_bytes` of the element, less than all, stay free for
  // failover (kSwitchReserveBytes).
  void set_peer(AlertToken peer_token, const RmbElement& element, std::uint32_t staging_bytes,
                std::uint32_t reserve_bytes = 0);

  AlertToken local_token() const { return local_token_; }
  AlertToken peer_token() const { return peer_token_; }
  const RmbElement& peer_element() const { return peer_element_; }
  std::uint32_t local_element_bytes() const { return rx_size_; }
  CloseState close_state() const { return state_; }
  std::uint64_t tx_bytes() const { return tx_reached_; }
  std::uint64_t rx_bytes() const { return rx_consumed_; }

  // An error means that the peer broke the protocol and the connection has been aborted locally.
  // The caller still has to send the abort and to reset the application.
  Result<void> handle_cdc(const wire::CdcMessage& message, TimePoint now);
  void handle_transmit_done(std::uint64_t sequence, std::uint64_t staged_until);
  void handle_deadline(TimePoint now);
  // The link failed; `element` is the peer's element on another link. Transmissions not reported
  // done before this call count as lost, and no report of the old link may follow.
  void handle_link_switched(const RmbElement& element);
  // The link group is gone; nothing can be sent any more.
  void handle_link_lost();

  // Range for the application's next bytes; empty when blocked or ended.
  RingWindow tx_window() const;
  void produced(std::uint32_t bytes);  // REQUIRES: bytes <= tx_window().bytes()
  // One byte of urgent data was put at tx_window(), which is then empty until the peer has consumed
  // that byte. Reason: Linux takes the last byte in its element for the urgent one.
  void produced_urgent();  // REQUIRES: tx_window().bytes() >= 1
  // Range of the bytes for the application. Ends before an urgent byte, which then is a window of
  // its own.
  RingWindow rx_window() const;
  // The one byte in rx_window() is urgent data.
  bool rx_urgent() const { return rx_urgent_at_ != 0 && rx_consumed_ + 1 == rx_urgent_at_; }
  void consumed(std::uint32_t bytes, TimePoint now);  // REQUIRES: bytes <= rx_window().bytes()

  void shutdown_write();  // the application's FIN: no more produced()
  void close();           // FINs of both directions have been handed over
  // Resets the connection. The next message reports it to the peer; bytes that no message has
  // announced may be lost. Bytes that the peer announced before stay in rx_window().
  void abort();
  // Resets the connection after the bytes that were produced. abort() ends the wait for room in the
  // peer's element.
  void abort_behind_data();

  // True if poll_transmit() has a message or write to send. Cheap.
  bool transmit_due() const;
  std::optional<Transmit> poll_transmit();
  std::optional<TimePoint> next_deadline() const {
    if (!missing_until_ || (grace_until_ && *grace_until_ < *missing_until_)) return grace_until_;
    return missing_until_;
  }

  StreamEnd rx_end() const;
  // Aborted by either side, or lost. Bytes may be left in rx_window().
  bool reset() const { return peer_aborted_ || lost_ || abort_wanted_; }
  // True if the peer needs no further message about the reset. REQUIRES: reset()
  bool reset_said() const {
    return lost_ || (!transmit_due() && (!abort_wanted_ || sent_.aborted || !has_peer_));
  }
  // The peer's data ended in order, although its connection may have been reset afterwards.
  bool peer_ended() const { return peer_done_ || peer_closed_; }
  // The peer's application has closed: nothing reads the bytes that this side still sends.
  bool peer_closed() const { return peer_closed_; }
  // True if the peer has consumed all produced bytes, or nothing reads the rest any more.
  bool tx_consumed() const {
    return peer_closed_ || (staged_pending() == 0 && tx_peer_consumed_ == tx_produced_);
  }
  // The side whose ring has no room for a sender: the peer's element (kPeer) or the own send ring
  // (kLocal).
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
  // No staged byte is left that the peer could still read.
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
  std::uint64_t tx_announced_ = 0;      // announced by a CDC
  std::uint64_t tx_acked_ = 0;          // staging bytes free again
  std::uint64_t tx_reached_ = 0;        // highest tx_produced_ ever; above it after a switch only
  std::uint64_t tx_peer_consumed_ = 0;  // the peer's consumer cursor
  std::uint64_t tx_doubtful_ = 0;       // below it, updates of that cursor may be lost with a link
  std::uint32_t tx_reserve_ = 0;
  std::uint64_t tx_sequence_ = 0;       // of the last message; the wire takes 16 bits
  std::uint64_t tx_sequence_done_ = 0;  // of the last one whose completion was seen
  std::uint64_t tx_urgent_at_ = 0;      // position behind the urgent byte; 0 = none that matters
  bool tx_urgent_due_ = false;          // not announced yet
  bool tx_urgent_told_ = false;         // announced, perhaps over a link that failed
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
  std::optional<TimePoint> missing_until_;  // for data found missing (kValidationWait)
};

}  // namespace fairlead::smc
