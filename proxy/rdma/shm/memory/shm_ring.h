// One direction of a channel: messages in slots of 64 bytes between one producer and one consumer
// in different processes. Pure logic on a block of memory; docs/shm.md has the layout.
//
// Each side keeps its own index in private memory and stores copies of it in the shared block. It
// loads from there only the other side's index and messages, and checks them: refresh() is false,
// or front() is kMalformed, when they are impossible. The caller then has to give up the ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

// Shared words are plain stores and loads of 8 bytes, the same at any address.
using SharedWord = std::atomic<std::uint64_t>;
static_assert(SharedWord::is_always_lock_free && sizeof(SharedWord) == 8);

struct alignas(kSlotBytes) Slot {
  SharedWord words[kSlotBytes / sizeof(SharedWord)];
};
static_assert(sizeof(Slot) == kSlotBytes);

struct RingMemory {
  // Written by the producer.
  alignas(64) SharedWord tail;  // slots produced since the beginning
  // Written by the consumer.
  alignas(64) SharedWord head;  // slots consumed since the beginning
  alignas(64) Slot slots[kRingSlots];
};

// What stands in front of a message, 16 bytes. Numbers are those of the two devices.
struct MessageHeader {
  QpNumber destination;
  QpNumber source;
  std::uint32_t length_bytes = 0;
};
inline constexpr std::size_t kHeaderBytes = 16;
static_assert(kShortMessageBytes == kSlotBytes - kHeaderBytes, "a short message needs one slot");

constexpr std::uint64_t slots_for(std::size_t message_bytes) {
  return (kHeaderBytes + message_bytes + kSlotBytes - 1) / kSlotBytes;
}
inline constexpr std::uint64_t kSlotsPerMessageMax = slots_for(kMessageBytesMax);
static_assert(kSlotsPerMessageMax < kRingSlots);

class RingProducer {
 public:
  // `memory` is zeroed and outlives *this.
  explicit RingProducer(RingMemory& memory) : memory_(&memory) {}

  // Looks how far the consumer is. False: it claims the impossible.
  [[nodiscard]] bool refresh();
  std::uint64_t free_slots() const { return kRingSlots - (tail_ - head_); }
  // REQUIRES: slots_for(message.size()) <= free_slots(). Invisible to the consumer until publish().
  void push(const MessageHeader& header, std::span<const std::byte> message);
  void publish() { memory_->tail.store(tail_, std::memory_order_release); }
  // As publish(), and takes part in the single total order that sleeping relies on.
  void publish_ordered() { memory_->tail.exchange(tail_, std::memory_order_seq_cst); }

  std::uint64_t tail() const { return tail_; }
  std::uint64_t head() const { return head_; }  // as of the last refresh()
  // The consumer's index as it stands there now, unchecked: for looking whether refresh() pays.
  std::uint64_t peek_head() const { return memory_->head.load(std::memory_order_relaxed); }
  std::uint64_t peek_head_ordered() const { return memory_->head.load(std::memory_order_seq_cst); }

 private:
  RingMemory* memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;
};

class RingConsumer {
 public:
  explicit RingConsumer(RingMemory& memory) : memory_(&memory) {}

  // Looks how far the producer is. False: it claims the impossible.
  [[nodiscard]] bool refresh();
  bool empty() const { return head_ == tail_; }  // as of the last refresh()
  // The message at the front, checked for length and for lying within what was produced; kMalformed
  // otherwise. REQUIRES: !empty()
  Result<MessageHeader> front() const;
  // The bytes of that message. REQUIRES: into.size() == header.length_bytes of front()
  void copy_front(std::span<std::byte> into) const;
  // REQUIRES: `header` is that of front()
  void pop(const MessageHeader& header) { head_ += slots_for(header.length_bytes); }
  // Gives popped slots back to the producer.
  void publish() { memory_->head.store(head_, std::memory_order_release); }
  void publish_ordered() { memory_->head.exchange(head_, std::memory_order_seq_cst); }

  std::uint64_t head() const { return head_; }
  std::uint64_t tail() const { return tail_; }  // as of the last refresh()
  std::uint64_t peek_tail() const { return memory_->tail.load(std::memory_order_relaxed); }
  std::uint64_t peek_tail_ordered() const { return memory_->tail.load(std::memory_order_seq_cst); }

 private:
  RingMemory* memory_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace fairlead::rdma::shm
