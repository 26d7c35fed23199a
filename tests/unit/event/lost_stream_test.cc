// Goal: what the other end sees of a connection whose process dies. Method: the descriptor is
// closed behind the back of its stream, as the kernel does.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "event/tcp_stream.h"
#include "socket_pair.h"

namespace fairlead::event {
namespace {

using Kind = IoResult::Kind;

int error_at_the_end(SocketPair& pair, Stream& stream) {
  pair.until([&] { return stream.hung_up(); });
  std::string bytes;
  return SocketPair::read(stream, bytes).kind == Kind::kEnd ? 0 : stream.take_error();
}

TEST(TcpStream, EndsIfItIsLost) {
  SocketPair pair;
  lose(*pair.accepted);
  EXPECT_EQ(error_at_the_end(pair, *pair.dialled), 0);
}

class ResetIfLost : public testing::Test {
 protected:
  ResetIfLost() {
    pair.accepted->reset_if_lost();
    pair.dialled->reset_if_lost();
  }
  SocketPair pair;
};

TEST_F(ResetIfLost, WhenAccepted) {
  lose(*pair.accepted);
  EXPECT_EQ(error_at_the_end(pair, *pair.dialled), ECONNRESET);
}

TEST_F(ResetIfLost, WhenDialled) {
  lose(*pair.dialled);
  EXPECT_EQ(error_at_the_end(pair, *pair.accepted), ECONNRESET);
}

TEST_F(ResetIfLost, WhenResumed) {
  auto resumed = TcpStream::resume(*pair.loop, static_cast<TcpStream&>(*pair.accepted).park());
  ASSERT_TRUE(resumed);
  lose(**resumed);
  EXPECT_EQ(error_at_the_end(pair, *pair.dialled), ECONNRESET);
}

// What came before its own end is still delivered, by the kernel.
TEST(TcpStream, AnEndThatIsSentOutlivesTheProcess) {
  for (const bool asked_before : {true, false}) {
    SocketPair pair;
    const std::string chunk(1 << 16, 'x');
    std::size_t written = 0;
    if (asked_before) pair.accepted->reset_if_lost();
    while (pair.accepted->writable()) {
      const iovec piece{const_cast<char*>(chunk.data()), chunk.size()};
      const IoResult result = pair.accepted->write({&piece, 1});
      if (result.kind == Kind::kBytes) written += result.count;
    }
    pair.accepted->shutdown_write();
    pair.loop->poll();
    if (!asked_before) pair.accepted->reset_if_lost();
    lose(*pair.accepted);
    std::size_t read = 0;
    std::string bytes;
    pair.until([&] {
      const IoResult result = SocketPair::read(*pair.dialled, bytes, 1 << 16);
      if (result.kind == Kind::kBytes) read += result.count;
      return result.kind == Kind::kEnd;
    });
    EXPECT_EQ(read, written);
  }
}

TEST_F(ResetIfLost, ButNotWhenItIsEnded) {
  SocketPair::write(*pair.accepted, "all");
  pair.accepted.reset();
  pair.until([&] { return pair.dialled->hung_up(); });
  std::string bytes;
  SocketPair::read(*pair.dialled, bytes);
  EXPECT_EQ(bytes, "all");
  EXPECT_EQ(SocketPair::read(*pair.dialled, bytes).kind, Kind::kEnd);
  EXPECT_EQ(pair.dialled->take_error(), 0);
}

TEST_F(ResetIfLost, AndWhenThatIsAskedFor) {
  pair.accepted->reset_on_close();
  pair.accepted.reset();
  EXPECT_EQ(error_at_the_end(pair, *pair.dialled), ECONNRESET);
}

// Closing ours neither ends the connection nor takes it out of epoll then.
class CopiedStream : public testing::Test {
 protected:
  CopiedStream() {
    ParkedStream parked = static_cast<TcpStream&>(*pair.accepted).park();
    kept.reset(::dup(parked.socket.get()));
    auto arrived = TcpStream::resume(*pair.loop, std::move(parked));
    EXPECT_TRUE(arrived);
    resumed = std::move(*arrived);
  }
  SocketPair pair;
  FileDescriptor kept;
  std::unique_ptr<Stream> resumed;
};

TEST_F(CopiedStream, EndsAtOnce) {
  resumed.reset();
  pair.until([&] { return pair.dialled->hung_up(); });
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.dialled, bytes).kind, Kind::kEnd);
}

TEST_F(CopiedStream, IsResetAtOnce) {
  resumed->reset_on_close();
  resumed.reset();
  pair.until([&] { return pair.dialled->take_error() != 0; });
  EXPECT_EQ(pair.dialled->take_error(), ECONNRESET);
}

TEST_F(CopiedStream, TellsNobodyOfWhatComesAfterItsDeath) {
  resumed.reset();
  pair.until([&] { return pair.dialled->hung_up(); });
  const std::uint64_t dispatched = pair.loop->dispatch_count();
  SocketPair::write(*pair.dialled, "for nobody");
  pollfd arrived{kept.get(), POLLHUP, 0};
  ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
  pair.dialled.reset();
  pair.loop->poll();
  EXPECT_EQ(pair.loop->dispatch_count(), dispatched);
}

}  // namespace
}  // namespace fairlead::event
