#include "rdma/shm/channel/shm_control.h"

#include <algorithm>

#include "base/record_fields.h"

namespace fairlead::rdma::shm {
namespace {

// Both ends run on one host: fields are in host byte order.
//    0  kind            1  source port   2  destination port   3  zero   4  domain
//    8  source qp      12  dest. qp     16  rkey              20  zero
//   24  address        32  size         40  buffer instance   48  buffer number   56  zero
}  // namespace

ControlBytes encode(const ControlMessage& message) {
  ControlBytes bytes{};
  put_field(bytes, 0, message.kind);
  put_field(bytes, 1, message.source_port.value);
  put_field(bytes, 2, message.destination_port.value);
  put_field(bytes, 4, message.domain.value);
  put_field(bytes, 8, message.source.value);
  put_field(bytes, 12, message.destination.value);
  put_field(bytes, 16, message.rkey.value);
  put_field(bytes, 24, message.address.value);
  put_field(bytes, 32, message.size_bytes);
  put_field(bytes, 40, message.buffer.instance);
  put_field(bytes, 48, message.buffer.number);
  return bytes;
}

Result<ControlMessage> decode_control(std::span<const std::byte> bytes) {
  if (bytes.size() < kControlBytes) return Error{Errc::kTruncated, "control message"};
  if (bytes.size() > kControlBytes) return Error{Errc::kMalformed, "control message too long"};
  const auto kind = get_field<std::uint8_t>(bytes, 0);
  if (kind < static_cast<std::uint8_t>(ControlMessage::Kind::kQueuePairReady) ||
      kind > static_cast<std::uint8_t>(ControlMessage::Kind::kWithdraw))
    return Error{Errc::kMalformed, "kind of a control message"};
  ControlMessage message;
  message.kind = static_cast<ControlMessage::Kind>(kind);
  message.source_port = PortNumber(get_field<std::uint8_t>(bytes, 1));
  message.destination_port = PortNumber(get_field<std::uint8_t>(bytes, 2));
  message.domain = DomainId(get_field<std::uint32_t>(bytes, 4));
  message.source = QpNumber(get_field<std::uint32_t>(bytes, 8));
  message.destination = QpNumber(get_field<std::uint32_t>(bytes, 12));
  message.rkey = RemoteKey(get_field<std::uint32_t>(bytes, 16));
  message.address = RemoteAddress(get_field<std::uint64_t>(bytes, 24));
  message.size_bytes = get_field<std::uint64_t>(bytes, 32);
  message.buffer.instance = get_field<std::uint64_t>(bytes, 40);
  message.buffer.number = get_field<std::uint64_t>(bytes, 48);
  return message;
}

std::uint64_t ControlProducer::taken() const {
  return std::min(memory_->head.load(std::memory_order_acquire), tail_);
}

Result<void> ControlProducer::push(const ControlMessage& message) {
  if (tail_ - head_ >= kControlSlots) {
    const std::uint64_t head = memory_->head.load(std::memory_order_acquire);
    if (head - head_ > tail_ - head_) return Error{Errc::kMalformed, "head of a control ring"};
    head_ = head;
    if (tail_ - head_ >= kControlSlots) return Error{Errc::kWouldBlock, "control ring is full"};
  }
  const ControlBytes bytes = encode(message);
  Slot& slot = memory_->slots[tail_ % kControlSlots];
  for (std::size_t i = 0; i < std::size(slot.words); ++i)
    slot.words[i].store(get_field<std::uint64_t>(bytes, i * sizeof(std::uint64_t)),
                        std::memory_order_relaxed);
  memory_->tail.store(++tail_, std::memory_order_release);
  return {};
}

Result<ControlMessage> ControlConsumer::front() const {
  const std::uint64_t tail = memory_->tail.load(std::memory_order_acquire);
  if (tail == head_) return Error{Errc::kWouldBlock, "no control message"};
  if (tail - head_ > kControlSlots) return Error{Errc::kMalformed, "tail of a control ring"};
  ControlBytes bytes;
  std::size_t at = 0;
  for (const SharedWord& word : memory_->slots[head_ % kControlSlots].words) {
    put_field(bytes, at, word.load(std::memory_order_relaxed));
    at += sizeof word;
  }
  return decode_control(bytes);
}

}  // namespace fairlead::rdma::shm
