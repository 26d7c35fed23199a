#include "broker/message.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/linux/record_socket.h"
#include "base/record_fields.h"

namespace fairlead::broker {
namespace {

//    0  magic "FLbk"    4  version (2)   5  kind   6  refusal   7  side
//    8  peer id        16  fabric id (5)          21  layout    22  zero
//   24  buffer instance    32  buffer number      40  pod       44  zero
constexpr std::array<char, 4> kMagic = {'F', 'L', 'b', 'k'};
constexpr std::uint8_t kVersion = 2;
constexpr std::size_t kVersionAt = 4, kKindAt = 5, kRefusalAt = 6, kSideAt = 7, kPeerAt = 8,
                      kFabricAt = 16, kLayoutAt = 21, kInstanceAt = 24, kNumberAt = 32, kPodAt = 40;

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
    case Refusal::kVersion:
      return "version";
  }
  return "other";
}

MessageBytes encode(const Message& message) {
  MessageBytes bytes{};
  put_field(bytes, 0, kMagic);
  put_field(bytes, kVersionAt, kVersion);
  put_field(bytes, kKindAt, message.kind);
  put_field(bytes, kRefusalAt, message.refusal);
  put_field(bytes, kSideAt, message.side);
  put_field(bytes, kPeerAt, message.peer.bytes);
  put_field(bytes, kFabricAt, message.fabric.bytes);
  put_field(bytes, kLayoutAt, message.layout);
  put_field(bytes, kInstanceAt, message.buffer.instance);
  put_field(bytes, kNumberAt, message.buffer.number);
  put_field(bytes, kPodAt, message.pod);
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
  if (kind < static_cast<std::uint8_t>(Message::Kind::kRequestRing) ||
      kind > static_cast<std::uint8_t>(Message::Kind::kRoom))
    return Error{Errc::kMalformed, "kind of a broker message"};
  if (refusal >= kRefusals) return Error{Errc::kMalformed, "refusal of a broker message"};
  if (static_cast<std::uint8_t>(bytes[kSideAt]) > 1)
    return Error{Errc::kMalformed, "side of a broker message"};
  Message message;
  message.kind = static_cast<Message::Kind>(kind);
  message.refusal = static_cast<Refusal>(refusal);
  get_field(bytes, kSideAt, message.side);
  get_field(bytes, kPeerAt, message.peer.bytes);
  get_field(bytes, kFabricAt, message.fabric.bytes);
  get_field(bytes, kLayoutAt, message.layout);
  get_field(bytes, kInstanceAt, message.buffer.instance);
  get_field(bytes, kNumberAt, message.buffer.number);
  get_field(bytes, kPodAt, message.pod);
  return message;
}

Result<void> send(int socket, const Message& message, std::span<const int> fds) {
  SMC_ASSERT(fds.size() == descriptors_of(message.kind), message.kind, fds.size());
  return send_record(socket, encode(message), fds);
}

Result<Received> receive(int socket, DescriptorCloser& closer) {
  MessageBytes bytes;
  ReceivedRecord record = SMC_TRY(receive_record(socket, bytes, closer));
  Received received;
  received.message = SMC_TRY(decode(std::span(bytes).first(record.size_bytes)));
  if (record.descriptors != descriptors_of(received.message.kind))
    return Error{Errc::kMalformed, "descriptors of a broker message"};
  std::move(record.fds.begin(), record.fds.begin() + kDescriptorsMax, received.fds.begin());
  return received;
}

}  // namespace fairlead::broker
