#include "broker/request_ring.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <iterator>

#include "base/record_fields.h"

namespace fairlead::broker {
namespace {

// A slot: 0 kind, 1 layout, 2 zero, 4 channel bytes, 8 peer id, 16 instance, 24 number.
using SlotBytes = std::array<std::byte, kRequestBytes>;
constexpr std::size_t kLayoutAt = 1, kZeroAt = 2, kChannelBytesAt = 4, kPeerAt = 8,
                      kInstanceAt = 16, kNumberAt = 24;

void store(RequestSlot& slot, const SlotBytes& bytes) {
  for (std::size_t i = 0; i < std::size(slot.words); ++i) {
    std::uint64_t word = 0;
    get_field(bytes, i * sizeof word, word);
    slot.words[i].store(word, std::memory_order_relaxed);
  }
}

SlotBytes load(const RequestSlot& slot) {
  SlotBytes bytes;
  for (std::size_t i = 0; i < std::size(slot.words); ++i)
    put_field(bytes, i * sizeof(std::uint64_t), slot.words[i].load(std::memory_order_relaxed));
  return bytes;
}

}  // namespace

void UnmapRequestRing::operator()(RequestRingMemory* memory) const noexcept {
  if (::munmap(memory, kRequestRingBytes) != 0) report_failed_destroy("munmap", errno);
}

Result<RequestRingMapping> map_request_ring(int fd) {
  void* const at = ::mmap(nullptr, kRequestRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return system_error("mmap", errno);
  return RequestRingMapping(static_cast<RequestRingMemory*>(at));
}

Result<void> RequestWriter::push(const Request& request) {
  if (tail_ - head_ >= kRequestSlots) {
    // In the order of the two exchanges, ours or the broker's comes first: it sees the wish, or we
    // see the room.
    memory_->wants_room.exchange(1, std::memory_order_seq_cst);
    const std::uint64_t head = memory_->head.load(std::memory_order_seq_cst);
    if (head - head_ > tail_ - head_) return Error{Errc::kMalformed, "head of the request ring"};
    head_ = head;
    if (tail_ - head_ >= kRequestSlots) return Error{Errc::kWouldBlock, "request ring is full"};
  }
  SlotBytes bytes{};
  put_field(bytes, 0, request.kind);
  put_field(bytes, kLayoutAt, request.layout);
  put_field(bytes, kChannelBytesAt, request.channel_bytes);
  put_field(bytes, kPeerAt, request.peer.bytes);
  put_field(bytes, kInstanceAt, request.buffer.instance);
  put_field(bytes, kNumberAt, request.buffer.number);
  store(memory_->slots[tail_ % kRequestSlots], bytes);
  memory_->tail.store(++tail_, std::memory_order_release);
  return {};
}

Result<Request> RequestReader::take() {
  const std::uint64_t tail = memory_->tail.load(std::memory_order_acquire);
  if (tail == head_) return Error{Errc::kWouldBlock, "no request"};
  if (tail - head_ > kRequestSlots) return Error{Errc::kMalformed, "tail of the request ring"};
  const SlotBytes bytes = load(memory_->slots[head_ % kRequestSlots]);
  memory_->head.exchange(++head_, std::memory_order_seq_cst);
  const auto kind = static_cast<std::uint8_t>(bytes[0]);
  std::uint16_t zero = 0;
  get_field(bytes, kZeroAt, zero);
  if (kind < static_cast<std::uint8_t>(Request::Kind::kRegister) ||
      kind > static_cast<std::uint8_t>(Request::Kind::kFree) || zero != 0)
    return Error{Errc::kMalformed, "kind of a request"};
  Request request;
  request.kind = static_cast<Request::Kind>(kind);
  get_field(bytes, kLayoutAt, request.layout);
  get_field(bytes, kChannelBytesAt, request.channel_bytes);
  get_field(bytes, kPeerAt, request.peer.bytes);
  get_field(bytes, kInstanceAt, request.buffer.instance);
  get_field(bytes, kNumberAt, request.buffer.number);
  return request;
}

bool RequestReader::take_wish() {
  if (memory_->wants_room.load(std::memory_order_seq_cst) == 0) return false;
  return memory_->wants_room.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace fairlead::broker
