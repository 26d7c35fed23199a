// One SMC-R connection: cursors of both directions, CDC messages, close states. Sans-IO: it owns no
// memory of the rings, only says which ranges may be read or written.
// Read first: docs/wire.md, "CDC", "Rings", "Closing".
//
// How to drive it. In: handle_cdc() for each CDC that names our token, handle_transmit_done() for
// completed transmissions from a send ring, handle_deadline(). The application: produced(),
// consumed(), shutdown_write(), close(), abort(). Out: after any of these, drain poll_transmit()
// while the link has room, then look at rx().window(), rx_end() and finished(), and arm
// next_deadline().
//
// Two ways of sending. Direct: the caller writes into the peer's element itself, at tx_window(),
// and then calls produced(). By the send ring: tx_window() names ranges of a local ring of
// `send_ring_bytes`; poll_transmit() says which RDMA WRITEs move them, and handle_transmit_done()
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
#include "smc/connection/closing.h"
#include "smc/connection/cursor.h"
#include "smc/connection/rx_ring.h"
#include "smc/connection/tx_ring.h"
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
  // `send_ring_bytes` 0 means direct. `reserve_bytes` of the element, less than all, stay free for
  // failover (kSwitchReserveBytes).
  void set_peer(AlertToken peer_token, const RmbElement& element, std::uint32_t send_ring_bytes,
                std::uint32_t reserve_bytes = 0);

  AlertToken local_token() const { return local_token_; }
  AlertToken peer_token() const { return peer_token_; }
  const TxRing& tx() const { return tx_; }
  const RxRing& rx() const { return rx_; }
  const Closing& closing() const { return closing_; }

  // An error means that the peer broke the protocol and the connection has been aborted locally.
  // The caller still has to send the abort and to reset the application.
  Result<void> handle_cdc(const wire::CdcMessage& message, TimePoint now);
  void handle_transmit_done(std::uint64_t sequence, std::uint64_t written_until);
  void handle_deadline(TimePoint now);
  // The link failed; `element` is the peer's element on another link. Transmissions not reported
  // done before this call count as lost, and no report of the old link may follow.
  void handle_link_switched(const RmbElement& element);
  // The link group is gone; nothing can be sent any more.
  void handle_link_lost();

  // Range for the application's next bytes; empty when blocked or ended.
  RingWindow tx_window() const;
  // kLastUrgent: the last of them is urgent data. tx_window() is then empty until the peer has
  // consumed it. REQUIRES: bytes <= tx_window().bytes()
  enum class Data : std::uint8_t { kNormal, kLastUrgent };
  void produced(std::uint32_t bytes, Data kind = Data::kNormal);
  // The bytes for the application are in rx().window().
  // kAll: the connection is idle, and the peer hears of all that was consumed.
  // REQUIRES: bytes <= rx().window().bytes()
  enum class Announce : std::uint8_t { kWhenDue, kAll };
  void consumed(std::uint32_t bytes, TimePoint now, Announce what = Announce::kWhenDue);
  // The bytes that are still in the send ring, which are returned, go another way.
  RingWindow stop_sending() { return tx_.stop(); }
  void shutdown_write();  // the application's FIN: no more produced()
  void close();           // FINs of both directions have been handed over
  // Resets the connection. The next message reports it to the peer; bytes that no message has
  // announced may be lost. Bytes that the peer announced before stay in rx().window().
  // kBehindData: after the bytes that were produced. A second abort() at once ends the wait for
  // room in the peer's element.
  enum class Abort : std::uint8_t { kAtOnce, kBehindData };
  void abort(Abort when = Abort::kAtOnce);

  // True if poll_transmit() has a message or write to send. Cheap.
  bool transmit_due() const;
  std::optional<Transmit> poll_transmit();
  Deadline next_deadline() const { return earliest(missing_until_, grace_until_); }

  StreamEnd rx_end() const;
  // True if the peer needs no further message about the reset. REQUIRES: closing().reset()
  bool reset_said() const;
  // The side whose ring has no room for a sender: the peer's element (kPeer) or the own send ring
  // (kLocal).
  std::optional<Side> tx_blocked() const;
  // Both sides have closed or aborted and said so.
  bool finished() const {
    return closing_.state() == CloseState::kClosed && !closing_.close_due() &&
           !closing_.abort_due(tx_drained()) && !repeat_due_;
  }

 private:
  // No byte is left in the send ring that the peer could still read.
  bool tx_drained() const { return tx_.pending() == 0 || closing_.peer_closed(); }
  bool data_due() const;
  void begin_grace(TimePoint now);
  void stop_waiting();
  Transmit validation();
  Result<void> take_cursors(const wire::CdcMessage& message);
  void invariants() const;

  AlertToken local_token_;
  AlertToken peer_token_;
  TxRing tx_;
  RxRing rx_;
  Closing closing_;
  std::uint16_t rx_sequence_ = 0;
  bool rx_started_ = false;
  bool validation_due_ = false;
  bool repeat_due_ = false;  // the whole state must be sent again
  std::optional<TimePoint> grace_until_;
  std::optional<TimePoint> missing_until_;  // for data found missing (kValidationWait)
};

// Both sides have closed, and nothing was aborted.
inline bool ended_in_order(const Connection& connection) {
  return connection.finished() && !connection.closing().reset();
}

}  // namespace fairlead::smc
