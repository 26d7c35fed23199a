#include "smc/connection/tx_ring.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::smc {
namespace {

std::uint32_t span_bytes(std::uint64_t from, std::uint64_t to) {
  return static_cast<std::uint32_t>(to - from);
}

}  // namespace

void TxRing::set_peer(const RmbElement& element, std::uint32_t send_ring_bytes,
                      std::uint32_t reserve_bytes) {
  SMC_ASSERT(!has_peer());
  SMC_ASSERT(reserve_bytes < element.size_bytes, reserve_bytes);
  SMC_ASSERT(element.size_bytes >= kElementBytesMin, element.size_bytes);
  SMC_ASSERT((send_ring_bytes & (send_ring_bytes - 1)) == 0, send_ring_bytes);
  element_ = element;
  send_ring_bytes_ = send_ring_bytes;
  reserve_ = reserve_bytes;
}

std::uint32_t TxRing::peer_free() const {
  const std::uint64_t all = peer_consumed_ + element_.size_bytes;
  std::uint64_t limit = all - reserve_;
  if (update_doubtful()) limit = std::max(limit, std::min(all, doubtful_ + 1));
  return limit > produced_ ? span_bytes(produced_, limit) : 0;
}

RingWindow TxRing::window() const {
  if (!has_peer() || urgent()) return {};
  if (!uses_send_ring()) return ring_window(produced_, element_.size_bytes, peer_free());
  return ring_window(taken_, send_ring_bytes_, send_ring_bytes_ - span_bytes(acked_, taken_));
}

void TxRing::produced(std::uint32_t bytes, bool last_is_urgent) {
  taken_ += bytes;
  if (!uses_send_ring()) reached_ = produced_ += bytes;
  if (!last_is_urgent) return;
  urgent_at_ = taken_;
  urgent_due_ = true;
  urgent_announced_ = false;
}

void TxRing::fill_writes(Transmit& transmit) {
  std::uint32_t left = std::min(due(), peer_free());
  while (left != 0 && transmit.write_count < Transmit::kWritesMax) {
    const auto from = static_cast<std::uint32_t>(produced_ % send_ring_bytes_);
    const auto to = static_cast<std::uint32_t>(produced_ % element_.size_bytes);
    const std::uint32_t length =
        std::min({left, send_ring_bytes_ - from, element_.size_bytes - to});
    transmit.writes[transmit.write_count++] = {from, to, length};
    produced_ += length;
    left -= length;
  }
  reached_ = std::max(reached_, produced_);
}

void TxRing::fill_cursor(wire::CdcMessage& cdc) const {
  cdc.producer = cursor_at(produced_, element_.size_bytes);
}

// Linux believes "present" only in a message that moves the producer cursor, and takes "pending" in
// one that does not for a newer urgent byte. So what is said again comes without "pending".
void TxRing::fill_flags(wire::CdcMessage& cdc, bool ended) {
  // Said only while more may follow: a peer that sees it beside "closed" waits for the rest.
  cdc.producer_flags.consumer_update_requested = update_doubtful();
  cdc.producer_flags.write_blocked = peer_free() == 0 && !(ended && pending() == 0);
  if (!urgent_due_) return;
  cdc.producer_flags.urgent_pending = !urgent_announced_;
  if (produced_ != urgent_at_) return;
  cdc.producer_flags.urgent_present = true;
  urgent_due_ = false;
  urgent_announced_ = true;
}

void TxRing::announce(Transmit& transmit) {
  transmit.written_until = produced_;
  announced_ = produced_;
}

void TxRing::handle_done(std::uint64_t sequence, std::uint64_t written_until) {
  SMC_ASSERT(written_until <= produced_, written_until, produced_);
  SMC_ASSERT(sequence <= sequence_, sequence, sequence_);
  sequence_done_ = std::max(sequence_done_, sequence);
  acked_ = std::max(acked_, written_until);
}

CursorStep TxRing::step(const wire::CdcCursor& consumer) const {
  return cursor_step(peer_consumed_, consumer, element_.size_bytes,
                     span_bytes(peer_consumed_, reached_));
}

void TxRing::peer_has_consumed(std::uint32_t bytes) {
  peer_consumed_ += bytes;
  if (peer_consumed_ >= urgent_at_) {
    urgent_at_ = 0;
    urgent_due_ = false;
  }
  // After a switch the peer may know more of what arrived than we do.
  produced_ = std::max(produced_, peer_consumed_);
}

void TxRing::switch_link(const RmbElement& element) {
  SMC_ASSERT(element.size_bytes == element_.size_bytes, element.size_bytes);
  element_ = element;
  doubtful_ = reached_;
  urgent_due_ = urgent();
  if (!uses_send_ring()) return;  // the bytes themselves are where they belong
  // What the peer has consumed has arrived, even if nobody told us in time. Writing the rest again
  // puts the same bytes into the same places.
  acked_ = std::max(acked_, peer_consumed_);
  produced_ = acked_;
}

void TxRing::invariants() const {
  SMC_ASSERT(peer_consumed_ <= produced_ && produced_ <= taken_, peer_consumed_, produced_, taken_);
  SMC_ASSERT(produced_ <= reached_ && reached_ <= taken_, produced_, reached_);
  SMC_ASSERT(!has_peer() || produced_ - peer_consumed_ <= element_.size_bytes, produced_,
             peer_consumed_);
}

}  // namespace fairlead::smc
