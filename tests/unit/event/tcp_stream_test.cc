#include "event/tcp_stream.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "event/socket_buffers.h"
#include "event/urgent_signal.h"
#include "socket_pair.h"

namespace fairlead::event {
namespace {

using Kind = IoResult::Kind;

tcp_info tcp_info_of(const Stream& stream) {
  tcp_info info{};
  socklen_t length = sizeof info;
  EXPECT_EQ(::getsockopt(stream.descriptor(), IPPROTO_TCP, TCP_INFO, &info, &length), 0);
  return info;
}

bool no_delay(const Stream& stream) {
  int on = 0;
  socklen_t length = sizeof on;
  EXPECT_EQ(::getsockopt(stream.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, &length), 0);
  return on != 0;
}

// Binds the socket to the loopback; returns the address with the port that it has got.
SocketAddress bind_any_port(int socket) {
  const SocketAddress any = *SocketAddress::parse("127.0.0.1:0");
  EXPECT_EQ(::bind(socket, any.data(), any.size()), 0);
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length), 0);
  return *SocketAddress::from(storage, length);
}

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
  // The first read of a new stream may precede the bytes.
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

// A write consumes the error of the socket; the reads must report it nevertheless.
TEST(TcpStream, LastWordsCanBeReadAfterAFailedWrite) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "last words");
  pair.until([&] { return pair.accepted->readable(); });
  pair.dialled->reset_on_close();
  pair.dialled.reset();
  const iovec piece{const_cast<char*>("x"), 1};
  pair.until([&] { return pair.accepted->write({&piece, 1}).kind == Kind::kError; });
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kBytes);
  EXPECT_EQ(bytes, "last words");
  for (int i = 0; i < 2; ++i) {
    const IoResult result = SocketPair::read(*pair.accepted, bytes);
    EXPECT_EQ(result.kind, Kind::kError);
    EXPECT_EQ(result.error, ECONNRESET);
  }
}

TEST(TcpStream, AFinBeforeAResetIsRead) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "bye");
  pair.dialled->shutdown_write();
  pair.until([&] { return pair.accepted->hung_up(); });
  pair.dialled->reset_on_close();
  pair.dialled.reset();
  const iovec piece{const_cast<char*>("x"), 1};
  pair.until([&] { return pair.accepted->write({&piece, 1}).kind == Kind::kError; });
  EXPECT_TRUE(pair.accepted->fin_arrived());
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kBytes);
  EXPECT_EQ(bytes, "bye");
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kEnd);
}

// Both at once: the error of the kernel tells of the FIN.
TEST(TcpStream, AFinThatComesWithTheResetIsRead) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "bye");
  const int fd = pair.dialled->descriptor();
  ASSERT_EQ(::shutdown(fd, SHUT_WR), 0);
  pollfd arrived{pair.accepted->descriptor(), POLLRDHUP, 0};
  ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
  pair.dialled->reset_on_close();
  lose(*pair.dialled);
  pair.until([&] { return pair.accepted->hung_up(); });
  EXPECT_EQ(pair.accepted->take_error(), EPIPE);
  EXPECT_TRUE(pair.accepted->fin_arrived());
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kBytes);
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kEnd);
}

TEST(TcpStream, AnotherErrorBehindAFinHidesNoEnd) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "bye");
  pair.dialled->shutdown_write();
  pair.until([&] { return pair.accepted->hung_up(); });
  pair.accepted->note_error(ETIMEDOUT);
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kBytes);
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kEnd);
}

TEST(TcpStream, AResetIsNoFin) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "half");
  pair.dialled->reset_on_close();
  pair.dialled.reset();
  pair.until([&] { return pair.accepted->hung_up(); });
  EXPECT_FALSE(pair.accepted->fin_arrived());
}

int buffer_of(int fd, int which) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, which, &bytes, &length), 0);
  return bytes;
}

TEST(TcpStream, TheKernelGetsTheChoiceOfBuffersBack) {
  const FileDescriptor bounded(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bound_memory(bounded.get(), 4096);
  ASSERT_LT(buffer_of(bounded.get(), SO_RCVBUF), buffer_of(fresh.get(), SO_RCVBUF));
  if (!leave_memory_to_kernel(bounded.get())) GTEST_SKIP() << "the kernel lacks SO_BUF_LOCK";
  for (const int which : {SO_RCVBUF, SO_SNDBUF})
    EXPECT_EQ(buffer_of(bounded.get(), which), buffer_of(fresh.get(), which));
  EXPECT_EQ(buffer_of(bounded.get(), SO_BUF_LOCK), 0);
}

TEST(TcpStream, KnowsWhatTheOtherHostHasNotAcknowledged) {
  SocketPair pair;
  EXPECT_EQ(pair.dialled->unsent(Stream::Until::kAcknowledged), 0U);
  SocketPair::write(*pair.dialled, "x");
  pair.until([&] { return pair.accepted->readable(); });
  pair.until([&] { return pair.dialled->unsent(Stream::Until::kAcknowledged) == 0; });
  pair.dialled->shutdown_write();
  EXPECT_EQ(pair.dialled->unsent(Stream::Until::kAcknowledged),
            1U);  // the FIN, which waits for the turn
  pair.until([&] { return pair.accepted->hung_up(); });
  pair.until([&] { return pair.dialled->unsent(Stream::Until::kAcknowledged) == 0; });
}

TEST(TcpStream, KnowsWhatHasNotLeftTheHost) {
  SocketPair pair;
  EXPECT_EQ(pair.dialled->unsent(Stream::Until::kSent), 0U);
  const std::string chunk(1 << 16, 'x');
  while (pair.dialled->writable()) SocketPair::write(*pair.dialled, chunk);
  EXPECT_GT(pair.dialled->unsent(Stream::Until::kSent), 0U);
}

// Reads all that is there and marks each urgent byte with a star.
std::string read_marked(Stream& stream, std::size_t limit) {
  std::string all, bytes;
  while (stream.readable()) {
    const IoResult result = SocketPair::read(stream, bytes, limit);
    if (result.kind == Kind::kEnd) return all + "$";
    if (result.kind != Kind::kBytes) break;
    all += result.urgent ? "*" + bytes : bytes;
  }
  return all;
}

TEST(TcpStream, AnUrgentByteComesAloneAndInItsPlace) {
  struct Case {
    std::string before, behind;
    bool fin;
  };
  for (const std::size_t limit : {std::size_t{1}, std::size_t{2}, std::size_t{4096}}) {
    for (const Case& one : {Case{"", "", false}, Case{"", "", true}, Case{"ab", "", false},
                            Case{"ab", "", true}, Case{"", "cd", false}, Case{"ab", "cd", true}}) {
      SocketPair pair;
      SocketPair::write(*pair.dialled, one.before);
      ASSERT_EQ(pair.dialled->write_urgent(std::byte{'!'}).count, 1U);
      SocketPair::write(*pair.dialled, one.behind);
      if (one.fin) pair.dialled->shutdown_write();
      const std::string expected = one.before + "*!" + one.behind + (one.fin ? "$" : "");
      std::string all;
      pair.until([&] {
        all += read_marked(*pair.accepted, limit);
        return all.size() >= expected.size();
      });
      EXPECT_EQ(all, expected) << limit;
    }
  }
}

TEST(TcpStream, UrgentBytesOneAfterTheOtherAreUrgentEach) {
  SocketPair pair;
  for (int i = 0; i < 200; ++i) {
    Stream& from = i % 2 == 0 ? *pair.dialled : *pair.accepted;
    Stream& to = i % 2 == 0 ? *pair.accepted : *pair.dialled;
    ASSERT_EQ(from.write_urgent(std::byte{'!'}).count, 1U);
    std::string all;
    pair.until([&] {
      all += read_marked(to, 4096);
      return !all.empty();
    });
    ASSERT_EQ(all, "*!");
    SocketPair::write(from, "ordinary");
    all.clear();
    pair.until([&] {
      all += read_marked(to, 4096);
      return all.size() >= 8;
    });
    ASSERT_EQ(all, "ordinary");
  }
}

TEST(TcpStream, OfSeveralUrgentBytesOnlyTheLastIsUrgent) {
  SocketPair pair;
  pair.dialled->write_urgent(std::byte{'1'});
  SocketPair::write(*pair.dialled, "-");
  pair.dialled->write_urgent(std::byte{'2'});
  pair.dialled->shutdown_write();
  pair.until([&] { return pair.accepted->hung_up(); });
  EXPECT_EQ(read_marked(*pair.accepted, 4096), "1-*2$");
}

// A speculative read while the byte arrives must not return it as an ordinary one.
TEST(TcpStream, AnUrgentByteIsNotMissedByAReadThatNoEventCalledFor) {
  SocketPair pair;
  std::thread writer([fd = pair.dialled->descriptor()] {
    for (int i = 0; i < 2000; ++i) {
      char byte = '!', answer = 0;
      ASSERT_EQ(::send(fd, &byte, 1, MSG_OOB), 1);
      pollfd wait{fd, POLLIN, 0};
      while (::recv(fd, &answer, 1, 0) != 1) ASSERT_EQ(::poll(&wait, 1, 10'000), 1);
    }
  });
  int urgent = 0, ordinary = 0;
  const TimePoint limit = EventLoop::now() + std::chrono::seconds(60);
  while (urgent + ordinary < 2000 && EventLoop::now() < limit) {
    std::string bytes;
    pair.accepted->assume_readable();
    const IoResult result = SocketPair::read(*pair.accepted, bytes);
    if (result.kind != Kind::kBytes) continue;
    ++(result.urgent ? urgent : ordinary);
    SocketPair::write(*pair.accepted, "a");
  }
  writer.join();
  EXPECT_EQ(urgent, 2000);
  EXPECT_EQ(ordinary, 0);
}

// The kernel sends SIGURG before the socket has the urgent byte. Here the read follows after the
// signal was handled and the byte has arrived.
TEST(TcpStream, ASignalAheadOfItsUrgentByteVoidsTheRead) {
  SocketPair pair;
  std::string buffer(16, ' ');
  const iovec piece{buffer.data(), buffer.size()};
  const int fd = pair.accepted->descriptor();
  const MarkedRead read({&piece, 1});
  ASSERT_EQ(::raise(SIGURG), 0);
  SocketPair::write(*pair.dialled, "!");
  pollfd there{fd, POLLIN, 0};
  ASSERT_EQ(::poll(&there, 1, 60'000), 1);
  EXPECT_EQ(::readv(fd, read.pieces().data(), static_cast<int>(read.pieces().size())), 0);
}

TEST(TcpStream, AVoidReadIsNotTheEndOfTheStream) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "ab");
  pair.dialled->write_urgent(std::byte{'!'});
  pair.dialled->shutdown_write();
  pair.until([&] { return pair.accepted->hung_up(); });
  std::atomic<bool> done = false;
  std::thread signals([&, reader = ::pthread_self()] {
    while (!done) ::pthread_kill(reader, SIGURG);
  });
  const std::string all = read_marked(*pair.accepted, 1);
  done = true;
  signals.join();
  EXPECT_EQ(all, "ab*!$");
}

// An urgent byte that is announced behind a full receive buffer, before the stream owns the socket.
TEST(TcpStream, AnUrgentByteThatWasAnnouncedBeforeTheStreamIsUrgent) {
  const FileDescriptor listener = std::move(*TcpStream::make_socket(AF_INET));
  bound_memory(listener.get(), 4096);
  const SocketAddress address = bind_any_port(listener.get());
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), address.data(), address.size()), 0);
  FileDescriptor accepted(
      ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  ASSERT_TRUE(accepted);
  // More than the receiver takes, less than reaches the urgent pointer's range.
  const std::string before(32 * 1024, 'x');
  ASSERT_EQ(::send(client.get(), before.data(), before.size(), 0),
            static_cast<ssize_t>(before.size()));
  ASSERT_EQ(::send(client.get(), "!", 1, MSG_OOB), 1);
  // Out of band, the kernel reports an announced urgent byte.
  char byte = 0;
  const TimePoint limit = EventLoop::now() + std::chrono::seconds(60);
  do ASSERT_EQ(::recv(accepted.get(), &byte, 1, MSG_OOB | MSG_PEEK), -1);
  while (errno != EAGAIN && EventLoop::now() < limit);
  ASSERT_EQ(errno, EAGAIN);
  SocketPair pair;
  const auto stream = std::move(*TcpStream::adopt(*pair.loop, std::move(accepted), {}));
  std::string all;
  pair.until([&] {
    all += read_marked(*stream, 4096);
    return all.size() > before.size();
  });
  EXPECT_EQ(all.substr(before.size()), "*!");
}

TEST(TcpStream, AStreamMayDieWhileItsEventWaits) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "one");
  SocketPair::write(*pair.accepted, "two");
  std::string bytes;
  pair.until([&] { return SocketPair::read(*pair.accepted, bytes).kind == Kind::kBytes; });
  pair.until([&] { return SocketPair::read(*pair.dialled, bytes).kind == Kind::kBytes; });
  pair.accepted.reset();
  pair.until([&] { return pair.dialled->hung_up(); });
  EXPECT_EQ(SocketPair::read(*pair.dialled, bytes).kind, Kind::kEnd);
}

TEST(TcpStream, AParkedStreamGoesOnWhereItWas) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "before");
  pair.until([&] { return pair.accepted->readable(); });
  ParkedStream parked = static_cast<TcpStream&>(*pair.accepted).park();
  pair.accepted.reset();
  SocketPair::write(*pair.dialled, "meanwhile");
  pair.dialled->shutdown_write();
  auto resumed = TcpStream::resume(*pair.loop, std::move(parked));
  ASSERT_TRUE(resumed);
  EXPECT_EQ((*resumed)->peer_address(), pair.dialled->local_address());
  std::string all, bytes;
  pair.until([&] {
    const IoResult result = SocketPair::read(**resumed, bytes);
    all += bytes;
    return result.kind == Kind::kEnd;
  });
  EXPECT_EQ(all, "beforemeanwhile");
  SocketPair::write(**resumed, "answer");
  std::string answer;
  pair.until([&] { return SocketPair::read(*pair.dialled, answer).kind == Kind::kBytes; });
  EXPECT_EQ(answer, "answer");
}

TEST(TcpStream, AnErrorThatWasToldIsParkedToo) {
  SocketPair pair;
  pair.dialled->reset_on_close();
  pair.dialled.reset();
  pair.until([&] { return pair.accepted->hung_up() && pair.accepted->take_error() != 0; });
  auto resumed = TcpStream::resume(*pair.loop, static_cast<TcpStream&>(*pair.accepted).park());
  ASSERT_TRUE(resumed);
  EXPECT_EQ((*resumed)->take_error(), ECONNRESET);
  std::string bytes;
  EXPECT_EQ(SocketPair::read(**resumed, bytes).kind, Kind::kError);
}

TEST(TcpStream, ItsEndIsSentWithTheNextTurnOfTheLoop) {
  SocketPair pair;
  pair.dialled->shutdown_write();
  EXPECT_EQ(tcp_info_of(*pair.dialled).tcpi_state, TCP_ESTABLISHED);
  pair.loop->poll();
  EXPECT_NE(tcp_info_of(*pair.dialled).tcpi_state, TCP_ESTABLISHED);
  pair.until([&] { return pair.accepted->hung_up(); });
}

TEST(TcpStream, MayDieBeforeItsEndIsSent) {
  SocketPair pair;
  pair.dialled->shutdown_write();
  pair.accepted->shutdown_write();
  pair.dialled.reset();
  pair.until([&] { return pair.accepted->hung_up(); });
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kEnd);
}

TEST(TcpStream, AnAcceptedStreamDoesNotDelay) {
  SocketPair pair;
  EXPECT_TRUE(no_delay(*pair.accepted));
}

TEST(TcpStream, ADialledStreamDoesNotDelayFromItsFirstLargeWrite) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, std::string(kSmallWriteBytes + 1, 'x'));
  EXPECT_TRUE(no_delay(*pair.dialled));
}

TEST(TcpStream, ADialledStreamDoesNotDelayAWriteBehindAnother) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "one");
  EXPECT_FALSE(no_delay(*pair.dialled));
  SocketPair::write(*pair.dialled, "two");
  EXPECT_TRUE(no_delay(*pair.dialled));
}

TEST(TcpStream, ADialledStreamMayAnswerOnceWithoutACall) {
  SocketPair pair;
  std::string bytes;
  for (const bool expected : {false, false, true}) {
    SocketPair::write(*pair.dialled, "said");
    EXPECT_EQ(no_delay(*pair.dialled), expected);
    SocketPair::write(*pair.accepted, "answered");
    pair.until([&] { return SocketPair::read(*pair.dialled, bytes).kind == Kind::kBytes; });
  }
}

TEST(TcpStream, AnUrgentByteBehindTheLastReadIsToldWithItsEvent) {
  SocketPair pair;
  std::string bytes;
  SocketPair::write(*pair.dialled, "one");
  pair.until([&] { return pair.accepted->readable(); });
  // Comes before the read, and behind what its event told of.
  ASSERT_EQ(pair.dialled->write_urgent(std::byte{'!'}).kind, Kind::kBytes);
  pair.until([&] { return SocketPair::read(*pair.accepted, bytes).kind == Kind::kBytes; });
  EXPECT_EQ(bytes, "one");
  IoResult result;
  pair.until([&] {
    result = SocketPair::read(*pair.accepted, bytes);
    return result.kind == Kind::kBytes;
  });
  EXPECT_TRUE(result.urgent);
  EXPECT_EQ(bytes, "!");
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

// What a stream's handler hears.
struct Notified final : StreamHandler {
  void handle_ready(Stream&) override { ++times; }
  int times = 0;
};

class FreshStream : public testing::Test {
 protected:
  FreshStream() {
    FileDescriptor socket = std::move(*TcpStream::make_socket(AF_INET));
    stream =
        std::move(*TcpStream::connect(*pair.loop, std::move(socket), pair.listener->address()));
    stream->set_handler(&notified);
  }
  void await_accepted() {
    pair.accepted.reset();
    pair.until([&] { return pair.accepted != nullptr; });
  }
  SocketPair pair;
  Notified notified;
  std::unique_ptr<Stream> stream;
};

TEST_F(FreshStream, AWriteThatIsTakenProvesTheConnectionWithoutAnEvent) {
  stream->presume_connected();
  EXPECT_FALSE(stream->connected());
  EXPECT_EQ(SocketPair::write(*stream, "first"), 5U);
  EXPECT_TRUE(stream->connected());
  await_accepted();
  EXPECT_EQ(notified.times, 0);
  std::string bytes;
  pair.until([&] { return SocketPair::read(*pair.accepted, bytes).kind == Kind::kBytes; });
  EXPECT_EQ(bytes, "first");
  SocketPair::write(*pair.accepted, "answer");
  pair.until([&] { return SocketPair::read(*stream, bytes).kind == Kind::kBytes; });
  EXPECT_EQ(bytes, "answer");
}

TEST_F(FreshStream, AFullSocketIsWatchedForRoomFromItsBeginning) {
  stream->presume_connected();
  const std::string much(1 << 20, 'x');
  while (stream->writable()) SocketPair::write(*stream, much);
  EXPECT_TRUE(stream->connected());
  await_accepted();
  std::string bytes;
  pair.until([&] {
    while (SocketPair::read(*pair.accepted, bytes, 1 << 20).kind == Kind::kBytes) {
    }
    return stream->writable();
  });
}

TEST_F(FreshStream, AnEventTellsWhereNothingIsWritten) {
  stream->presume_connected();
  pair.until([&] { return stream->connected(); });
  EXPECT_EQ(notified.times, 1);
}

TEST_F(FreshStream, ItsEndWaitsForTheConnection) {
  stream->shutdown_write();
  await_accepted();
  pair.until([&] { return pair.accepted->hung_up(); });
  std::string bytes;
  EXPECT_EQ(SocketPair::read(*pair.accepted, bytes).kind, Kind::kEnd);
  EXPECT_EQ(stream->take_error(), 0);
}

class RefusedStream : public testing::Test {
 protected:
  RefusedStream() {
    const SocketAddress address = bind_any_port(closed.get());
    FileDescriptor socket = std::move(*TcpStream::make_socket(AF_INET));
    stream = TcpStream::connect(*pair.loop, std::move(socket), address);
  }
  SocketPair pair;
  // It never listens, and nobody else gets its port.
  FileDescriptor closed = std::move(*TcpStream::make_socket(AF_INET));
  Result<std::unique_ptr<Stream>> stream = Error{Errc::kSystem, "not dialled"};
};

TEST_F(RefusedStream, TellsAlsoAWriteItsError) {
  ASSERT_TRUE(stream);
  (*stream)->presume_connected();
  EXPECT_EQ(SocketPair::write(**stream, "first"), 0U);
  EXPECT_FALSE((*stream)->connected());
  EXPECT_EQ((*stream)->take_error(), ECONNREFUSED);
}

TEST_F(RefusedStream, TellsItsError) {
  if (!stream) {
    EXPECT_EQ(stream.error().system, ECONNREFUSED);
    return;
  }
  pair.until([&] { return (*stream)->connected(); });
  EXPECT_EQ((*stream)->take_error(), ECONNREFUSED);
}

// Of a parked stream: what the process that has it last does.

TEST(ParkedTcpStream, IsResetWhereNobodyResumesIt) {
  SocketPair pair;
  SocketPair::write(*pair.dialled, "half of it");
  auto& stream = static_cast<TcpStream&>(*pair.dialled);
  { const ParkedStream parked = stream.park(); }
  pair.dialled.reset();
  std::string bytes;
  IoResult last;
  pair.until([&] {
    pair.accepted->assume_readable();
    last = SocketPair::read(*pair.accepted, bytes);
    return last.kind == Kind::kEnd || last.kind == Kind::kError;
  });
  EXPECT_EQ(last.kind, Kind::kError);
  EXPECT_EQ(last.error, ECONNRESET);
}

TEST(ParkedTcpStream, EndsInOrderOnceItIsResumed) {
  SocketPair pair;
  ParkedStream parked = static_cast<TcpStream&>(*pair.dialled).park();
  pair.dialled.reset();
  auto resumed = TcpStream::resume(*pair.loop, std::move(parked));
  ASSERT_TRUE(resumed);
  SocketPair::write(**resumed, "all");
  (*resumed).reset();
  std::string bytes, all;
  IoResult last;
  pair.until([&] {
    pair.accepted->assume_readable();
    last = SocketPair::read(*pair.accepted, bytes);
    all += bytes;
    return last.kind == Kind::kEnd || last.kind == Kind::kError;
  });
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(all, "all");
}

TEST(ParkedTcpStream, RemembersTheErrorThatWasSeen) {
  SocketPair pair;
  pair.dialled->note_error(ECONNRESET);
  ParkedStream parked = static_cast<TcpStream&>(*pair.dialled).park();
  EXPECT_EQ(parked.error, ECONNRESET);
  const auto resumed = TcpStream::resume(*pair.loop, std::move(parked));
  ASSERT_TRUE(resumed);
  EXPECT_TRUE((*resumed)->readable());
  EXPECT_EQ((*resumed)->take_error(), ECONNRESET);
}

}  // namespace
}  // namespace fairlead::event
