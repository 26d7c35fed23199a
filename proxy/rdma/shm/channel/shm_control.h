// What two devices tell each other besides messages: records of 64 bytes in a ring of the channel's
// memory, one ring for each direction. docs/shm.md says who sends which when.
//
// Each side keeps its own index in private memory; the other's is loaded once per look and checked.
// A record is copied before it is read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "broker/message.h"
#include "rdma/shm/memory/shm_ring.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

using DomainId = StrongId<struct DomainIdTag, std::uint32_t>;
using broker::BufferId;

struct ControlMessage {
  enum class Kind : std::uint8_t {
    kQueuePairReady = 1,  // source may send to destination; its buffers are those of domain
    kQueuePairGone,       // source is in error or destroyed, or never was
    kAnnounce,            // rkey, address, size, domain of a buffer; its memory comes as `buffer`
    kWithdraw,            // rkey is no longer valid
  };
  Kind kind = Kind::kQueuePairGone;
  QpNumber source, destination;
  PortNumber source_port, destination_port;
  DomainId domain;
  RemoteKey rkey;
  RemoteAddress address;
  std::uint64_t size_bytes = 0;
  BufferId buffer;

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

inline constexpr std::size_t kControlBytes = 64;
using ControlBytes = std::array<std::byte, kControlBytes>;

ControlBytes encode(const ControlMessage& message);
// Errors: kTruncated, kMalformed (length, kind).
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

struct ControlRingMemory {
  alignas(64) SharedWord tail;  // records produced since the beginning, written by the producer
  alignas(64) SharedWord head;  // records consumed since the beginning, written by the consumer
  alignas(64) Slot slots[kControlSlots];
};

class ControlProducer {
 public:
  // `memory` is zeroed and outlives *this.
  explicit ControlProducer(ControlRingMemory& memory) : memory_(&memory) {}
  // Puts the message into the ring. Errors: kWouldBlock when the ring is full, kMalformed when the
  // consumer claims the impossible.
  Result<void> push(const ControlMessage& message);
  std::uint64_t tail() const { return tail_; }
  // How many messages the consumer says that it has taken; no more than tail().
  std::uint64_t taken() const;

 private:
  ControlRingMemory* memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;
};

class ControlConsumer {
 public:
  explicit ControlConsumer(ControlRingMemory& memory) : memory_(&memory) {}
  // There is a message, or an impossible index. Acquires what was written before.
  bool waiting() const { return memory_->tail.load(std::memory_order_acquire) != head_; }
  // The next message, which stays. Errors: kWouldBlock when there is none, kMalformed.
  Result<ControlMessage> front() const;
  // REQUIRES: front() gave a message.
  void pop() { memory_->head.store(++head_, std::memory_order_release); }

 private:
  ControlRingMemory* memory_;
  std::uint64_t head_ = 0;
};

}  // namespace fairlead::rdma::shm
