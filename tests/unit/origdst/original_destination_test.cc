// Goal: a listener learns the original destination of a connection. Method: each test has its own
// network namespace, which ends with its thread. In it all foreign addresses are routed to the
// loopback device, and nft rules redirect port 80 and TPROXY port 81 to the listener.
#include "event/origdst/original_destination.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "base/linux/handle.h"

namespace fairlead::event {
namespace {

constexpr const char* kRoutes = R"(
  set -e
  ip link set lo up
  ip route add 10.0.0.0/8 dev lo
  ip -6 route add fd00::/8 dev lo
)";

// nft accepts the same rules for both families.
constexpr const char* kRedirect = R"(
  set -e
  nft -f - <<RULES
  table inet leads_here {
    chain output {
      type nat hook output priority -100
      tcp dport 80 redirect to :4540
    }
  }
RULES
)";

// TPROXY works on incoming packets only, so the host's own packets are marked and routed in again.
constexpr const char* kTproxy = R"(
  set -e
  for family in -4 -6; do
    ip $family rule add fwmark 1 lookup 100
    ip $family route add local default dev lo table 100
  done
  nft -f - <<RULES
  table inet leads_here {
    chain output {
      type route hook output priority -150
      tcp dport 81 meta mark set 1
    }
    chain prerouting {
      type filter hook prerouting priority -150
      meta mark 1 meta l4proto tcp tproxy to :4541 accept
    }
  }
RULES
)";

SocketAddress address(std::string_view text) {
  auto parsed = SocketAddress::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(SocketAddress());
}

// The output of a failed shell script, or nothing if it succeeded.
std::string failure_of(const char* script) {
  std::string command = "exec 2>&1\n" + std::string(script);
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no shell";
  std::string output;
  char chunk[256];
  while (std::fgets(chunk, sizeof chunk, pipe) != nullptr) output += chunk;
  int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return output.empty() ? "script failed" : output;
}

// True for a program that is not installed, or a packet filter that the kernel lacks.
bool is_lack_of_means(const std::string& failure) {
  for (const char* lack : {": not found", "Operation not supported", "No such file or directory"})
    if (failure.find(lack) != std::string::npos) return true;
  return false;
}

// Runs the body with these rules, or skips the test with the reason.
void behind(std::initializer_list<const char*> scripts, const std::function<void()>& body) {
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "network namespaces: " << strerror(errno);
    for (const char* script : scripts) {
      std::string failure = failure_of(script);
      if (is_lack_of_means(failure)) GTEST_SKIP() << failure;
      ASSERT_EQ(failure, "");
    }
    body();
  }).join();
}

enum class Stack { kOne, kDual };

FileDescriptor listen_on(const SocketAddress& bound, Stack stack = Stack::kOne,
                         bool transparent = false) {
  FileDescriptor listener(socket(bound.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1, only = stack == Stack::kOne;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bound.is_v6()) {
    EXPECT_EQ(setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only), 0);
  }
  if (transparent) {
    EXPECT_TRUE(allow_foreign_addresses(listener.get()));
  }
  EXPECT_EQ(bind(listener.get(), bound.data(), bound.size()), 0) << strerror(errno);
  EXPECT_EQ(listen(listener.get(), 4), 0);
  return listener;
}

struct Connection {
  FileDescriptor client, accepted;
};

Connection connect_to(const SocketAddress& target, const FileDescriptor& listener) {
  Connection pair;
  pair.client.reset(socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  // A lost SYN must not delay the test until the kernel's timeout.
  timeval patience{5, 0};
  setsockopt(pair.client.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  setsockopt(listener.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  EXPECT_EQ(connect(pair.client.get(), target.data(), target.size()), 0)
      << to_string(target) << ": " << strerror(errno);
  pair.accepted.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(pair.accepted) << strerror(errno);
  return pair;
}

void expect_destination(const Result<OriginalDestination>& got, std::string_view want,
                        bool redirected) {
  ASSERT_TRUE(got) << to_string(got.error());
  EXPECT_EQ(to_string(got->address), want);
  EXPECT_EQ(got->redirected, redirected) << want;
}

Result<OriginalDestination> destination_of(const Connection& pair) {
  const int fd = pair.accepted.get();
  bool translated = false;
  const auto first = redirect_destination(fd, *peer_address(fd), 4540, translated);
  const auto second = redirect_destination(fd, *peer_address(fd), 4540, translated);
  EXPECT_TRUE(first && second && *first == *second) << "asked again";
  return first;
}

TEST(RedirectDestination, IsWhatTheClientDialled) {
  behind({kRoutes, kRedirect}, [] {
    for (auto [bound, dialled] :
         {std::pair("0.0.0.0:4540", "10.1.2.3:80"), std::pair("127.0.0.1:4540", "10.1.2.4:80"),
          std::pair("[::]:4540", "[fd00::5]:80"), std::pair("[::1]:4540", "[fd00::6]:80")}) {
      FileDescriptor listener = listen_on(address(bound));
      Connection pair = connect_to(address(dialled), listener);
      expect_destination(destination_of(pair), dialled, true);
    }
  });
}

TEST(RedirectDestination, IsIpv4ForMappedConnectionsOfADualStackListener) {
  behind({kRoutes, kRedirect}, [] {
    FileDescriptor listener = listen_on(address("[::]:4540"), Stack::kDual);
    for (const char* dialled : {"10.1.2.3:80", "[fd00::5]:80"}) {
      Connection pair = connect_to(address(dialled), listener);
      expect_destination(destination_of(pair), dialled, true);
      auto local = local_address(pair.accepted.get());
      ASSERT_TRUE(local);
      EXPECT_EQ(local->family(), address(dialled).family());
      EXPECT_EQ(local->port(), 4540);
    }
  });
}

TEST(RedirectDestination, OfAConnectionMadeToTheListenerIsTheListener) {
  behind({kRoutes, kRedirect}, [] {
    FileDescriptor listener = listen_on(address("[::]:4540"), Stack::kDual);
    for (const char* dialled : {"127.0.0.1:4540", "[::1]:4540"}) {
      Connection pair = connect_to(address(dialled), listener);
      expect_destination(destination_of(pair), dialled, false);
    }
  });
}

TEST(RedirectDestination, WithoutAnyRuleIsTheListener) {
  behind({kRoutes}, [] {
    for (const char* dialled : {"127.0.0.1:4540", "[::1]:4540"}) {
      FileDescriptor listener = listen_on(address(dialled));
      Connection pair = connect_to(address(dialled), listener);
      expect_destination(destination_of(pair), dialled, false);
    }
  });
}

TEST(TproxyDestination, IsTheLocalAddressOfTheAcceptedSocket) {
  behind({kRoutes, kTproxy}, [] {
    for (auto [bound, dialled] :
         {std::pair("0.0.0.0:4541", "10.1.2.3:81"), std::pair("[::]:4541", "[fd00::5]:81")}) {
      FileDescriptor listener = listen_on(address(bound), Stack::kOne, true);
      Connection pair = connect_to(address(dialled), listener);
      expect_destination(tproxy_destination(pair.accepted.get(), address(bound)), dialled, true);
    }
  });
}

TEST(TproxyDestination, IsIpv4ForMappedConnectionsOfADualStackListener) {
  behind({kRoutes, kTproxy}, [] {
    FileDescriptor listener = listen_on(address("[::]:4541"), Stack::kDual, true);
    Connection pair = connect_to(address("10.1.2.3:81"), listener);
    expect_destination(tproxy_destination(pair.accepted.get(), address("[::]:4541")), "10.1.2.3:81",
                       true);
  });
}

TEST(TproxyDestination, OfAConnectionMadeToTheListenerIsTheListener) {
  FileDescriptor listener = listen_on(address("127.0.0.1:0"));
  SocketAddress bound = local_address(listener.get()).value_or(SocketAddress());
  Connection pair = connect_to(bound, listener);
  for (const SocketAddress& as : {bound, SocketAddress().with_port(bound.port()),
                                  address("[::ffff:127.0.0.1]:0").with_port(bound.port()),
                                  address("[::]:0").with_port(bound.port())})
    expect_destination(tproxy_destination(pair.accepted.get(), as), to_string(bound), false);
  expect_destination(tproxy_destination(pair.accepted.get(), address("127.0.0.2:1")),
                     to_string(bound), true);
}

TEST(SocketAddresses, OfBothEndsMatch) {
  FileDescriptor listener = listen_on(address("127.0.0.1:0"));
  SocketAddress bound = local_address(listener.get()).value_or(SocketAddress());
  Connection pair = connect_to(bound, listener);
  auto ours = peer_address(pair.accepted.get()), theirs = local_address(pair.client.get());
  ASSERT_TRUE(ours && theirs);
  EXPECT_EQ(*ours, *theirs);
  auto unconnected = peer_address(listener.get());
  ASSERT_FALSE(unconnected);
  EXPECT_EQ(unconnected.error().system, ENOTCONN);
}

TEST(OriginalDestinations, OfBadDescriptorsAreErrors) {
  for (bool translated : {false, true})
    EXPECT_FALSE(redirect_destination(-1, address("127.0.0.1:1"), 4540, translated));
  EXPECT_FALSE(tproxy_destination(-1, SocketAddress()));
  EXPECT_FALSE(allow_foreign_addresses(-1));
  EXPECT_FALSE(local_address(-1));
  EXPECT_FALSE(peer_address(-1));
}

}  // namespace
}  // namespace fairlead::event
