// What a sidecar and the broker of its node tell each other: records, and requests in shared
// memory. The input is a record, and also a ring: 8 bytes of its tail, then slots. Properties: an
// accepted record or request is equal after encoding and decoding. The reader takes what the tail
// announces, at most a whole ring, and writes nothing but the head.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "broker/message.h"
#include "broker/request_ring.h"
#include "fuzz/reached.h"

namespace {

using namespace fairlead;
using namespace fairlead::broker;

void check_record(std::span<const std::byte> input) {
  const auto message = decode(input);
  if (!message) return fuzz::reached_refusal(message.error().what);
  SMC_ASSERT(descriptors_of(message->kind) <= kDescriptorsMax);
  SMC_ASSERT(*to_string(message->refusal) != '\0');
  const MessageBytes bytes = encode(*message);
  const auto again = decode(bytes);
  SMC_ASSERT(again.has_value() && *again == *message);
  fuzz::reached("record " + std::to_string(static_cast<unsigned>(message->kind)));
}

// Only what an input sets is cleared again: a ring has 32 KiB.
class Ring {
 public:
  void fill(std::span<const std::byte> input) {
    std::uint64_t tail = 0;
    std::memcpy(&tail, input.data(), std::min(input.size(), sizeof tail));
    input = input.subspan(std::min(input.size(), sizeof tail));
    used_ =
        std::min<std::size_t>((input.size() + kRequestBytes - 1) / kRequestBytes, kRequestSlots);
    for (std::size_t slot = 0; slot < used_; ++slot)
      for (std::size_t word = 0; word < std::size(memory_->slots[slot].words); ++word) {
        std::uint64_t value = 0;
        const std::size_t count = std::min(input.size(), sizeof value);
        if (count != 0) std::memcpy(&value, input.data(), count);
        input = input.subspan(count);
        memory_->slots[slot].words[word] = value;
      }
    memory_->tail = tail;
    memory_->head = 0;
    memory_->wants_room = tail & 1U;
  }
  void clear() {
    for (std::size_t slot = 0; slot < used_; ++slot)
      for (RequestWord& word : memory_->slots[slot].words) word = 0;
    memory_->tail = memory_->head = memory_->wants_room = 0;
  }
  RequestRingMemory& memory() { return *memory_; }

 private:
  std::unique_ptr<RequestRingMemory> memory_ = std::make_unique<RequestRingMemory>();
  std::size_t used_ = 0;
};

void check_request(const Request& request) {
  static Ring other;
  RequestWriter writer(other.memory());
  SMC_ASSERT(writer.push(request).has_value());
  RequestReader reader(other.memory());
  const auto again = reader.take();
  SMC_ASSERT(again.has_value() && *again == request);
  SMC_ASSERT(!reader.take().has_value());
  other.clear();
  fuzz::reached("request " + std::to_string(static_cast<unsigned>(request.kind)));
}

void check_ring(std::span<const std::byte> input) {
  static Ring ring;
  ring.fill(input);
  const std::uint64_t tail = ring.memory().tail;
  RequestReader reader(ring.memory());
  std::uint64_t taken = 0;
  for (;;) {
    const auto request = reader.take();
    if (!request) {
      fuzz::reached_refusal(request.error().what);
      // A request of an unknown kind counts as taken.
      if (request.error().code == Errc::kWouldBlock) SMC_ASSERT(taken == tail, taken, tail);
      break;
    }
    ++taken;
    SMC_ASSERT(taken <= kRequestSlots && ring.memory().head == taken, taken);
    check_request(*request);
  }
  SMC_ASSERT(ring.memory().tail == tail);
  SMC_ASSERT(reader.take_wish() == ((tail & 1U) != 0) && !reader.take_wish());
  ring.clear();
}

// The broker's index as the device sees it.
void check_head(std::span<const std::byte> input) {
  static Ring ring;
  RequestWriter writer(ring.memory());
  for (std::uint64_t i = 0; i < kRequestSlots; ++i) SMC_ASSERT(writer.push({}).has_value());
  std::uint64_t head = 0;
  std::memcpy(&head, input.data(), std::min(input.size(), sizeof head));
  ring.memory().head = head;
  const auto pushed = writer.push({});
  SMC_ASSERT(pushed.has_value() == (head > 0 && head <= kRequestSlots), head);
  if (pushed)
    fuzz::reached("room again");
  else
    fuzz::reached_refusal(pushed.error().what);
  ring.memory().tail = ring.memory().head = ring.memory().wants_room = 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  check_record(input);
  check_ring(input);
  if (size <= sizeof(std::uint64_t)) check_head(input);
  return 0;
}
