// What the broker of a node tells the device of a sidecar: records of 64 bytes over a Unix socket
// of type SOCK_SEQPACKET, some with descriptors. Nothing travels the other way on this socket;
// the device asks in a ring of memory (request_ring.h). docs/broker.md says who sends which when.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/linux/descriptor_closer.h"
#include "base/result.h"

namespace fairlead::broker {

// A device listens as this name, "-" and its index, in the abstract namespace of its pod. A network
// namespace has abstract names of its own.
inline constexpr const char* kSocketName = "@fairlead-proxy";
inline constexpr std::size_t kSocketNameCharsMax = 104;  // "-63" follows, within sun_path
inline constexpr unsigned kSocketIndexMax = 63;          // devices of one pod count from 0

// Identifies a buffer that one broker made. `instance` is random for each start of a broker, so
// that the numbers of two brokers cannot be mixed up.
struct BufferId {
  std::uint64_t instance = 0;
  std::uint64_t number = 0;
  bool is_zero() const { return instance == 0 && number == 0; }
  friend auto operator<=>(const BufferId&, const BufferId&) = default;
};

enum class Refusal : std::uint8_t {
  kNone = 0,
  kUnknownPeer,  // nobody of that id is here
  kBusy,         // the other one does not read what the broker tells it
  kTaken,        // the id belongs to another pod, or is in use
  kLimit,        // too many devices, ids or buffers of one pod
  kFailed,       // the broker itself is out of descriptors or memory
  kVersion,      // the two devices have different layouts of a channel
};
inline constexpr std::size_t kRefusals = static_cast<std::size_t>(Refusal::kVersion) + 1;
const char* to_string(Refusal refusal);

struct Message {
  enum class Kind : std::uint8_t {
    kRequestRing = 1,  // first record; 1 descriptor: memory of the request ring; `buffer.instance`
    kWelcome,          // the device is registered as `peer` on `fabric`
    kRefused,          // registration as `peer`, or a channel with `peer`, is refused
    kChannel,          // a channel with `peer`; 3 descriptors: memory, ring end, watch end
    kBlank,            // an empty buffer for the stock: `buffer`; 1 descriptor
    kGranted,          // memory of `buffer`, which `peer` owns; 1 descriptor
    kRoom,             // the request ring has room again
  };
  Kind kind = Kind::kRoom;
  Refusal refusal = Refusal::kNone;
  std::uint8_t side = 0;    // kChannel: 0 for the device that asked, 1 for the other
  std::uint8_t layout = 0;  // kChannel: version of the channel's layout
  PeerId peer;
  FabricId fabric;
  BufferId buffer;
  std::uint32_t pod = 0;  // kChannel, kGranted: number of the peer's pod, 0 where there are none

  friend bool operator==(const Message&, const Message&) = default;
};

inline constexpr std::size_t kMessageBytes = 64;
using MessageBytes = std::array<std::byte, kMessageBytes>;

inline constexpr std::size_t kDescriptorsMax = 3;
constexpr std::size_t descriptors_of(Message::Kind kind) {
  switch (kind) {
    case Message::Kind::kRequestRing:
    case Message::Kind::kBlank:
    case Message::Kind::kGranted:
      return 1;
    case Message::Kind::kChannel:
      return 3;
    case Message::Kind::kWelcome:
    case Message::Kind::kRefused:
    case Message::Kind::kRoom:
      return 0;
  }
  return 0;
}

MessageBytes encode(const Message& message);
// Errors: kTruncated, kMalformed, kUnsupported (another version).
Result<Message> decode(std::span<const std::byte> bytes);

// Errors of send_record() and receive_record(), and those of decode(). Never blocks.
// REQUIRES: fds.size() == descriptors_of(message.kind)
Result<void> send(int socket, const Message& message, std::span<const int> fds = {});
struct Received {
  Message message;
  std::array<ForeignDescriptor, kDescriptorsMax> fds;  // the first descriptors_of(kind) are there
};
Result<Received> receive(int socket, DescriptorCloser& closer);

}  // namespace fairlead::broker
