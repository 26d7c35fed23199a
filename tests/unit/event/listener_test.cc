#include "event/listener.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "event/socket_buffers.h"
#include "socket_pair.h"

namespace fairlead::event {
namespace {

TEST(Listener, TellsThePortThatTheKernelChose) {
  SocketPair pair;
  EXPECT_NE(pair.listener->address().port(), 0);
}

TEST(Listener, TwoMayShareOneAddress) {
  SocketPair pair;
  EXPECT_TRUE(Listener::open(*pair.loop, pair.timers, pair.listener->address(), {}));
}

TEST(Listener, RefusesAnAddressThatIsNotOurs) {
  SocketPair pair;
  const auto listener =
      Listener::open(*pair.loop, pair.timers, *SocketAddress::parse("192.0.2.1:80"), {});
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().system, EADDRNOTAVAIL);
}

TEST(Listener, TellsIpv4AddressesOfADualStackSocketAsIpv4) {
  SocketPair pair;
  std::unique_ptr<Stream> accepted;
  ListenerHandlers handlers;
  handlers.accepted = [&](std::unique_ptr<Stream> stream) { accepted = std::move(stream); };
  auto listener =
      Listener::open(*pair.loop, pair.timers, *SocketAddress::parse("[::]:0"), handlers);
  if (!listener) GTEST_SKIP() << "no IPv6: " << to_string(listener.error());
  const SocketAddress server =
      SocketAddress::parse("127.0.0.1:0")->with_port((*listener)->address().port());
  auto client = std::move(
      *TcpStream::connect(*pair.loop, std::move(*TcpStream::make_socket(AF_INET)), server));
  pair.until([&] { return accepted != nullptr; });
  EXPECT_EQ(to_string(accepted->peer_address()), to_string(client->local_address()));
  EXPECT_EQ(to_string(accepted->local_address()), to_string(server));
}

TEST(Listener, AcceptedSocketsInheritABoundOnMemory) {
  SocketPair pair;
  constexpr int kBytes = 16 * 1024;
  std::unique_ptr<Stream> accepted;
  ListenerHandlers handlers;
  handlers.accepted = [&](std::unique_ptr<Stream> stream) { accepted = std::move(stream); };
  handlers.before_listen = [](int fd) -> Result<void> {
    bound_memory(fd, kBytes);
    return {};
  };
  auto listener = std::move(
      *Listener::open(*pair.loop, pair.timers, *SocketAddress::parse("127.0.0.1:0"), handlers));
  auto stream = std::move(*TcpStream::connect(
      *pair.loop, std::move(*TcpStream::make_socket(AF_INET)), listener->address()));
  pair.until([&] { return accepted != nullptr; });
  for (const int buffer : {SO_RCVBUF, SO_SNDBUF}) {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    ASSERT_EQ(::getsockopt(accepted->descriptor(), SOL_SOCKET, buffer, &bytes, &length), 0);
    EXPECT_EQ(bytes, 2 * kBytes) << buffer;  // the kernel counts its own overhead: socket(7)
  }
}

// Goal: exhausted descriptors cause a pause, but no lost connection and no busy loop. Method: lower
// the limit to the open ones, connect, and raise it again. Checks between accepted connections are
// rare; none may remain in the backlog.
TEST(Listener, AcceptsEachConnectionOfABurst) {
  SocketPair pair;
  constexpr std::size_t kBurst = 5 * kAcceptsPerLook + 3;
  std::vector<std::unique_ptr<Stream>> accepted;
  ListenerHandlers handlers;
  handlers.accepted = [&](std::unique_ptr<Stream> stream) {
    accepted.push_back(std::move(stream));
  };
  auto listener = std::move(
      *Listener::open(*pair.loop, pair.timers, *SocketAddress::parse("127.0.0.1:0"), handlers));
  std::vector<std::unique_ptr<Stream>> clients;
  for (std::size_t i = 0; i < kBurst; ++i)
    clients.push_back(std::move(*TcpStream::connect(
        *pair.loop, std::move(*TcpStream::make_socket(AF_INET)), listener->address())));
  pair.until([&] { return accepted.size() == kBurst; });
  // One event is enough for a listener that is replaced by another.
  for (std::size_t i = 0; i < 3; ++i)
    clients.push_back(std::move(*TcpStream::connect(
        *pair.loop, std::move(*TcpStream::make_socket(AF_INET)), listener->address())));
  listener->accept_rest();
  EXPECT_EQ(accepted.size(), kBurst + 3);
}

TEST(Listener, WaitsWhenDescriptorsRunOutAndGoesOnAfterwards) {
  SocketPair pair;
  int failed = 0;
  std::unique_ptr<Stream> accepted;
  ListenerHandlers handlers;
  handlers.accepted = [&](std::unique_ptr<Stream> stream) { accepted = std::move(stream); };
  handlers.failed = [&](int error) {
    EXPECT_EQ(error, EMFILE);
    ++failed;
  };
  auto listener = std::move(
      *Listener::open(*pair.loop, pair.timers, *SocketAddress::parse("127.0.0.1:0"), handlers));
  FileDescriptor socket = std::move(*TcpStream::make_socket(AF_INET));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = static_cast<rlim_t>(socket.get()) + 1;
  auto stream = std::move(*TcpStream::connect(*pair.loop, std::move(socket), listener->address()));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  pair.until([&] { return failed != 0; });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(failed, 1);
  EXPECT_FALSE(accepted);
  pair.until([&] {
    pair.timers.run(EventLoop::now());
    return accepted != nullptr;
  });
}

TEST(Listener, WhoComesWhileItIsParkedIsAcceptedByTheNext) {
  SocketPair pair;
  std::unique_ptr<Stream> accepted;
  FileDescriptor socket = pair.listener->park();
  const SocketAddress address = pair.listener->address();
  pair.listener.reset();
  auto client = std::move(
      *TcpStream::connect(*pair.loop, std::move(*TcpStream::make_socket(AF_INET)), address));
  pair.until([&] { return client->connected(); });
  ListenerHandlers handlers;
  handlers.accepted = [&](std::unique_ptr<Stream> stream) { accepted = std::move(stream); };
  auto next = Listener::adopt(*pair.loop, pair.timers, std::move(socket), handlers);
  ASSERT_TRUE(next);
  EXPECT_EQ((*next)->address(), address);
  pair.until([&] { return accepted != nullptr; });
  EXPECT_EQ(accepted->peer_address(), client->local_address());
}

// The copy of one that was shut down, for example.
TEST(Listener, AdoptsNoSocketThatDoesNotListen) {
  auto loop = EventLoop::create().value();
  TimerQueue timers;
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto adopted = Listener::adopt(*loop, timers, std::move(socket), {});
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().code, Errc::kWrongState);
}

}  // namespace
}  // namespace fairlead::event
