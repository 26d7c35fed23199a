#include "broker/message.h"

#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/record_socket.h"

namespace fairlead::broker {
namespace {

//    0  magic "FLbk"    4  version (1)   5  kind   6  refusal   7  zero
//    8  peer id        16  fabric id (5)          21  zero
constexpr std::array<char, 4> kMagic = {'F', 'L', 'b', 'k'};
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kVersionAt = 4, kKindAt = 5, kRefusalAt = 6, kPeerAt = 8, kFabricAt = 16;

}  // namespace

const char* to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "none";
    case Refusal::kUnknownPeer:
      return "unknown_peer";
    case Refusal::kBusy:
      return "busy";
    case Refusal::kTaken:
      return "taken";
    case Refusal::kLimit:
      return "limit";
    case Refusal::kFailed:
      return "failed";
  }
  return "other";
}

MessageBytes encode(const Message& message) {
  MessageBytes bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  bytes[kVersionAt] = std::byte{kVersion};
  bytes[kKindAt] = static_cast<std::byte>(message.kind);
  bytes[kRefusalAt] = static_cast<std::byte>(message.refusal);
  std::memcpy(bytes.data() + kPeerAt, message.peer.bytes.data(), message.peer.bytes.size());
  std::memcpy(bytes.data() + kFabricAt, message.fabric.bytes.data(), message.fabric.bytes.size());
  return bytes;
}

Result<Message> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kMessageBytes) return Error{Errc::kTruncated, "broker message"};
  if (bytes.size() > kMessageBytes) return Error{Errc::kMalformed, "broker message too long"};
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return Error{Errc::kMalformed, "magic of a broker message"};
  if (bytes[kVersionAt] != std::byte{kVersion})
    return Error{Errc::kUnsupported, "broker message of another version"};
  const auto kind = static_cast<std::uint8_t>(bytes[kKindAt]);
  const auto refusal = static_cast<std::uint8_t>(bytes[kRefusalAt]);
  if (kind < static_cast<std::uint8_t>(Message::Kind::kRegister) ||
      kind > static_cast<std::uint8_t>(Message::Kind::kRefused))
    return Error{Errc::kMalformed, "kind of a broker message"};
  if (refusal > static_cast<std::uint8_t>(Refusal::kFailed))
    return Error{Errc::kMalformed, "refusal of a broker message"};
  Message message;
  message.kind = static_cast<Message::Kind>(kind);
  message.refusal = static_cast<Refusal>(refusal);
  std::memcpy(message.peer.bytes.data(), bytes.data() + kPeerAt, message.peer.bytes.size());
  std::memcpy(message.fabric.bytes.data(), bytes.data() + kFabricAt, message.fabric.bytes.size());
  return message;
}

Result<void> send(int socket, const Message& message, int fd) {
  SMC_ASSERT((fd >= 0) == carries_descriptor(message.kind), message.kind);
  return send_record(socket, encode(message), fd);
}

Result<Received> receive(int socket) {
  MessageBytes bytes;
  ReceivedRecord record = SMC_TRY(receive_record(socket, bytes));
  Received received;
  received.message = SMC_TRY(decode(std::span(bytes).first(record.size_bytes)));
  if (record.descriptors != (carries_descriptor(received.message.kind) ? 1u : 0u))
    return Error{Errc::kMalformed, "descriptors of a broker message"};
  received.fd = std::move(record.fd);
  return received;
}

}  // namespace fairlead::broker
