#include "event/tcp_stream.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "socket_pair.h"

namespace fairlead::event {
namespace {

using Kind = IoResult::Kind;

TEST(TcpStream, ConnectsAndKnowsItsAddresses) {
  SocketPair pair;
  EXPECT_EQ(pair.dialled->take_error(), 0);
  EXPECT_EQ(pair.dialled->peer_address(), pair.listener->address());
  EXPECT_EQ(pair.accepted->peer_address(), pair.dialled->local_address());
}

TEST(TcpStream, AShortReadMeansThatNothingIsLeft) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "hello");
  pair.until([&] { return pair.accepted->readable(); });
  std::string bytes;
  // The first look at a fresh stream may come before the bytes do.
  pair.until([&] { return SocketPair::read(*pair.accepted, bytes).kind == Kind::kBytes; });
  EXPECT_EQ(bytes, "hello");
  EXPECT_FALSE(pair.accepted->readable());
}

TEST(TcpStream, AFinBehindBytesIsNotMissed) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "bye");
  pair.dialled->shutdown_write();
  pair.until([&] { return pair.accepted->hung_up(); });
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kBytes);
  EXPECT_TRUE(pair.accepted->readable());
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kEnd);
}

TEST(TcpStream, AResetReachesThePeer) {
  SocketPair pair;
  pair.dialled->reset_on_close();
  pair.dialled.reset();
  pair.until([&] { return pair.accepted->readable(); });
  std::string bytes;
  const IoResult result = SocketPair::read(*pair.accepted, bytes);
  EXPECT_EQ(result.kind, Kind::kError);
  EXPECT_EQ(result.error, ECONNRESET);
}

TEST(TcpStream, AResetIsSeenBehindBytesThatNobodyReads) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "unread");
  pair.until([&] { return pair.accepted->readable(); });
  EXPECT_FALSE(pair.accepted->hung_up());
  pair.dialled->reset_on_close();
  pair.dialled.reset();
  pair.until([&] { return pair.accepted->hung_up(); });
  EXPECT_EQ(pair.accepted->take_error(), ECONNRESET);
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kBytes);
  EXPECT_EQ(bytes, "unread");
  EXPECT_TRUE(pair.accepted->readable());
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).error, ECONNRESET);
}

// Both come as one event, in which libevent hides the RST.
TEST(TcpStream, AResetBehindBytesIsNotMissed) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "first");
  std::string bytes;
  pair.until([&] { return SocketPair::read(*pair.accepted, bytes).kind == Kind::kBytes; });
  ASSERT_FALSE(pair.accepted->readable());
  SocketPair::write(*pair.dialled, "last");
  pair.dialled->reset_on_close();
  pair.dialled.reset();
  pair.until([&] { return pair.accepted->readable(); });
  ASSERT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kBytes);
  EXPECT_EQ(bytes, "last");
  pair.until([&] { return pair.accepted->readable(); });
  const IoResult result = SocketPair::read(*pair.accepted, bytes);
  EXPECT_EQ(result.kind, Kind::kError);
  EXPECT_EQ(result.error, ECONNRESET);
}

TEST(TcpStream, AStreamMayDieBeforeItsSecondLook) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "one");
  SocketPair::write(*pair.accepted, "two");
  std::string bytes;
  pair.until([&] { return SocketPair::read(*pair.accepted, bytes).kind == Kind::kBytes; });
  pair.until([&] { return SocketPair::read(*pair.dialled, bytes).kind == Kind::kBytes; });
  pair.accepted.reset();  // the first in line, whose place the other takes
  pair.until([&] { return pair.dialled->hung_up(); });
  EXPECT_EQ(SocketPair::read(*pair.dialled, bytes).kind, Kind::kEnd);
}

TEST(TcpStream, AFullSocketIsNotWritableUntilThePeerReads) {
  SocketPair pair;
  const std::string chunk(1 << 16, 'x');
  while (pair.dialled->writable()) SocketPair::write(*pair.dialled, chunk);
  std::string bytes;
  pair.until([&] {
    while (SocketPair::read(*pair.accepted, bytes, 1 << 20).kind == Kind::kBytes) {
    }
    return pair.dialled->writable();
  });
}

TEST(TcpStream, ARefusedConnectTellsItsError) {
  SocketPair pair;
  const SocketAddress closed = pair.listener->address();
  pair.listener.reset();
  FileDescriptor socket = std::move(*TcpStream::make_socket(AF_INET));
  Result<std::unique_ptr<Stream>> stream =
      TcpStream::connect(*pair.loop, std::move(socket), closed);
  if (!stream) {
    EXPECT_EQ(stream.error().system, ECONNREFUSED);
    return;
  }
  pair.until([&] { return (*stream)->connected(); });
  EXPECT_EQ((*stream)->take_error(), ECONNREFUSED);
}

}  // namespace
}  // namespace fairlead::event
