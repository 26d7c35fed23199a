// Goal: descriptors that block in close(2) do not block their owner. Method: sockets that linger.
#include "base/linux/descriptor_closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "base/linux/record_socket.h"
#include "lingering_socket.h"

namespace fairlead {
namespace {

using Clock = std::chrono::steady_clock;

// Far below the time that a socket lingers, and far above that of an idle close(2).
constexpr auto kLong = LingeringSockets::kLinger / 4;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

struct SocketPair {
  explicit SocketPair(int type = SOCK_SEQPACKET) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
    one.reset(ends[0]);
    other.reset(ends[1]);
  }
  FileDescriptor one, other;
};

class DescriptorCloserTest : public testing::Test {
 protected:
  bool closed_in_time(int fd) {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (is_open(fd) && Clock::now() < deadline) std::this_thread::yield();
    return !is_open(fd);
  }
  const Clock::time_point begun_ = Clock::now();
  DescriptorCloser closer_;
  LingeringSockets sockets_;  // ends first
};

TEST_F(DescriptorCloserTest, ClosesWhatIsGivenToIt) {
  SocketPair pair;
  const std::array<int, 2> ends = {pair.one.get(), pair.other.get()};
  closer_.close(std::move(pair.one));
  { const ForeignDescriptor other(std::move(pair.other), closer_); }
  EXPECT_TRUE(closed_in_time(ends[0]));
  EXPECT_TRUE(closed_in_time(ends[1]));
}

TEST_F(DescriptorCloserTest, OneThatLingersHoldsUpNobody) {
  { const ForeignDescriptor socket(sockets_.make(), closer_); }
  EXPECT_LT(Clock::now() - begun_, kLong);
}

TEST_F(DescriptorCloserTest, IsFullWhenTooManyWaitBehindOne) {
  closer_.close(sockets_.make());
  for (std::size_t i = 0; i < DescriptorCloser::kWaitingMax; ++i) {
    EXPECT_FALSE(closer_.full() && i + 1 < DescriptorCloser::kWaitingMax) << i;
    closer_.close(FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  }
  EXPECT_TRUE(closer_.full());
  EXPECT_LT(Clock::now() - begun_, kLong);
  sockets_ = LingeringSockets();
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (closer_.full() && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(closer_.full());
}

// Neither descriptors beyond those that a record may have, nor those in another socket, nor those
// of a record that is refused.
TEST_F(DescriptorCloserTest, RecordsWithDescriptorsThatLingerHoldUpNobody) {
  constexpr std::size_t kMost = 253;  // SCM_MAX_FD
  SocketPair pair;
  const std::array<std::byte, 64> bytes{};
  const int sender = pair.one.get();
  ForeignDescriptor receiver(std::move(pair.other), closer_);
  {
    std::vector<FileDescriptor> sent;
    std::vector<int> numbers;
    for (std::size_t i = 0; i < kMost; ++i) {
      sent.push_back(i + 8 < kMost ? FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC))
                                   : sockets_.make());
      numbers.push_back(sent.back().get());
    }
    ASSERT_TRUE(send_with_descriptors(sender, bytes, numbers));
    for (int i = 0; i < 2; ++i)
      ASSERT_TRUE(send_with_descriptors(sender, bytes, std::span(numbers).last(1)));
    const SocketPair inner;
    const int full = inner.other.get();
    ASSERT_TRUE(send_with_descriptors(inner.one.get(), bytes, std::span(numbers).last(1)));
    ASSERT_TRUE(send_with_descriptors(sender, bytes, std::span(&full, 1)));
  }
  std::array<std::byte, 64> into{};
  const auto most = receive_record(receiver.get(), into, closer_).value();
  EXPECT_EQ(most.descriptors, kMost);
  EXPECT_EQ(receive_record(receiver.get(), std::span(into).first(8), closer_).error().code,
            Errc::kMalformed);
  EXPECT_TRUE(receive_record(receiver.get(), into, closer_));
  receiver.reset();  // with one unread
  EXPECT_LT(Clock::now() - begun_, kLong);
}

TEST_F(DescriptorCloserTest, BytesOfAStreamMayBringDescriptorsToo) {
  SocketPair pair(SOCK_STREAM);
  const ForeignDescriptor receiver(std::move(pair.other), closer_);
  {
    const FileDescriptor socket = sockets_.make();
    const int fd = socket.get();
    const std::array<std::byte, 5> bytes{};
    ASSERT_TRUE(send_with_descriptors(pair.one.get(), bytes, std::span(&fd, 1)));
  }
  pair.one.reset();
  std::array<std::byte, 64> into{};
  {
    const auto received = receive_record(receiver.get(), into, closer_).value();
    EXPECT_EQ(received.size_bytes, 5u);
    EXPECT_EQ(received.descriptors, 1u);
  }
  EXPECT_EQ(receive_record(receiver.get(), into, closer_).error().code, Errc::kPeerGone);
  EXPECT_LT(Clock::now() - begun_, kLong);
}

}  // namespace
}  // namespace fairlead
