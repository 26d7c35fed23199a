#include "rdma/shm/memory/shm_ring.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace fairlead::rdma::shm {
namespace {

// Bytes of the ring from `slot` on, as if it were endless: calls take(address, count) for the one
// or two pieces in which [offset, offset + count) lies in the block.
template <class Take>
void for_pieces(Slot* slots, std::uint64_t slot, std::size_t count, Take take) {
  constexpr std::size_t kRingBytes = kRingSlots * kSlotBytes;
  auto* base = reinterpret_cast<std::byte*>(slots);
  const std::size_t at = static_cast<std::size_t>(slot % kRingSlots) * kSlotBytes + kHeaderBytes;
  const std::size_t first = std::min(count, kRingBytes - at);
  take(base + at, first);
  if (first < count) take(base, count - first);
}

}  // namespace

bool RingProducer::refresh() {
  const std::uint64_t head = memory_->head.load(std::memory_order_acquire);
  if (head - head_ > tail_ - head_) return false;
  head_ = head;
  return true;
}

void RingProducer::push(const MessageHeader& header, std::span<const std::byte> message) {
  const std::uint64_t count = slots_for(message.size());
  SMC_ASSERT(count <= free_slots(), count, free_slots());
  Slot& first = memory_->slots[tail_ % kRingSlots];
  first.words[0].store(
      static_cast<std::uint64_t>(header.source.value) << 32 | header.destination.value,
      std::memory_order_relaxed);
  first.words[1].store(message.size(), std::memory_order_relaxed);
  const std::byte* from = message.data();
  for_pieces(memory_->slots, tail_, message.size(), [&](std::byte* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  });
  tail_ += count;
}

bool RingConsumer::refresh() {
  const std::uint64_t tail = memory_->tail.load(std::memory_order_acquire);
  // It never runs backwards and never laps us.
  if (tail - tail_ > kRingSlots - (tail_ - head_)) return false;
  tail_ = tail;
  return true;
}

Result<MessageHeader> RingConsumer::front() const {
  SMC_ASSERT(!empty(), head_);
  // Each word is loaded once: the producer can change it while we look.
  const Slot& first = memory_->slots[head_ % kRingSlots];
  const std::uint64_t numbers = first.words[0].load(std::memory_order_relaxed);
  const std::uint64_t length = first.words[1].load(std::memory_order_relaxed);
  if (length == 0 || length > kMessageBytesMax)
    return Error{Errc::kMalformed, "length of a message in the ring"};
  if (slots_for(static_cast<std::size_t>(length)) > tail_ - head_)
    return Error{Errc::kMalformed, "message reaches past the tail of the ring"};
  return MessageHeader{QpNumber(static_cast<std::uint32_t>(numbers)),
                       QpNumber(static_cast<std::uint32_t>(numbers >> 32)),
                       static_cast<std::uint32_t>(length)};
}

void RingConsumer::copy_front(std::span<std::byte> into) const {
  std::byte* to = into.data();
  for_pieces(memory_->slots, head_, into.size(), [&](std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

}  // namespace fairlead::rdma::shm
