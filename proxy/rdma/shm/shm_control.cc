#include "rdma/shm/shm_control.h"

#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/record_socket.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

// Both ends run on one host: fields are in host byte order.
//    0  magic "FLsh"    4  kind        5  source port   6  destination port   7  layout version
//    8  source qp      12  dest. qp   16  domain       20  rkey
//   24  address        32  size       40  peer id      48  fabric id (5)     53  zero
//   56  ring slots     60  zero
constexpr std::uint32_t kMagic = 0x68734c46;
constexpr std::uint8_t kLayoutVersion = 1;

template <class T>
void put(ControlBytes& into, std::size_t at, const T& value) {
  std::memcpy(into.data() + at, &value, sizeof value);
}

template <class T>
T get(std::span<const std::byte> from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

}  // namespace

ControlBytes encode(const ControlMessage& message) {
  ControlBytes bytes{};
  put(bytes, 0, kMagic);
  put(bytes, 4, message.kind);
  put(bytes, 5, message.source_port.value);
  put(bytes, 6, message.destination_port.value);
  put(bytes, 7, kLayoutVersion);
  put(bytes, 8, message.source.value);
  put(bytes, 12, message.destination.value);
  put(bytes, 16, message.domain.value);
  put(bytes, 20, message.rkey.value);
  put(bytes, 24, message.address.value);
  put(bytes, 32, message.size_bytes);
  put(bytes, 40, message.peer.bytes);
  put(bytes, 48, message.fabric.bytes);
  put(bytes, 56, static_cast<std::uint32_t>(kRingSlots));
  return bytes;
}

Result<ControlMessage> decode_control(std::span<const std::byte> bytes) {
  if (bytes.size() < kControlBytes) return Error{Errc::kTruncated, "control message"};
  if (bytes.size() > kControlBytes) return Error{Errc::kMalformed, "control message too long"};
  if (get<std::uint32_t>(bytes, 0) != kMagic)
    return Error{Errc::kMalformed, "magic of a control message"};
  if (get<std::uint8_t>(bytes, 7) != kLayoutVersion || get<std::uint32_t>(bytes, 56) != kRingSlots)
    return Error{Errc::kUnsupported, "channel layout of another version"};
  const auto kind = get<std::uint8_t>(bytes, 4);
  if (kind < static_cast<std::uint8_t>(ControlMessage::Kind::kHello) ||
      kind > static_cast<std::uint8_t>(ControlMessage::Kind::kWithdraw))
    return Error{Errc::kMalformed, "kind of a control message"};
  ControlMessage message;
  message.kind = static_cast<ControlMessage::Kind>(kind);
  message.source_port = PortNumber(get<std::uint8_t>(bytes, 5));
  message.destination_port = PortNumber(get<std::uint8_t>(bytes, 6));
  message.source = QpNumber(get<std::uint32_t>(bytes, 8));
  message.destination = QpNumber(get<std::uint32_t>(bytes, 12));
  message.domain = DomainId(get<std::uint32_t>(bytes, 16));
  message.rkey = RemoteKey(get<std::uint32_t>(bytes, 20));
  message.address = RemoteAddress(get<std::uint64_t>(bytes, 24));
  message.size_bytes = get<std::uint64_t>(bytes, 32);
  message.peer.bytes = get<decltype(PeerId::bytes)>(bytes, 40);
  message.fabric.bytes = get<decltype(FabricId::bytes)>(bytes, 48);
  return message;
}

Result<void> send_control(int socket, const ControlMessage& message, int fd) {
  SMC_ASSERT((fd >= 0) == carries_descriptor(message.kind), message.kind);
  return send_record(socket, encode(message), fd);
}

Result<ReceivedControl> receive_control(int socket) {
  ControlBytes bytes;
  ReceivedRecord record = SMC_TRY(receive_record(socket, bytes));
  ReceivedControl received;
  received.message = SMC_TRY(decode_control(std::span(bytes).first(record.size_bytes)));
  if (record.descriptors != (carries_descriptor(received.message.kind) ? 1u : 0u))
    return Error{Errc::kMalformed, "descriptors of a control message"};
  received.fd = std::move(record.fd);
  return received;
}

}  // namespace fairlead::rdma::shm
