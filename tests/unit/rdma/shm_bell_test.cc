// State of the peer as its bell shows it.
#include "rdma/shm/channel/shm_bell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <semaphore>
#include <thread>

#include "broker/shared_objects.h"

namespace fairlead::rdma::shm {
namespace {

constexpr int kHangMilliseconds = 120'000;

// The bell that the peer of a channel rings, with the ends of both sides.
struct Pair {
  Pair() {
    auto ends = std::move(broker::make_channel(4096).value());
    peers_end = std::move(ends[1].ring);
    bell = std::move(ChannelBell::adopt(std::move(ends[0].ring), std::move(ends[0].watch)).value());
  }
  ForeignDescriptor peers_end;
  ChannelBell bell;
};

TEST(ShmBell, PeerLivesUntilItsEndIsClosed) {
  Pair pair;
  EXPECT_TRUE(pair.bell.peer_alive());
  ASSERT_EQ(::shutdown(pair.peers_end.get(), SHUT_RDWR), 0);  // it rings
  EXPECT_TRUE(pair.bell.peer_alive());
  pair.peers_end.reset();
  EXPECT_FALSE(pair.bell.peer_alive());
}

TEST(ShmBell, PeerThatTakesTheByteIsGone) {
  Pair pair;
  char byte = 0;
  ASSERT_EQ(::recv(pair.peers_end.get(), &byte, 1, MSG_DONTWAIT), 1);
  EXPECT_FALSE(pair.bell.peer_alive());
}

// The other end of what is watched here.
struct Sockets {
  explicit Sockets(int type) {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    ours.reset(fds[0]);
    theirs.reset(fds[1]);
  }
  FileDescriptor ours, theirs;
};

FileDescriptor copy_of(const FileDescriptor& fd) {
  return FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

TEST(ShmBell, PeerThatWasGoneStaysGone) {
  Sockets sockets(SOCK_SEQPACKET);
  ASSERT_EQ(::send(sockets.ours.get(), "", 1, 0), 1);
  auto bell = ChannelBell::adopt(copy_of(sockets.ours), copy_of(sockets.ours));
  ASSERT_TRUE(bell);
  EXPECT_TRUE(bell->peer_alive());
  char byte = 0;
  ASSERT_EQ(::recv(sockets.theirs.get(), &byte, 1, 0), 1);
  EXPECT_FALSE(bell->peer_alive());
  ASSERT_EQ(::send(sockets.ours.get(), "", 1, 0), 1);
  EXPECT_FALSE(bell->peer_alive());
}

TEST(ShmBell, OnlySocketsOfItsTypeAreBells) {
  const Sockets right(SOCK_SEQPACKET), stream(SOCK_STREAM), datagram(SOCK_DGRAM);
  const FileDescriptor internet(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor file(::open("/dev/null", O_RDWR | O_CLOEXEC)), none;
  for (const FileDescriptor* wrong : {&stream.ours, &datagram.ours, &internet, &file, &none}) {
    for (const bool rings : {false, true}) {
      auto bell = ChannelBell::adopt(copy_of(rings ? *wrong : right.ours),
                                     copy_of(rings ? right.ours : *wrong));
      ASSERT_FALSE(bell) << wrong->get();
      EXPECT_EQ(bell.error().code, Errc::kMalformed);
    }
  }
  EXPECT_TRUE(ChannelBell::adopt(copy_of(right.ours), copy_of(right.ours)));
}

TEST(ShmBell, ClosesBothEnds) {
  auto ends = std::move(broker::make_channel(4096).value());
  const int ring = ends[0].ring.get(), watch = ends[0].watch.get();
  auto bell = ChannelBell::adopt(std::move(ends[0].ring), std::move(ends[0].watch));
  ASSERT_TRUE(bell);
  EXPECT_EQ(bell->descriptor(), watch);
  bell->close();
  EXPECT_EQ(bell->descriptor(), -1);
  EXPECT_FALSE(bell->peer_alive());
  EXPECT_EQ(bell->ring(), Duration::zero());
  for (const int fd : {ring, watch}) {
    EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
    EXPECT_EQ(errno, EBADF);
  }
}

TEST(ShmBell, AWatchThatWasNeverThereIsNoPeer) {
  ChannelBell bell;
  EXPECT_EQ(bell.descriptor(), -1);
  EXPECT_FALSE(bell.peer_alive());
  EXPECT_EQ(bell.ring(), Duration::zero());
}

// A bell with many unread bytes, so that the kernel is busy with them for some time.
void fill(Pair& pair) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  pair.peers_end = FileDescriptor(fds[0]);
  while (::send(fds[1], "", 1, MSG_NOSIGNAL) == 1) {
  }
  ASSERT_EQ(::shutdown(fds[0], SHUT_RDWR), 0);
  FileDescriptor watch(fds[1]);
  FileDescriptor ring(::dup(fds[1]));
  pair.bell = std::move(ChannelBell::adopt(std::move(ring), std::move(watch)).value());
}

// close(2) wakes the other end before it frees unread data, and no event follows.
TEST(ShmBell, CloseIsKnownWhenItsEventComes) {
  constexpr int kRounds = 2'000;
  std::binary_semaphore close_next{0}, closed{0};
  ForeignDescriptor closing;
  std::thread peer([&] {
    for (int round = 0; round < kRounds; ++round) {
      close_next.acquire();
      closing.reset();
      closed.release();
    }
  });
  const FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  int missed = 0;
  for (int round = 0; round < kRounds; ++round) {
    Pair pair;
    fill(pair);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    const int watch = pair.bell.descriptor();
    EXPECT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, watch, &event), 0);
    EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 1);  // shut down from the beginning
    closing = std::move(pair.peers_end);
    close_next.release();
    EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, kHangMilliseconds), 1);
    missed += pair.bell.peer_alive() ? 1 : 0;
    closed.acquire();
    EXPECT_FALSE(pair.bell.peer_alive());
  }
  peer.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace fairlead::rdma::shm
