// How a device asks the broker: requests of 32 bytes in a ring of shared memory that the broker
// made and sealed. No descriptor can travel this way. After publish() the device wakes the broker
// by shutdown(2) with SHUT_WR on its end of their socket. docs/broker.md has the layout.
//
// Each side keeps its own index in private memory, and loads the other's once per look and checks
// it. A request is copied before it is read. Both classes are for one thread each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "base/result.h"
#include "broker/message.h"

namespace fairlead::broker {

struct Request {
  enum class Kind : std::uint8_t {
    kRegister = 1,  // I am `peer`; my channels have `channel_bytes` bytes in layout `layout`
    kConnect,       // make a channel between me and `peer`
    kTake,          // the blank `buffer` is in use: refill the stock
    kGrant,         // give `peer` a descriptor of my `buffer`
    kFree,          // `buffer` is not needed any more
  };
  Kind kind = Kind::kRegister;
  std::uint8_t layout = 0;
  std::uint32_t channel_bytes = 0;
  PeerId peer;
  BufferId buffer;

  friend bool operator==(const Request&, const Request&) = default;
};

inline constexpr std::uint64_t kRequestSlots = 1024;
inline constexpr std::size_t kRequestBytes = 32;

using RequestWord = std::atomic<std::uint64_t>;
static_assert(RequestWord::is_always_lock_free && sizeof(RequestWord) == 8);

struct RequestSlot {
  RequestWord words[kRequestBytes / sizeof(RequestWord)];
};

struct RequestRingMemory {
  alignas(64) RequestWord tail;        // written by the device: slots produced since the beginning
  alignas(64) RequestWord head;        // written by the broker: slots consumed
  alignas(64) RequestWord wants_room;  // set to 1 by the device, to 0 by the broker with a kRoom
  alignas(4096) RequestSlot slots[kRequestSlots];
};
inline constexpr std::size_t kRequestRingBytes = sizeof(RequestRingMemory);

// Unmaps when it dies.
struct UnmapRequestRing {
  void operator()(RequestRingMemory* memory) const noexcept;
};
using RequestRingMapping = std::unique_ptr<RequestRingMemory, UnmapRequestRing>;
// Errors: those of mmap(2).
Result<RequestRingMapping> map_request_ring(int fd);

class RequestWriter {
 public:
  // `memory` is zeroed and outlives *this.
  explicit RequestWriter(RequestRingMemory& memory) : memory_(&memory) {}
  // Puts one request into the ring and publishes it. Errors: kWouldBlock when the ring is full:
  // a kRoom record follows; kMalformed when the broker's index is impossible.
  Result<void> push(const Request& request);

 private:
  RequestRingMemory* memory_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;
};

class RequestReader {
 public:
  explicit RequestReader(RequestRingMemory& memory) : memory_(&memory) {}
  // Takes the next request. Errors: kWouldBlock when there is none, kMalformed for an impossible
  // index or content: then the device is given up.
  Result<Request> take();
  // True once after the device found the ring full.
  bool take_wish();

 private:
  RequestRingMemory* memory_;
  std::uint64_t head_ = 0;
};

}  // namespace fairlead::broker
