#include "rdma/shm/shm_control.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fairlead::rdma::shm {
namespace {

using Kind = ControlMessage::Kind;

ControlMessage full(Kind kind) {
  return {.kind = kind,
          .source = QpNumber(0x123456),
          .destination = QpNumber(0x654321),
          .source_port = PortNumber(1),
          .destination_port = PortNumber(2),
          .domain = DomainId(0x11223344),
          .rkey = RemoteKey(0x55667788),
          .address = RemoteAddress(0x99aabbccddeeff00),
          .size_bytes = 0x0102030405060708,
          .peer = {{1, 2, 3, 4, 5, 6, 7, 8}},
          .fabric = {{9, 10, 11, 12, 13}}};
}

constexpr Kind kKinds[] = {Kind::kHello,          Kind::kDoorbell,      Kind::kWake,
                           Kind::kQueuePairReady, Kind::kQueuePairGone, Kind::kAnnounce,
                           Kind::kWithdraw};

class SocketPair {
 public:
  SocketPair() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    one.reset(ends[0]);
    two.reset(ends[1]);
  }
  FileDescriptor one, two;
};

TEST(ShmControl, DecodesWhatItEncodes) {
  for (Kind kind : kKinds) EXPECT_EQ(decode_control(encode(full(kind))), full(kind));
}

TEST(ShmControl, RejectsOtherLengths) {
  const ControlBytes bytes = encode(full(Kind::kWake));
  for (std::size_t size = 0; size < kControlBytes; ++size)
    EXPECT_EQ(decode_control(std::span(bytes).first(size)).error().code, Errc::kTruncated);
  const std::vector<std::byte> longer(kControlBytes + 1);
  EXPECT_EQ(decode_control(longer).error().code, Errc::kMalformed);
}

TEST(ShmControl, RejectsOtherMagicKindAndLayout) {
  const ControlBytes good = encode(full(Kind::kWake));
  auto with = [&](std::size_t at, unsigned value) {
    ControlBytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return decode_control(bytes).error().code;
  };
  EXPECT_EQ(with(0, 0), Errc::kMalformed);
  EXPECT_EQ(with(4, 0), Errc::kMalformed);
  EXPECT_EQ(with(4, 8), Errc::kMalformed);
  EXPECT_EQ(with(4, 255), Errc::kMalformed);
  EXPECT_EQ(with(7, 2), Errc::kUnsupported);
  EXPECT_EQ(with(57, 1), Errc::kUnsupported);
}

TEST(ShmControl, PassesMessagesAndDescriptors) {
  SocketPair sockets;
  EXPECT_EQ(receive_control(sockets.two.get()).error().code, Errc::kWouldBlock);
  for (Kind kind : kKinds) {
    const int fd = carries_descriptor(kind) ? sockets.one.get() : -1;
    ASSERT_TRUE(send_control(sockets.one.get(), full(kind), fd));
    auto received = receive_control(sockets.two.get());
    ASSERT_TRUE(received);
    EXPECT_EQ(received->message, full(kind));
    EXPECT_EQ(static_cast<bool>(received->fd), carries_descriptor(kind));
    if (received->fd) {
      EXPECT_NE(::fcntl(received->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
}

TEST(ShmControl, SaysWhenTheSocketIsFullAndWhenThePeerIsGone) {
  SocketPair sockets;
  Result<void> sent;
  for (int i = 0; i < 100000 && sent; ++i)
    sent = send_control(sockets.one.get(), full(Kind::kWake), -1);
  EXPECT_EQ(sent.error().code, Errc::kWouldBlock);
  sockets.one.reset();
  int count = 0;
  for (;; ++count) {
    auto received = receive_control(sockets.two.get());
    if (received) continue;
    EXPECT_EQ(received.error().code, Errc::kPeerGone);
    break;
  }
  EXPECT_GT(count, 10);  // what was sent before is still read
  EXPECT_EQ(send_control(sockets.two.get(), full(Kind::kWake), -1).error().code, Errc::kPeerGone);
}

TEST(ShmControl, LastMessagesOfAPeerThatDidNotReadOursAreRead) {
  SocketPair sockets;
  ASSERT_TRUE(send_control(sockets.two.get(), full(Kind::kWake), -1));
  ASSERT_TRUE(send_control(sockets.one.get(), full(Kind::kQueuePairGone), -1));
  sockets.one.reset();  // with a message unread: the kernel reports a reset first
  auto received = receive_control(sockets.two.get());
  ASSERT_TRUE(received);
  EXPECT_EQ(received->message, full(Kind::kQueuePairGone));
  EXPECT_EQ(receive_control(sockets.two.get()).error().code, Errc::kPeerGone);
}

}  // namespace
}  // namespace fairlead::rdma::shm
