#include "smc/connection/connection.h"

#include "base/assert.h"

namespace fairlead::smc {

Connection::Connection(AlertToken local_token, std::uint32_t local_element_bytes)
    : local_token_(local_token), rx_(local_element_bytes) {
  SMC_ASSERT(local_token.value != 0);
  SMC_ASSERT(local_element_bytes >= kElementBytesMin &&
                 (local_element_bytes & (local_element_bytes - 1)) == 0,
             local_element_bytes);
}

void Connection::set_peer(AlertToken peer_token, const RmbElement& element,
                          std::uint32_t send_ring_bytes, std::uint32_t reserve_bytes) {
  peer_token_ = peer_token;
  tx_.set_peer(element, send_ring_bytes, reserve_bytes);
}

RingWindow Connection::tx_window() const {
  if (closing_.data_ended() || closing_.lost() || closing_.abort_wanted() || closing_.peer_closed())
    return {};
  return tx_.window();
}

std::optional<Side> Connection::tx_blocked() const {
  if (!tx_.has_peer() || tx_window().bytes() != 0 || closing_.data_ended() || tx_.urgent())
    return std::nullopt;
  return tx_.uses_send_ring() && tx_.peer_free() != 0 ? Side::kLocal : Side::kPeer;
}

void Connection::produced(std::uint32_t bytes, Data kind) {
  SMC_ASSERT(bytes <= tx_window().bytes(), bytes, tx_window().bytes());
  tx_.produced(bytes, kind == Data::kLastUrgent);
  invariants();
}

void Connection::consumed(std::uint32_t bytes, TimePoint now, Announce what) {
  SMC_ASSERT(bytes <= rx_.window().bytes(), bytes, rx_.window().bytes());
  rx_.consumed(bytes);
  if (what == Announce::kAll) rx_.announce_consumed();
  // A kernel that has data left sends it at once when it gets our update, so the grace begins here.
  begin_grace(now);
  invariants();
}

void Connection::begin_grace(TimePoint now) {
  if (closing_.peer_ended() && !closing_.reset() && rx_.write_blocked() && rx_.drained())
    grace_until_ = now + kCloseGrace;
}

void Connection::stop_waiting() {
  grace_until_.reset();
  missing_until_.reset();
}

void Connection::shutdown_write() { closing_.end_data(); }

void Connection::close() { closing_.close(); }

void Connection::abort(Abort when) {
  const bool behind_data = when == Abort::kBehindData;
  if (behind_data && closing_.abort_wanted()) return;
  closing_.abort(behind_data);
  stop_waiting();
}

void Connection::handle_link_lost() {
  closing_.lose();
  stop_waiting();
}

bool Connection::data_due() const {
  return tx_.has_news() && !(tx_.uses_send_ring() && closing_.peer_closed());
}

bool Connection::transmit_due() const {
  if (!tx_.has_peer() || closing_.lost()) return false;
  if (validation_due_ || repeat_due_) return true;
  if (closing_.said_aborted()) return false;
  if (closing_.abort_due(tx_drained())) return true;
  const bool update_due = rx_.update_due(closing_.peer_ended());
  if (closing_.said_closed()) return update_due;
  return data_due() || update_due || closing_.done_writing_due(tx_drained()) ||
         (closing_.close_due() && tx_drained());
}

std::optional<Transmit> Connection::poll_transmit() {
  if (!transmit_due()) return std::nullopt;
  if (validation_due_) return validation();
  Transmit transmit;
  const bool aborts = closing_.abort_due(tx_drained()) || closing_.said_aborted();
  if (tx_.uses_send_ring() && !aborts && !closing_.peer_closed()) tx_.fill_writes(transmit);
  wire::CdcMessage& cdc = transmit.cdc;
  closing_.fill(cdc, tx_drained());
  transmit.sequence = tx_.next_sequence();
  cdc.sequence = static_cast<std::uint16_t>(transmit.sequence);
  cdc.token = peer_token_;
  tx_.fill_cursor(cdc);
  rx_.fill_cursor(cdc);
  tx_.fill_flags(cdc, closing_.data_ended());
  tx_.announce(transmit);
  rx_.confirm();
  repeat_due_ = false;
  invariants();
  return transmit;
}

void Connection::handle_transmit_done(std::uint64_t sequence, std::uint64_t written_until) {
  tx_.handle_done(sequence, written_until);
  invariants();
}

void Connection::handle_link_switched(const RmbElement& element) {
  if (!tx_.has_peer() || closing_.lost()) return;
  // As in Linux, only an open connection is validated; one that is closing just moves.
  validation_due_ = closing_.state() == CloseState::kActive;
  repeat_due_ = true;
  tx_.switch_link(element);
  invariants();
}

// Linux names the message before the last completed one, and so leaves room for a last one that the
// peer has not looked at yet; its cursors and state are zero.
Transmit Connection::validation() {
  validation_due_ = false;
  Transmit transmit;
  transmit.validation = true;
  const std::uint64_t done = tx_.sequence_done();
  transmit.cdc.sequence = static_cast<std::uint16_t>(done != 0 ? done - 1 : 0);
  transmit.cdc.token = peer_token_;
  transmit.cdc.producer_flags.failover_validation = true;
  return transmit;
}

Result<void> Connection::handle_cdc(const wire::CdcMessage& message, TimePoint now) {
  if (closing_.lost() || closing_.state() == CloseState::kClosed) return {};
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
  rx_.take_flags(message);
  if (closing_.take(message.state)) {
    grace_until_.reset();
    // Always answered, unless we have closed already.
    if (closing_.state() != CloseState::kClosed) abort();
  } else if (!grace_until_) {
    begin_grace(now);
  }
  invariants();
  return {};
}

Result<void> Connection::take_cursors(const wire::CdcMessage& message) {
  const CursorStep producer = rx_.step(message.producer);
  if (producer.kind == CursorStep::Kind::kIllegal)
    return Error{Errc::kMalformed, "CDC producer cursor is beyond the free space"};
  std::uint32_t consumed = 0;
  if (tx_.has_peer()) {
    const CursorStep consumer = tx_.step(message.consumer);
    if (consumer.kind == CursorStep::Kind::kIllegal)
      return Error{Errc::kMalformed, "CDC consumer cursor is beyond the bytes in flight"};
    consumed = consumer.bytes;
  } else if (message.consumer != wire::CdcCursor{}) {
    return Error{Errc::kMalformed, "CDC consumer cursor moved before any data was sent"};
  }
  if (producer.bytes != 0) grace_until_.reset();
  rx_.peer_has_produced(producer.bytes);
  tx_.peer_has_consumed(consumed);
  return {};
}

void Connection::handle_deadline(TimePoint now) {
  if (is_due(missing_until_, now)) abort();
  if (!is_due(grace_until_, now)) return;
  grace_until_.reset();
  // No data came, so the peer had none: it had set the flag because it filled the window exactly.
  rx_.clear_write_blocked();
}

StreamEnd Connection::rx_end() const {
  if (!rx_.drained()) return StreamEnd::kNone;
  if (closing_.reset()) return StreamEnd::kReset;
  // A peer that said "write blocked" may still have data, until the grace is over.
  if (!closing_.peer_ended() || rx_.write_blocked()) return StreamEnd::kNone;
  return StreamEnd::kFin;
}

bool Connection::reset_said() const {
  if (closing_.lost()) return true;
  if (transmit_due()) return false;
  return !closing_.abort_wanted() || closing_.said_aborted() || !tx_.has_peer();
}

void Connection::invariants() const {
  rx_.invariants();
  tx_.invariants();
}

}  // namespace fairlead::smc
