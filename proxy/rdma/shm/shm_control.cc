#include "rdma/shm/shm_control.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "base/assert.h"
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

// A peer may send more descriptors than we ask for; all that arrive must be closed.
constexpr std::size_t kDescriptorsRead = 4;

// Takes the descriptors out of `header`; the first is returned, the others closed.
FileDescriptor take_descriptors(msghdr& header, std::size_t& count) {
  FileDescriptor first;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      FileDescriptor fd(number);
      if (count++ == 0) first = std::move(fd);
    }
  }
  return first;
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
  ControlBytes bytes = encode(message);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = ancillary;
    header.msg_controllen = sizeof ancillary;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  if (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return {};
  // Both pass when the peer reads.
  if (errno == ENOBUFS || errno == ETOOMANYREFS) return Error{Errc::kWouldBlock, "sendmsg", errno};
  return system_error("sendmsg", errno);
}

Result<ReceivedControl> receive_control(int socket) {
  ControlBytes bytes;
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(kDescriptorsRead * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = ancillary;
  header.msg_controllen = sizeof ancillary;
  constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  ssize_t count = ::recvmsg(socket, &header, kFlags);
  // Said once when the peer closed without reading all; what it sent before is still there.
  if (count < 0 && errno == ECONNRESET) count = ::recvmsg(socket, &header, kFlags);
  if (count < 0) return system_error("recvmsg", errno);
  std::size_t descriptors = 0;
  FileDescriptor fd = take_descriptors(header, descriptors);
  if (count == 0) return Error{Errc::kPeerGone, "channel closed by the peer"};
  if ((header.msg_flags & MSG_CTRUNC) != 0)
    return Error{Errc::kExhausted, "descriptor of a control message lost"};
  if ((header.msg_flags & MSG_TRUNC) != 0)
    return Error{Errc::kMalformed, "control message too long"};
  ReceivedControl received;
  received.message =
      SMC_TRY(decode_control(std::span(bytes).first(static_cast<std::size_t>(count))));
  if (descriptors != (carries_descriptor(received.message.kind) ? 1u : 0u))
    return Error{Errc::kMalformed, "descriptors of a control message"};
  received.fd = std::move(fd);
  return received;
}

}  // namespace fairlead::rdma::shm
