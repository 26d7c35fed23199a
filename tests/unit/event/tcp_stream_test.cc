#include "event/tcp_stream.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "event/socket_buffers.h"
#include "event/urgent_signal.h"
#include "socket_pair.h"

namespace fairlead::event {
namespace {

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

TEST_F(TcpStreamTest, ConnectsAndKnowsItsAddresses) {
  EXPECT_EQ(dialled->take_error(), 0);
  EXPECT_EQ(dialled->peer_address(), listener->address());
  EXPECT_EQ(accepted->peer_address(), dialled->local_address());
}

TEST_F(TcpStreamTest, AShortReadMeansThatNothingIsLeft) {
  write(*dialled, "hello");
  until([&] { return accepted->readable(); });
  // The first read of a new stream may precede the bytes.
  EXPECT_EQ(await_bytes(*accepted), "hello");
  EXPECT_FALSE(accepted->readable());
}

TEST_F(TcpStreamTest, AFinBehindBytesIsNotMissed) {
  say_and_end("bye");
  EXPECT_EQ(read(*accepted).kind, Kind::kBytes);
  EXPECT_TRUE(accepted->readable());
  EXPECT_EQ(read(*accepted).kind, Kind::kEnd);
}

TEST_F(TcpStreamTest, AResetReachesThePeer) {
  reset(dialled);
  until([&] { return accepted->readable(); });
  EXPECT_EQ(read_error(*accepted), ECONNRESET);
}

TEST_F(TcpStreamTest, AResetIsSeenBehindBytesThatNobodyReads) {
  write(*dialled, "unread");
  until([&] { return accepted->readable(); });
  EXPECT_FALSE(accepted->hung_up());
  reset(dialled);
  until([&] { return accepted->hung_up(); });
  EXPECT_EQ(accepted->take_error(), ECONNRESET);
  EXPECT_EQ(read(*accepted).bytes, "unread");
  EXPECT_TRUE(accepted->readable());
  EXPECT_EQ(read(*accepted).error, ECONNRESET);
}

// Both come as one event, in which libevent hides the RST.
TEST_F(TcpStreamTest, AResetBehindBytesIsNotMissed) {
  write(*dialled, "first");
  await_bytes(*accepted);
  ASSERT_FALSE(accepted->readable());
  write(*dialled, "last");
  reset(dialled);
  until([&] { return accepted->readable(); });
  EXPECT_EQ(read(*accepted).bytes, "last");
  until([&] { return accepted->readable(); });
  EXPECT_EQ(read_error(*accepted), ECONNRESET);
}

// A write consumes the error of the socket; the reads must report it nevertheless.
TEST_F(TcpStreamTest, LastWordsCanBeReadAfterAFailedWrite) {
  write(*dialled, "last words");
  until([&] { return accepted->readable(); });
  reset(dialled);
  write_until_error();
  EXPECT_EQ(read(*accepted).bytes, "last words");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_error(*accepted), ECONNRESET);
}

TEST_F(TcpStreamTest, AFinBeforeAResetIsRead) {
  say_and_end("bye");
  reset(dialled);
  write_until_error();
  EXPECT_TRUE(accepted->fin_arrived());
  EXPECT_EQ(read(*accepted).bytes, "bye");
  EXPECT_EQ(read(*accepted).kind, Kind::kEnd);
}

// Both at once: the error of the kernel tells of the FIN.
TEST_F(TcpStreamTest, AFinThatComesWithTheResetIsRead) {
  write(*dialled, "bye");
  const int fd = dialled->descriptor();
  ASSERT_EQ(::shutdown(fd, SHUT_WR), 0);
  pollfd arrived{accepted->descriptor(), POLLRDHUP, 0};
  ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
  dialled->reset_on_close();
  lose(*dialled);
  until([&] { return accepted->hung_up(); });
  EXPECT_EQ(accepted->take_error(), EPIPE);
  EXPECT_TRUE(accepted->fin_arrived());
  EXPECT_EQ(read(*accepted).kind, Kind::kBytes);
  EXPECT_EQ(read(*accepted).kind, Kind::kEnd);
}

TEST_F(TcpStreamTest, AnotherErrorBehindAFinHidesNoEnd) {
  say_and_end("bye");
  accepted->note_error(ETIMEDOUT);
  EXPECT_EQ(read(*accepted).kind, Kind::kBytes);
  EXPECT_EQ(read(*accepted).kind, Kind::kEnd);
}

TEST_F(TcpStreamTest, AResetIsNoFin) {
  write(*dialled, "half");
  reset(dialled);
  until([&] { return accepted->hung_up(); });
  EXPECT_FALSE(accepted->fin_arrived());
}

int buffer_of(int fd, int which) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, which, &bytes, &length), 0);
  return bytes;
}

TEST_F(TcpStreamTest, TheKernelGetsTheChoiceOfBuffersBack) {
  const FileDescriptor bounded(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bound_memory(bounded.get(), 4096);
  ASSERT_LT(buffer_of(bounded.get(), SO_RCVBUF), buffer_of(fresh.get(), SO_RCVBUF));
  if (!leave_memory_to_kernel(bounded.get())) GTEST_SKIP() << "the kernel lacks SO_BUF_LOCK";
  for (const int which : {SO_RCVBUF, SO_SNDBUF})
    EXPECT_EQ(buffer_of(bounded.get(), which), buffer_of(fresh.get(), which));
  EXPECT_EQ(buffer_of(bounded.get(), SO_BUF_LOCK), 0);
}

TEST_F(TcpStreamTest, KnowsWhatTheOtherHostHasNotAcknowledged) {
  EXPECT_EQ(dialled->unsent(Stream::Until::kAcknowledged), 0U);
  write(*dialled, "x");
  until([&] { return accepted->readable(); });
  until([&] { return dialled->unsent(Stream::Until::kAcknowledged) == 0; });
  dialled->shutdown_write();
  EXPECT_EQ(dialled->unsent(Stream::Until::kAcknowledged),
            1U);  // the FIN, which waits for the turn
  until([&] { return accepted->hung_up(); });
  until([&] { return dialled->unsent(Stream::Until::kAcknowledged) == 0; });
}

TEST_F(TcpStreamTest, KnowsWhatHasNotLeftTheHost) {
  EXPECT_EQ(dialled->unsent(Stream::Until::kSent), 0U);
  fill(*dialled);
  EXPECT_GT(dialled->unsent(Stream::Until::kSent), 0U);
}

TEST_F(TcpStreamTest, AnUrgentByteComesAloneAndInItsPlace) {
  struct Case {
    std::string before, behind;
    bool fin;
  };
  for (const std::size_t limit : {std::size_t{1}, std::size_t{2}, std::size_t{4096}}) {
    for (const Case& one : {Case{"", "", false}, Case{"", "", true}, Case{"ab", "", false},
                            Case{"ab", "", true}, Case{"", "cd", false}, Case{"ab", "cd", true}}) {
      SocketPair pair;
      write(*pair.dialled, one.before);
      ASSERT_EQ(pair.dialled->write_urgent(std::byte{'!'}).count, 1U);
      write(*pair.dialled, one.behind);
      if (one.fin) pair.dialled->shutdown_write();
      const std::string expected = one.before + "*!" + one.behind + (one.fin ? "$" : "");
      EXPECT_EQ(pair.await_marked(*pair.accepted, expected.size(), limit), expected) << limit;
    }
  }
}

TEST_F(TcpStreamTest, UrgentBytesOneAfterTheOtherAreUrgentEach) {
  for (int i = 0; i < 200; ++i) {
    Stream& from = i % 2 == 0 ? *dialled : *accepted;
    Stream& to = i % 2 == 0 ? *accepted : *dialled;
    ASSERT_EQ(from.write_urgent(std::byte{'!'}).count, 1U);
    ASSERT_EQ(await_marked(to, 1), "*!");
    write(from, "ordinary");
    ASSERT_EQ(await_marked(to, 8), "ordinary");
  }
}

TEST_F(TcpStreamTest, OfSeveralUrgentBytesOnlyTheLastIsUrgent) {
  dialled->write_urgent(std::byte{'1'});
  write(*dialled, "-");
  dialled->write_urgent(std::byte{'2'});
  dialled->shutdown_write();
  until([&] { return accepted->hung_up(); });
  EXPECT_EQ(read_marked(*accepted), "1-*2$");
}

// A speculative read while the byte arrives must not return it as an ordinary one.
TEST_F(TcpStreamTest, AnUrgentByteIsNotMissedByAReadThatNoEventCalledFor) {
  std::thread writer([fd = dialled->descriptor()] {
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
    accepted->assume_readable();
    const IoResult result = read(*accepted);
    if (result.kind != Kind::kBytes) continue;
    ++(result.urgent ? urgent : ordinary);
    write(*accepted, "a");
  }
  writer.join();
  EXPECT_EQ(urgent, 2000);
  EXPECT_EQ(ordinary, 0);
}

// The kernel sends SIGURG before the socket has the urgent byte. Here the read follows after the
// signal was handled and the byte has arrived.
TEST_F(TcpStreamTest, ASignalAheadOfItsUrgentByteVoidsTheRead) {
  std::string buffer(16, ' ');
  const iovec piece{buffer.data(), buffer.size()};
  const int fd = accepted->descriptor();
  const MarkedRead marked({&piece, 1});
  ASSERT_EQ(::raise(SIGURG), 0);
  write(*dialled, "!");
  pollfd there{fd, POLLIN, 0};
  ASSERT_EQ(::poll(&there, 1, 60'000), 1);
  EXPECT_EQ(::readv(fd, marked.pieces().data(), static_cast<int>(marked.pieces().size())), 0);
}

TEST_F(TcpStreamTest, AVoidReadIsNotTheEndOfTheStream) {
  write(*dialled, "ab");
  dialled->write_urgent(std::byte{'!'});
  dialled->shutdown_write();
  until([&] { return accepted->hung_up(); });
  std::atomic<bool> done = false;
  std::thread signals([&, reader = ::pthread_self()] {
    while (!done) ::pthread_kill(reader, SIGURG);
  });
  const std::string all = read_marked(*accepted, 1);
  done = true;
  signals.join();
  EXPECT_EQ(all, "ab*!$");
}

// An urgent byte that is announced behind a full receive buffer, before the stream owns the socket.
TEST_F(TcpStreamTest, AnUrgentByteThatWasAnnouncedBeforeTheStreamIsUrgent) {
  const FileDescriptor listening = std::move(*TcpStream::make_socket(AF_INET));
  bound_memory(listening.get(), 4096);
  const SocketAddress address = bind_any_port(listening.get());
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  const FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), address.data(), address.size()), 0);
  FileDescriptor taken(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  ASSERT_TRUE(taken);
  // More than the receiver takes, less than reaches the urgent pointer's range.
  const std::string before(32 * 1024, 'x');
  ASSERT_EQ(::send(client.get(), before.data(), before.size(), 0),
            static_cast<ssize_t>(before.size()));
  ASSERT_EQ(::send(client.get(), "!", 1, MSG_OOB), 1);
  // Out of band, the kernel reports an announced urgent byte.
  char byte = 0;
  const TimePoint limit = EventLoop::now() + std::chrono::seconds(60);
  do ASSERT_EQ(::recv(taken.get(), &byte, 1, MSG_OOB | MSG_PEEK), -1);
  while (errno != EAGAIN && EventLoop::now() < limit);
  ASSERT_EQ(errno, EAGAIN);
  const auto stream = std::move(*TcpStream::adopt(*loop, std::move(taken), {}));
  EXPECT_EQ(await_marked(*stream, before.size() + 1).substr(before.size()), "*!");
}

TEST_F(TcpStreamTest, AStreamMayDieWhileItsEventWaits) {
  write(*dialled, "one");
  write(*accepted, "two");
  await_bytes(*accepted);
  await_bytes(*dialled);
  accepted.reset();
  until([&] { return dialled->hung_up(); });
  EXPECT_EQ(read(*dialled).kind, Kind::kEnd);
}

TEST_F(TcpStreamTest, AParkedStreamGoesOnWhereItWas) {
  write(*dialled, "before");
  until([&] { return accepted->readable(); });
  ParkedStream parked = park(*accepted);
  accepted.reset();
  write(*dialled, "meanwhile");
  dialled->shutdown_write();
  const auto resumed = resume(std::move(parked));
  EXPECT_EQ(resumed->peer_address(), dialled->local_address());
  const Read all = await_end(*resumed);
  EXPECT_EQ(all.kind, Kind::kEnd);
  EXPECT_EQ(all.bytes, "beforemeanwhile");
  write(*resumed, "answer");
  EXPECT_EQ(await_bytes(*dialled), "answer");
}

TEST_F(TcpStreamTest, AnErrorThatWasToldIsParkedToo) {
  reset(dialled);
  until([&] { return accepted->hung_up() && accepted->take_error() != 0; });
  const auto resumed = resume(park(*accepted));
  EXPECT_EQ(resumed->take_error(), ECONNRESET);
  EXPECT_EQ(read(*resumed).kind, Kind::kError);
}

TEST_F(TcpStreamTest, ItsEndIsSentWithTheNextTurnOfTheLoop) {
  dialled->shutdown_write();
  EXPECT_EQ(tcp_info_of(*dialled).tcpi_state, TCP_ESTABLISHED);
  loop->poll();
  EXPECT_NE(tcp_info_of(*dialled).tcpi_state, TCP_ESTABLISHED);
  until([&] { return accepted->hung_up(); });
}

TEST_F(TcpStreamTest, MayDieBeforeItsEndIsSent) {
  dialled->shutdown_write();
  accepted->shutdown_write();
  dialled.reset();
  until([&] { return accepted->hung_up(); });
  EXPECT_EQ(read(*accepted).kind, Kind::kEnd);
}

TEST_F(TcpStreamTest, AnAcceptedStreamDoesNotDelayNorADialledOneFromItsFirstLargeWrite) {
  EXPECT_TRUE(no_delay(*accepted));
  write(*dialled, std::string(kSmallWriteBytes + 1, 'x'));
  EXPECT_TRUE(no_delay(*dialled));
}

TEST_F(TcpStreamTest, ADialledStreamDoesNotDelayAWriteBehindAnother) {
  write(*dialled, "one");
  EXPECT_FALSE(no_delay(*dialled));
  write(*dialled, "two");
  EXPECT_TRUE(no_delay(*dialled));
}

TEST_F(TcpStreamTest, ADialledStreamMayAnswerOnceWithoutACall) {
  for (const bool expected : {false, false, true}) {
    write(*dialled, "said");
    EXPECT_EQ(no_delay(*dialled), expected);
    write(*accepted, "answered");
    await_bytes(*dialled);
  }
}

TEST_F(TcpStreamTest, AnUrgentByteBehindTheLastReadIsToldWithItsEvent) {
  write(*dialled, "one");
  until([&] { return accepted->readable(); });
  // Comes before the read, and behind what its event told of.
  ASSERT_EQ(dialled->write_urgent(std::byte{'!'}).kind, Kind::kBytes);
  EXPECT_EQ(await_bytes(*accepted), "one");
  EXPECT_EQ(await_marked(*accepted, 1), "*!");
}

TEST_F(TcpStreamTest, AFullSocketIsNotWritableUntilThePeerReads) {
  fill(*dialled);
  drain_until_writable(*dialled);
}

// What a stream's handler hears.
struct Notified final : StreamHandler {
  void handle_ready(Stream&) override { ++times; }
  int times = 0;
};

class FreshStream : public TcpStreamTest {
 protected:
  FreshStream() {
    stream = dial(listener->address());
    stream->set_handler(&notified);
  }
  void await_accepted() {
    accepted.reset();
    until([&] { return accepted != nullptr; });
  }
  Notified notified;
  std::unique_ptr<Stream> stream;
};

TEST_F(FreshStream, AWriteThatIsTakenProvesTheConnectionWithoutAnEvent) {
  stream->presume_connected();
  EXPECT_FALSE(stream->connected());
  EXPECT_EQ(write(*stream, "first"), 5U);
  EXPECT_TRUE(stream->connected());
  await_accepted();
  EXPECT_EQ(notified.times, 0);
  EXPECT_EQ(await_bytes(*accepted), "first");
  write(*accepted, "answer");
  EXPECT_EQ(await_bytes(*stream), "answer");
}

TEST_F(FreshStream, AFullSocketIsWatchedForRoomFromItsBeginning) {
  stream->presume_connected();
  fill(*stream, 1 << 20);
  EXPECT_TRUE(stream->connected());
  await_accepted();
  drain_until_writable(*stream);
}

TEST_F(FreshStream, AnEventTellsWhereNothingIsWritten) {
  stream->presume_connected();
  until([&] { return stream->connected(); });
  EXPECT_EQ(notified.times, 1);
}

TEST_F(FreshStream, ItsEndWaitsForTheConnection) {
  stream->shutdown_write();
  await_accepted();
  until([&] { return accepted->hung_up(); });
  EXPECT_EQ(read(*accepted).kind, Kind::kEnd);
  EXPECT_EQ(stream->take_error(), 0);
}

class RefusedStream : public TcpStreamTest {
 protected:
  RefusedStream() {
    const SocketAddress address = bind_any_port(closed.get());
    FileDescriptor socket = std::move(*TcpStream::make_socket(AF_INET));
    stream = TcpStream::connect(*loop, std::move(socket), address);
  }
  // It never listens, and nobody else gets its port.
  FileDescriptor closed = std::move(*TcpStream::make_socket(AF_INET));
  Result<std::unique_ptr<Stream>> stream = Error{Errc::kSystem, "not dialled"};
};

TEST_F(RefusedStream, TellsAlsoAWriteItsError) {
  ASSERT_TRUE(stream);
  (*stream)->presume_connected();
  EXPECT_EQ(write(**stream, "first"), 0U);
  EXPECT_FALSE((*stream)->connected());
  EXPECT_EQ((*stream)->take_error(), ECONNREFUSED);
}

TEST_F(RefusedStream, TellsItsError) {
  if (!stream) {
    EXPECT_EQ(stream.error().system, ECONNREFUSED);
    return;
  }
  until([&] { return (*stream)->connected(); });
  EXPECT_EQ((*stream)->take_error(), ECONNREFUSED);
}

// Of a parked stream: what the process that has it last does.

TEST_F(TcpStreamTest, AParkedOneIsResetWhereNobodyResumesIt) {
  write(*dialled, "half of it");
  { const ParkedStream parked = park(*dialled); }
  dialled.reset();
  const Read last = await_end(*accepted, true);
  EXPECT_EQ(last.kind, Kind::kError);
  EXPECT_EQ(last.error, ECONNRESET);
}

TEST_F(TcpStreamTest, AParkedOneEndsInOrderOnceItIsResumed) {
  ParkedStream parked = park(*dialled);
  dialled.reset();
  write(*resume(std::move(parked)), "all");
  const Read last = await_end(*accepted, true);
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.bytes, "all");
}

TEST_F(TcpStreamTest, AParkedOneRemembersTheErrorThatWasSeen) {
  dialled->note_error(ECONNRESET);
  ParkedStream parked = park(*dialled);
  EXPECT_EQ(parked.error, ECONNRESET);
  const auto resumed = resume(std::move(parked));
  EXPECT_TRUE(resumed->readable());
  EXPECT_EQ(resumed->take_error(), ECONNRESET);
}

// What the other end sees of a connection whose process dies: the descriptor is closed behind the
// back of its stream, as the kernel does.
class LostStream : public TcpStreamTest {
 protected:
  int error_at_the_end(Stream& stream) {
    until([&] { return stream.hung_up(); });
    return read(stream).kind == Kind::kEnd ? 0 : stream.take_error();
  }
};

TEST_F(LostStream, Ends) {
  lose(*accepted);
  EXPECT_EQ(error_at_the_end(*dialled), 0);
}

class ResetIfLost : public LostStream {
 protected:
  ResetIfLost() {
    accepted->reset_if_lost();
    dialled->reset_if_lost();
  }
};

TEST_F(ResetIfLost, WhenAccepted) {
  lose(*accepted);
  EXPECT_EQ(error_at_the_end(*dialled), ECONNRESET);
}

TEST_F(ResetIfLost, WhenDialled) {
  lose(*dialled);
  EXPECT_EQ(error_at_the_end(*accepted), ECONNRESET);
}

TEST_F(ResetIfLost, WhenResumed) {
  const auto resumed = resume(park(*accepted));
  lose(*resumed);
  EXPECT_EQ(error_at_the_end(*dialled), ECONNRESET);
}

// What came before its own end is still delivered, by the kernel.
TEST_F(TcpStreamTest, AnEndThatIsSentOutlivesTheProcess) {
  for (const bool asked_before : {true, false}) {
    SocketPair pair;
    if (asked_before) pair.accepted->reset_if_lost();
    const std::size_t written = fill(*pair.accepted);
    pair.accepted->shutdown_write();
    pair.loop->poll();
    if (!asked_before) pair.accepted->reset_if_lost();
    lose(*pair.accepted);
    const Read all = pair.await_end(*pair.dialled);
    EXPECT_EQ(all.kind, Kind::kEnd);
    EXPECT_EQ(all.bytes.size(), written);
  }
}

TEST_F(ResetIfLost, ButNotWhenItIsEnded) {
  write(*accepted, "all");
  accepted.reset();
  until([&] { return dialled->hung_up(); });
  EXPECT_EQ(read(*dialled).bytes, "all");
  EXPECT_EQ(read(*dialled).kind, Kind::kEnd);
  EXPECT_EQ(dialled->take_error(), 0);
}

TEST_F(ResetIfLost, AndWhenThatIsAskedFor) {
  reset(accepted);
  EXPECT_EQ(error_at_the_end(*dialled), ECONNRESET);
}

// Closing ours neither ends the connection nor takes it out of epoll then.
class CopiedStream : public TcpStreamTest {
 protected:
  CopiedStream() {
    ParkedStream parked = park(*accepted);
    kept.reset(::dup(parked.socket.get()));
    resumed = resume(std::move(parked));
  }
  FileDescriptor kept;
  std::unique_ptr<Stream> resumed;
};

TEST_F(CopiedStream, EndsAtOnce) {
  resumed.reset();
  until([&] { return dialled->hung_up(); });
  EXPECT_EQ(read(*dialled).kind, Kind::kEnd);
}

TEST_F(CopiedStream, IsResetAtOnce) {
  reset(resumed);
  until([&] { return dialled->take_error() != 0; });
  EXPECT_EQ(dialled->take_error(), ECONNRESET);
}

TEST_F(CopiedStream, TellsNobodyOfWhatComesAfterItsDeath) {
  resumed.reset();
  until([&] { return dialled->hung_up(); });
  const std::uint64_t dispatched = loop->dispatch_count();
  write(*dialled, "for nobody");
  pollfd arrived{kept.get(), POLLHUP, 0};
  ASSERT_EQ(::poll(&arrived, 1, 10'000), 1);
  dialled.reset();
  loop->poll();
  EXPECT_EQ(loop->dispatch_count(), dispatched);
}

}  // namespace
}  // namespace fairlead::event
