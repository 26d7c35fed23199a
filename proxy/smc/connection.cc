// The file is long because cursors, flags and close states of one connection are decided together
// in every message.

#include "smc/connection.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::smc {
namespace {

std::uint32_t span_bytes(std::uint64_t from, std::uint64_t to) {
  return static_cast<std::uint32_t>(to - from);
}

}  // namespace

Connection::Connection(AlertToken local_token, std::uint32_t local_element_bytes)
    : local_token_(local_token), rx_size_(local_element_bytes) {
  SMC_ASSERT(local_token.value != 0);
  SMC_ASSERT(local_element_bytes >= kElementBytesMin &&
                 (local_element_bytes & (local_element_bytes - 1)) == 0,
             local_element_bytes);
}

void Connection::set_peer(AlertToken peer_token, const RmbElement& element,
                          std::uint32_t staging_bytes, std::uint32_t reserve_bytes) {
  SMC_ASSERT(!has_peer_);
  SMC_ASSERT(reserve_bytes < element.size_bytes, reserve_bytes);
  SMC_ASSERT(element.size_bytes >= kElementBytesMin, element.size_bytes);
  SMC_ASSERT((staging_bytes & (staging_bytes - 1)) == 0, staging_bytes);
  peer_token_ = peer_token;
  peer_element_ = element;
  staging_size_ = staging_bytes;
  tx_reserve_ = reserve_bytes;
  has_peer_ = true;
}

std::uint32_t Connection::peer_free() const {
  const std::uint64_t all = tx_peer_consumed_ + peer_element_.size_bytes;
  std::uint64_t limit = all - tx_reserve_;
  if (update_doubtful()) limit = std::max(limit, std::min(all, tx_doubtful_ + 1));
  return limit > tx_produced_ ? span_bytes(tx_produced_, limit) : 0;
}

std::uint32_t Connection::staged_pending() const { return span_bytes(tx_produced_, tx_staged_); }

RingWindow Connection::tx_window() const {
  if (!has_peer_ || tx_ended_ || lost_ || abort_wanted_ || peer_closed_) return {};
  if (tx_urgent_at_ != 0) return {};
  if (!staged()) return ring_window(tx_produced_, peer_element_.size_bytes, peer_free());
  return ring_window(tx_staged_, staging_size_, staging_size_ - span_bytes(tx_acked_, tx_staged_));
}

void Connection::produced(std::uint32_t bytes) {
  SMC_ASSERT(bytes <= tx_window().bytes(), bytes, tx_window().bytes());
  tx_staged_ += bytes;
  if (!staged()) tx_reached_ = tx_produced_ += bytes;
  invariants();
}

void Connection::produced_urgent() {
  produced(1);
  tx_urgent_at_ = tx_staged_;
  tx_urgent_due_ = true;
  tx_urgent_told_ = false;
}

RingWindow Connection::rx_window() const {
  std::uint64_t until = rx_produced_;
  if (rx_urgent()) until = rx_urgent_at_;
  if (rx_urgent_at_ > rx_consumed_ + 1) until = rx_urgent_at_ - 1;
  return ring_window(rx_consumed_, rx_size_, span_bytes(rx_consumed_, until));
}

void Connection::consumed(std::uint32_t bytes, TimePoint now) {
  SMC_ASSERT(bytes <= rx_window().bytes(), bytes, rx_window().bytes());
  rx_consumed_ += bytes;
  // The kernel answers our update at once when it had data left: the grace begins with the update.
  if (peer_ended() && peer_write_blocked_ && rx_consumed_ == rx_produced_)
    grace_until_ = now + kCloseGrace;
  invariants();
}

void Connection::shutdown_write() { tx_ended_ = true; }

void Connection::close() {
  tx_ended_ = true;
  close_wanted_ = true;
}

void Connection::abort() {
  abort_wanted_ = true;
  abort_behind_data_ = false;
  grace_until_.reset();
  missing_until_.reset();
}

void Connection::abort_behind_data() {
  if (abort_wanted_) return;
  abort();
  abort_behind_data_ = true;
}

void Connection::handle_link_lost() {
  lost_ = true;
  grace_until_.reset();
  missing_until_.reset();
  state_ = CloseState::kClosed;
}

bool Connection::data_due() const {
  if (staged()) return staged_pending() != 0 && peer_free() != 0 && !peer_closed_;
  return tx_produced_ != tx_announced_;
}

bool Connection::update_due() const {
  const std::uint32_t unconfirmed = span_bytes(rx_confirmed_, rx_consumed_);
  if (unconfirmed == 0 || (peer_ended() && !peer_write_blocked_)) return false;
  if (update_requested_) return true;
  if (rx_urgent_at_ != 0 && rx_consumed_ >= rx_urgent_at_) return true;
  const std::uint32_t limit = std::max(rx_size_ / 10, kUpdateBytesMin);
  // A kernel that has closed with data left goes on only when it sees room, however little.
  if (peer_write_blocked_ && (unconfirmed > limit || peer_ended())) return true;
  const std::uint32_t sender_free = rx_size_ - span_bytes(rx_confirmed_, rx_produced_);
  return unconfirmed > limit && sender_free <= rx_size_ / 2;
}

bool Connection::done_writing_due() const {
  return tx_ended_ && !sent_.done_writing && !sent_.closed && !sent_.aborted && tx_drained();
}

bool Connection::transmit_due() const {
  if (!has_peer_ || lost_) return false;
  if (validation_due_ || repeat_due_) return true;
  if (sent_.aborted) return false;
  if (abort_due()) return true;
  if (sent_.closed) return update_due();
  return data_due() || update_due() || done_writing_due() || (close_due() && tx_drained());
}

void Connection::stage_writes(Transmit& transmit) {
  std::uint32_t left = std::min(staged_pending(), peer_free());
  while (left != 0 && transmit.write_count < Transmit::kWritesMax) {
    const auto from = static_cast<std::uint32_t>(tx_produced_ % staging_size_);
    const auto to = static_cast<std::uint32_t>(tx_produced_ % peer_element_.size_bytes);
    const std::uint32_t length =
        std::min({left, staging_size_ - from, peer_element_.size_bytes - to});
    transmit.writes[transmit.write_count++] = {from, to, length};
    tx_produced_ += length;
    left -= length;
  }
  tx_reached_ = std::max(tx_reached_, tx_produced_);
}

// Linux believes "present" only in a message that moves the producer cursor, and takes "pending" in
// one that does not for a newer urgent byte. So what is said again comes without "pending".
void Connection::fill_urgent_flags(wire::CdcMessage& cdc) {
  if (!tx_urgent_due_) return;
  cdc.producer_flags.urgent_pending = !tx_urgent_told_;
  if (tx_produced_ != tx_urgent_at_) return;
  cdc.producer_flags.urgent_present = true;
  tx_urgent_due_ = false;
  tx_urgent_told_ = true;
}

void Connection::fill_state_flags(wire::CdcMessage& cdc) {
  if (abort_due()) {
    // A FIN that was handed over before the reset is said too: the peer tells the two apart.
    if (done_writing_due()) sent_.done_writing = true;
    const CloseFacts facts{sent_.closed, peer_closed_ || peer_aborted_};
    sent_.aborted = true;
    state_ = next(state_, CloseEvent::kSentAbort, facts);
  } else if (!sent_.aborted) {
    if (done_writing_due()) {
      sent_.done_writing = true;
      apply(CloseEvent::kSentDoneWriting);
    }
    if (close_due() && tx_drained()) {
      apply(CloseEvent::kSentClosed);
      sent_.closed = true;
    }
  }
  cdc.state = sent_;
}

std::optional<Transmit> Connection::poll_transmit() {
  if (!transmit_due()) return std::nullopt;
  if (validation_due_) return validation();
  Transmit transmit;
  if (staged() && !abort_due() && !sent_.aborted && !peer_closed_) stage_writes(transmit);
  wire::CdcMessage& cdc = transmit.cdc;
  fill_state_flags(cdc);
  transmit.sequence = ++tx_sequence_;
  cdc.sequence = static_cast<std::uint16_t>(tx_sequence_);
  cdc.token = peer_token_;
  cdc.producer = cursor_at(tx_produced_, peer_element_.size_bytes);
  cdc.consumer = cursor_at(rx_consumed_, rx_size_);
  // Said only while more may follow: a peer that sees it beside "closed" waits for the rest.
  cdc.producer_flags.consumer_update_requested = update_doubtful();
  cdc.producer_flags.write_blocked = peer_free() == 0 && !(tx_ended_ && staged_pending() == 0);
  fill_urgent_flags(cdc);
  transmit.staged_until = tx_produced_;
  tx_announced_ = tx_produced_;
  rx_confirmed_ = rx_consumed_;
  update_requested_ = false;
  repeat_due_ = false;
  if (rx_urgent_at_ != 0 && rx_consumed_ >= rx_urgent_at_) rx_urgent_at_ = 0;
  invariants();
  return transmit;
}

void Connection::handle_transmit_done(std::uint64_t sequence, std::uint64_t staged_until) {
  SMC_ASSERT(staged_until <= tx_produced_, staged_until, tx_produced_);
  SMC_ASSERT(sequence <= tx_sequence_, sequence, tx_sequence_);
  tx_sequence_done_ = std::max(tx_sequence_done_, sequence);
  if (staged_until > tx_acked_) tx_acked_ = staged_until;
  invariants();
}

Result<void> Connection::handle_cdc(const wire::CdcMessage& message, TimePoint now) {
  if (lost_ || state_ == CloseState::kClosed) return {};
  // Older messages were overtaken on another link; an equal number is a repetition.
  const auto ahead = static_cast<std::int16_t>(message.sequence - rx_sequence_);
  if (message.producer_flags.failover_validation) {
    // What was acknowledged may still have died with our end of the link. The next message says it
    // all again, because cursors and flags count from the beginning.
    if (ahead > 0 && !missing_until_) missing_until_ = now + kValidationWait;
    return {};
  }
  if (rx_started_ && ahead < 0) return {};
  missing_until_.reset();
  rx_started_ = true;
  rx_sequence_ = message.sequence;
  if (Result<void> taken = take_cursors(message); !taken) {
    abort();
    return taken;
  }
  peer_write_blocked_ = message.producer_flags.write_blocked;
  if (message.producer_flags.consumer_update_requested) update_requested_ = true;
  if (message.producer_flags.urgent_present) take_urgent_flag(message);
  take_state(message.state, now);
  invariants();
  return {};
}

// The urgent byte is the last one before the producer cursor. A newer one makes the older ordinary
// data, as in TCP. A flag that names no byte that is still unread says nothing.
void Connection::take_urgent_flag(const wire::CdcMessage& message) {
  const bool unread = rx_produced_ != rx_consumed_;
  if (unread && message.producer == cursor_at(rx_produced_, rx_size_)) rx_urgent_at_ = rx_produced_;
}

Result<void> Connection::take_cursors(const wire::CdcMessage& message) {
  // What we have not announced as free, the peer may not touch, even if it is free by now.
  const std::uint32_t rx_free = rx_size_ - span_bytes(rx_confirmed_, rx_produced_);
  const CursorStep producer = cursor_step(rx_produced_, message.producer, rx_size_, rx_free);
  if (producer.kind == CursorStep::Kind::kIllegal)
    return Error{Errc::kMalformed, "CDC producer cursor is beyond the free space"};
  std::uint32_t consumed = 0;
  if (has_peer_) {
    const CursorStep consumer =
        cursor_step(tx_peer_consumed_, message.consumer, peer_element_.size_bytes,
                    span_bytes(tx_peer_consumed_, tx_reached_));
    if (consumer.kind == CursorStep::Kind::kIllegal)
      return Error{Errc::kMalformed, "CDC consumer cursor is beyond the bytes in flight"};
    consumed = consumer.bytes;
  } else if (message.consumer != wire::CdcCursor{}) {
    return Error{Errc::kMalformed, "CDC consumer cursor moved before any data was sent"};
  }
  if (producer.bytes != 0) grace_until_.reset();
  rx_produced_ += producer.bytes;
  tx_peer_consumed_ += consumed;
  if (tx_peer_consumed_ >= tx_urgent_at_) {
    tx_urgent_at_ = 0;
    tx_urgent_due_ = false;
  }
  // After a switch the peer may know more of what arrived than we do.
  tx_produced_ = std::max(tx_produced_, tx_peer_consumed_);
  return {};
}

void Connection::take_state(const wire::ConnectionStateFlags& state, TimePoint now) {
  if (state.aborted && !peer_aborted_) {
    apply(CloseEvent::kGotAbort);
    peer_aborted_ = true;
    // A FIN before the reset is passed on before it.
    peer_done_ = peer_done_ || state.done_writing;
    grace_until_.reset();
    // Always answered, unless we have closed already.
    if (state_ != CloseState::kClosed) abort();
    return;
  }
  if (state.done_writing && !peer_done_) {
    peer_done_ = true;
    apply(CloseEvent::kGotDoneWriting);
  }
  if (state.closed && !peer_closed_) {
    apply(CloseEvent::kGotClosed);
    peer_closed_ = true;
  }
  if (peer_ended() && peer_write_blocked_ && rx_consumed_ == rx_produced_ && !grace_until_)
    grace_until_ = now + kCloseGrace;
}

void Connection::handle_deadline(TimePoint now) {
  if (missing_until_ && now >= *missing_until_) abort();
  if (!grace_until_ || now < *grace_until_) return;
  grace_until_.reset();
  peer_write_blocked_ =
      false;  // nothing came: that flag was left over from a window filled exactly
}

StreamEnd Connection::rx_end() const {
  if (rx_consumed_ != rx_produced_) return StreamEnd::kNone;
  if (reset()) return StreamEnd::kReset;
  if (!peer_ended()) return StreamEnd::kNone;
  if (peer_write_blocked_) return StreamEnd::kNone;  // until the grace is over
  return StreamEnd::kFin;
}

void Connection::apply(CloseEvent event) {
  state_ = next(state_, event, {sent_.closed || sent_.aborted, peer_closed_ || peer_aborted_});
}

void Connection::invariants() const {
  SMC_ASSERT(rx_confirmed_ <= rx_consumed_ && rx_consumed_ <= rx_produced_, rx_confirmed_,
             rx_consumed_, rx_produced_);
  SMC_ASSERT(rx_produced_ - rx_confirmed_ <= rx_size_, rx_produced_, rx_confirmed_, rx_size_);
  SMC_ASSERT(tx_peer_consumed_ <= tx_produced_ && tx_produced_ <= tx_staged_, tx_peer_consumed_,
             tx_produced_, tx_staged_);
  SMC_ASSERT(tx_produced_ <= tx_reached_ && tx_reached_ <= tx_staged_, tx_produced_, tx_reached_);
  SMC_ASSERT(!has_peer_ || tx_produced_ - tx_peer_consumed_ <= peer_element_.size_bytes,
             tx_produced_, tx_peer_consumed_);
}

}  // namespace fairlead::smc
