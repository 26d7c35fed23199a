#include "smc/connection/rx_ring.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::smc {
namespace {

std::uint32_t span_bytes(std::uint64_t from, std::uint64_t to) {
  return static_cast<std::uint32_t>(to - from);
}

}  // namespace

RingWindow RxRing::window() const {
  std::uint64_t until = produced_;
  if (urgent()) until = urgent_at_;
  if (urgent_at_ > consumed_ + 1) until = urgent_at_ - 1;
  return ring_window(consumed_, size_, span_bytes(consumed_, until));
}

bool RxRing::update_due(bool peer_ended) const {
  const std::uint32_t unconfirmed = span_bytes(confirmed_, consumed_);
  if (unconfirmed == 0 || (peer_ended && !write_blocked_)) return false;
  if (update_requested_) return true;
  if (urgent_at_ != 0 && consumed_ >= urgent_at_) return true;
  const std::uint32_t limit = std::max(size_ / 10, kUpdateBytesMin);
  // A kernel that has closed with data left goes on only when it sees room, however little.
  if (write_blocked_ && (unconfirmed > limit || peer_ended)) return true;
  const std::uint32_t sender_free = size_ - span_bytes(confirmed_, produced_);
  return unconfirmed > limit && sender_free <= size_ / 2;
}

CursorStep RxRing::step(const wire::CdcCursor& producer) const {
  return cursor_step(produced_, producer, size_, size_ - span_bytes(confirmed_, produced_));
}

void RxRing::take_flags(const wire::CdcMessage& message) {
  write_blocked_ = message.producer_flags.write_blocked;
  if (message.producer_flags.consumer_update_requested) update_requested_ = true;
  // The urgent byte is the last one before the producer cursor. A newer one makes the older
  // ordinary data, as in TCP. The flag is ignored unless that byte is still unread.
  if (message.producer_flags.urgent_present && !drained() &&
      message.producer == cursor_at(produced_, size_))
    urgent_at_ = produced_;
}

void RxRing::confirm() {
  confirmed_ = consumed_;
  update_requested_ = false;
  if (urgent_at_ != 0 && consumed_ >= urgent_at_) urgent_at_ = 0;
}

void RxRing::invariants() const {
  SMC_ASSERT(confirmed_ <= consumed_ && consumed_ <= produced_, confirmed_, consumed_, produced_);
  SMC_ASSERT(produced_ - confirmed_ <= size_, produced_, confirmed_, size_);
}

}  // namespace fairlead::smc
