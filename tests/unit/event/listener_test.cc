#include "event/listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "descriptor_limit.h"
#include "event/socket_buffers.h"
#include "socket_pair.h"

namespace fairlead::event {
namespace {

class ListenerTest : public testing::Test, protected SocketPair {
 protected:
  ListenerTest() {
    handlers.accepted = [this](std::unique_ptr<Stream> stream) {
      taken.push_back(std::move(stream));
    };
  }
  Result<std::unique_ptr<Listener>> open(const char* address) {
    return Listener::open(*loop, timers, *SocketAddress::parse(address), handlers);
  }
  std::unique_ptr<Listener> open() { return std::move(open("127.0.0.1:0").value()); }
  Stream& await_taken() {
    until([&] { return !taken.empty(); });
    return *taken.front();
  }

  ListenerHandlers handlers;
  std::vector<std::unique_ptr<Stream>> taken;
};

TEST_F(ListenerTest, TellsThePortThatTheKernelChoseAndMayShareIt) {
  EXPECT_NE(listener->address().port(), 0);
  EXPECT_TRUE(Listener::open(*loop, timers, listener->address(), {}));
}

TEST_F(ListenerTest, RefusesAnAddressThatIsNotOurs) {
  const auto refused = open("192.0.2.1:80");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().system, EADDRNOTAVAIL);
}

TEST_F(ListenerTest, TellsIpv4AddressesOfADualStackSocketAsIpv4) {
  const auto dual = open("[::]:0");
  if (!dual) GTEST_SKIP() << "no IPv6: " << to_string(dual.error());
  const SocketAddress server =
      SocketAddress::parse("127.0.0.1:0")->with_port((*dual)->address().port());
  const auto client = dial(server);
  const Stream& arrived = await_taken();
  EXPECT_EQ(to_string(arrived.peer_address()), to_string(client->local_address()));
  EXPECT_EQ(to_string(arrived.local_address()), to_string(server));
}

TEST_F(ListenerTest, AcceptedSocketsInheritABoundOnMemory) {
  constexpr int kBytes = 16 * 1024;
  handlers.before_listen = [](int fd) -> Result<void> {
    bound_memory(fd, kBytes);
    return {};
  };
  const auto bounded = open();
  const auto client = dial(bounded->address());
  const Stream& arrived = await_taken();
  for (const int buffer : {SO_RCVBUF, SO_SNDBUF}) {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    ASSERT_EQ(::getsockopt(arrived.descriptor(), SOL_SOCKET, buffer, &bytes, &length), 0);
    EXPECT_EQ(bytes, 2 * kBytes) << buffer;  // the kernel counts its own overhead: socket(7)
  }
}

TEST_F(ListenerTest, AcceptsEachConnectionOfABurst) {
  constexpr std::size_t kBurst = 5 * kAcceptsPerLook + 3;
  const auto busy = open();
  std::vector<std::unique_ptr<Stream>> clients;
  for (std::size_t i = 0; i < kBurst; ++i) clients.push_back(dial(busy->address()));
  until([&] { return taken.size() == kBurst; });
  // One event is enough for a listener that is replaced by another.
  for (std::size_t i = 0; i < 3; ++i) clients.push_back(dial(busy->address()));
  busy->accept_rest();
  EXPECT_EQ(taken.size(), kBurst + 3);
}

// Goal: exhausted descriptors cause a pause, but no lost connection and no busy loop. Method: lower
// the limit to the open ones, connect, and raise it again. Checks between accepted connections are
// rare; none may remain in the backlog.
TEST_F(ListenerTest, WaitsWhenDescriptorsRunOutAndGoesOnAfterwards) {
  int failed = 0;
  handlers.failed = [&](int error) {
    EXPECT_EQ(error, EMFILE);
    ++failed;
  };
  const auto short_of = open();
  FileDescriptor socket = std::move(*TcpStream::make_socket(AF_INET));
  const auto few = static_cast<rlim_t>(socket.get()) + 1;
  const auto stream = std::move(*TcpStream::connect(*loop, std::move(socket), short_of->address()));
  {
    const rdma::shm::DescriptorLimit lowered(few);
    until([&] { return failed != 0; });
  }
  EXPECT_EQ(failed, 1);
  EXPECT_TRUE(taken.empty());
  until([&] {
    timers.run(EventLoop::now());
    return !taken.empty();
  });
}

TEST_F(ListenerTest, WhoComesWhileItIsParkedIsAcceptedByTheNext) {
  FileDescriptor socket = listener->park();
  const SocketAddress address = listener->address();
  listener.reset();
  const auto client = dial(address);
  until([&] { return client->connected(); });
  const auto next = Listener::adopt(*loop, timers, std::move(socket), handlers);
  ASSERT_TRUE(next);
  EXPECT_EQ((*next)->address(), address);
  EXPECT_EQ(await_taken().peer_address(), client->local_address());
}

// The copy of one that was shut down, for example.
TEST_F(ListenerTest, AdoptsNoSocketThatDoesNotListen) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto adopted = Listener::adopt(*loop, timers, std::move(socket), {});
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().code, Errc::kWrongState);
}

}  // namespace
}  // namespace fairlead::event
