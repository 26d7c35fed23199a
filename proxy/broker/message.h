// What a sidecar and the broker of its node tell each other: records of 32 bytes over a Unix socket
// of type SOCK_SEQPACKET, some with one descriptor. docs/broker.md says who sends which when.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/handle.h"
#include "base/ids.h"
#include "base/result.h"

namespace fairlead::broker {

// In the abstract namespace of each pod, which belongs to its network namespace.
inline constexpr const char* kSocketName = "@fairlead-node";

enum class Refusal : std::uint8_t {
  kNone = 0,
  kUnknownPeer,  // nobody of that id is here
  kBusy,         // the other one does not read what the broker tells it
  kTaken,        // the id belongs to another pod, or is in use
  kLimit,        // too many devices, or ids, of one pod
  kFailed,       // the broker itself is out of descriptors
};
const char* to_string(Refusal refusal);

struct Message {
  enum class Kind : std::uint8_t {
    kRegister = 1,  // device: I am `peer`; first message, and only then
    kWelcome,       // broker: you are, and your fabric is `fabric`
    kIntroduce,     // device: connect me with `peer`
    kIntroduced,    // broker: your end of a socket to `peer`
    kVisitor,       // broker: `peer` has asked for you; your end
    kRefused,       // broker: not with `peer`, or not as `peer`
  };
  Kind kind = Kind::kRegister;
  Refusal refusal = Refusal::kNone;
  PeerId peer;
  FabricId fabric;

  friend bool operator==(const Message&, const Message&) = default;
};

inline constexpr std::size_t kMessageBytes = 32;
using MessageBytes = std::array<std::byte, kMessageBytes>;

constexpr bool carries_descriptor(Message::Kind kind) {
  return kind == Message::Kind::kIntroduced || kind == Message::Kind::kVisitor;
}

MessageBytes encode(const Message& message);
// Errors: kTruncated, kMalformed, kUnsupported (another version).
Result<Message> decode(std::span<const std::byte> bytes);

// Errors of send_record() and receive_record(), and those of decode(). Never blocks.
Result<void> send(int socket, const Message& message, int fd = -1);
struct Received {
  Message message;
  FileDescriptor fd;  // there exactly if carries_descriptor(message.kind)
};
Result<Received> receive(int socket);

}  // namespace fairlead::broker
