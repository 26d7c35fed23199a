// Goal: connections of a pod reach its sidecar with their original destination, those that the
// rules leave out never do, and a port without a listener refuses. Method: redirect_fixture.h.
#include "bpf/redirect_programs.h"

#include <signal.h>

#include <cstdio>
#include <thread>

#include "bpf/client_address_program.h"
#include "redirect_fixture.h"

namespace fairlead::bpf {
namespace {

TEST_F(RedirectProgramsTest, BothEndsKnowTheOriginalDestination) {
  attach();
  for (const Destination& one : kDestinations) {
    SCOPED_TRACE(one.to);
    const FileDescriptor application = tcp_socket(one.to);
    ASSERT_EQ(connect_to(application, one.to), 0);
    const FileDescriptor sidecar = accept_on(outbound_);
    EXPECT_EQ(local_of(sidecar), one.seen_by_sidecar);
    EXPECT_EQ(peer_of(application), one.to);
    EXPECT_TRUE(local_of(application).starts_with(one.own_address)) << local_of(application);
    EXPECT_EQ(peer_of(sidecar).substr(peer_of(sidecar).rfind(':')),
              local_of(application).substr(local_of(application).rfind(':')));
  }
}

TEST_F(RedirectProgramsTest, AListenerOfOneFamilyKnowsThemToo) {
  outbound_ = listen_on("0.0.0.0:15001");
  attach();
  const FileDescriptor application = tcp_socket("10.99.0.9:6379");
  ASSERT_EQ(connect_to(application, "10.99.0.9:6379"), 0);
  EXPECT_EQ(local_of(accept_on(outbound_)), "10.99.0.9:6379");
}

TEST_F(RedirectProgramsTest, AnApplicationThatHasClosedLeavesItsDestination) {
  attach();
  {
    const FileDescriptor application = tcp_socket("10.99.0.9:6379");
    ASSERT_EQ(connect_to(application, "10.99.0.9:6379"), 0);
    ASSERT_EQ(::send(application.get(), "x", 1, 0), 1);
  }
  EXPECT_EQ(local_of(accept_on(outbound_)), "[::ffff:10.99.0.9]:6379");
}

TEST_F(RedirectProgramsTest, TheListenerForApplicationsIsOnLoopbackOnly) {
  attach();
  for (const char* where : {"10.9.0.2:15001", "[fd09::2]:15001"}) {
    EXPECT_EQ(connect_to(tcp_socket(where), where), ECONNREFUSED) << where;
    EXPECT_EQ(connect_to(namespaces_.client_socket(address(where).family()), where), ECONNREFUSED)
        << where << ", from the network";
  }
}

TEST_F(RedirectProgramsTest, WhatTheRulesLeaveOutIsLeftAlone) {
  rules_.skip_outbound = {{9000, 9002}};
  rules_.skip = {cidr("10.9.0.128/25")};
  attach();
  // The other namespace refuses, or the route prohibits; the sidecar would accept.
  struct Row {
    const char* why;
    const char* to;
    int expected;
  };
  for (const Row& row : {Row{"a port of the list", "10.9.0.1:9002", ECONNREFUSED},
                         Row{"a port of the list, mapped", "[::ffff:10.9.0.1]:9000", ECONNREFUSED},
                         Row{"a block of the list", "10.9.0.129:80", EACCES},
                         Row{"no included block", "192.0.2.1:80", EACCES},
                         Row{"the pod itself", "10.9.0.2:80", ECONNREFUSED},
                         Row{"the pod itself, IPv6", "[fd09::2]:80", ECONNREFUSED},
                         Row{"loopback", "127.0.0.1:80", ECONNREFUSED},
                         Row{"loopback, IPv6", "[::1]:80", ECONNREFUSED},
                         Row{"any address", "0.0.0.0:80", ECONNREFUSED}}) {
    SCOPED_TRACE(row.why);
    const FileDescriptor application = tcp_socket(row.to);
    EXPECT_EQ(connect_to(application, row.to), row.expected);
  }
  const FileDescriptor bound = tcp_socket("10.9.0.1:80");
  ASSERT_EQ(::setsockopt(bound.get(), SOL_SOCKET, SO_BINDTODEVICE, "eth0", 4), 0);
  EXPECT_EQ(connect_to(bound, "10.9.0.1:80"), ECONNREFUSED);
  const AsSidecar sidecar;
  EXPECT_EQ(connect_to(tcp_socket("10.9.0.1:80"), "10.9.0.1:80"), ECONNREFUSED);
}

TEST_F(RedirectProgramsTest, ASocketThatIsConnectedAgainForgetsItsFirstDestination) {
  rules_.skip_outbound = {{9000, 9000}};
  attach();
  outbound_.reset();
  const FileDescriptor application = tcp_socket("10.99.0.9:80");
  EXPECT_EQ(connect_to(application, "10.99.0.9:80"), ECONNREFUSED) << "no sidecar yet";
  const FileDescriptor server = listen_on("10.9.0.2:9000");
  ASSERT_EQ(connect_to(application, "10.9.0.2:9000"), 0);
  EXPECT_EQ(peer_of(application), "10.9.0.2:9000");
}

TEST_F(RedirectProgramsTest, APodWithOneFamilyRedirectsOnlyThat) {
  rules_.addresses = {address("[fd09::2]:0")};
  rules_.skip = {cidr("10.9.0.1/32")};
  attach();
  EXPECT_EQ(connect_to(tcp_socket("10.9.0.1:80"), "10.9.0.1:80"), ECONNREFUSED);
  EXPECT_EQ(connect_to(tcp_socket("[fd99::9]:80"), "[fd99::9]:80"), 0);
}

TEST_F(RedirectProgramsTest, ASynWithTheOptionReachesTheSidecarWhereSomebodyListens) {
  rules_.skip_inbound = {{9100, 9100}};
  rules_.include_inbound = {{9200, 9200}};
  attach();
  listen_for_peers();
  struct Row {
    std::uint16_t port;
    bool smc;
    bool to_sidecar;
  };
  for (const char* pod : {"10.9.0.2:", "[fd09::2]:"}) {
    for (const Row& row : {Row{8080, true, true}, Row{8080, false, false}, Row{9100, true, false},
                           Row{9200, false, true}, Row{9200, true, true}}) {
      const std::string where = pod + std::to_string(row.port);
      SCOPED_TRACE(where + (row.smc ? " with" : " without") + " the option");
      client(where, row.smc, ECONNREFUSED);
      const FileDescriptor server = listen_on("[::]:" + std::to_string(row.port));
      const FileDescriptor from = client(where, row.smc);
      const FileDescriptor accepted = accept_on(row.to_sidecar ? inbound_ : server);
      EXPECT_TRUE(local_of(accepted).ends_with(":" + std::to_string(row.port)));
      EXPECT_EQ(::send(from.get(), "x", 1, 0), 1);
      char byte = 0;
      EXPECT_EQ(::recv(accepted.get(), &byte, 1, 0), 1);
    }
  }
}

TEST_F(RedirectProgramsTest, ACookieIsTakenBackByWhoGaveIt) {
  TwoNamespaces::run("sysctl -q net.ipv4.tcp_syncookies=2");
  attach();
  listen_for_peers();
  const FileDescriptor server = listen_on("[::]:8080");
  for (const bool smc : {true, false})
    for (const char* where : {"10.9.0.2:8080", "[fd09::2]:8080"}) {
      SCOPED_TRACE(where);
      const FileDescriptor from = client(where, smc);
      EXPECT_TRUE(local_of(accept_on(smc ? inbound_ : server)).ends_with(":8080"));
    }
}

TEST_F(RedirectProgramsTest, APortThatWaitsAfterItsConnectionIsFoundAgain) {
  attach();
  listen_for_peers();
  const FileDescriptor server = listen_on("[::]:8080");
  const auto connect_from = [&](std::uint16_t port) {
    FileDescriptor made = namespaces_.client_socket(AF_INET);
    const int on = 1;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const SocketAddress source = address("10.9.0.1:" + std::to_string(port));
    EXPECT_EQ(::bind(made.get(), source.data(), source.size()), 0) << std::strerror(errno);
    EXPECT_TRUE(option_->request_for_connection(made.get(), false));
    EXPECT_EQ(connect_to(made, "10.9.0.2:8080"), 0);
    return made;
  };
  for (int i = 0; i < 3; ++i) {
    const FileDescriptor from = connect_from(40000);
    FileDescriptor accepted = accept_on(inbound_);
    EXPECT_TRUE(local_of(accepted).ends_with(":8080"));
    accepted.reset();  // closes first, so this side has to wait
    char byte = 0;
    EXPECT_EQ(::recv(from.get(), &byte, 1, 0), 0);
  }
}

// A request has the port of the application; the sidecar has asked for the option of its own port.
TEST_F(RedirectProgramsTest, TheSecondOptionIsAnsweredToo) {
  attach();
  const FileDescriptor server = listen_on("[::]:8080");  // of another user, as it were
  const auto option = OptionProgram::attach_for_uid(cgroup_.path(), 0);
  ASSERT_TRUE(option) << to_string(option.error());
  inbound_ = listen_on("[::]:15006", nullptr, true);
  for (const char* where : {"10.9.0.2:8080", "[fd09::2]:8080"}) {
    const FileDescriptor from = namespaces_.client_socket(address(where).family());
    ask_for_frames(from.get());
    ASSERT_EQ(connect_to(from, where), 0);
    EXPECT_EQ(peer_answered_option(from.get()), Announced::kFramesWithWindows) << where;
    accept_on(inbound_);
  }
}

TEST_F(RedirectProgramsTest, SourcePortsSufficeForEachDestination) {
  attach();
  TwoNamespaces::run("sysctl -qw net.ipv4.ip_local_port_range='40000 40009'");
  std::vector<FileDescriptor> held;
  for (int host = 1; host <= 5; ++host)
    for (int i = 0; i < 10; ++i) {
      const std::string to = "10.99.0." + std::to_string(host) + ":80";
      held.push_back(tcp_socket(to));
      ASSERT_EQ(connect_to(held.back(), to), 0) << to << " " << i;
      held.push_back(accept_on(outbound_));
      ASSERT_EQ(local_of(held.back()), "[::ffff:10.99.0." + std::to_string(host) + "]:80");
    }
}

// All have one source port, and wait at the same time: only one fits into the backlog.
TEST_F(RedirectProgramsTest, ConnectionsOfOneSourcePortKeepTheirDestinations) {
  outbound_ = FileDescriptor();
  outbound_ = listen_on("[::]:15001", nullptr, false, 0);
  attach();
  TwoNamespaces::run("sysctl -qw net.ipv4.ip_local_port_range='40000 40000'");
  std::vector<std::thread> applications;
  for (char host = '1'; host <= '4'; ++host)
    applications.emplace_back([host] {
      const std::string to = std::string("10.99.0.") + host + ":80";
      const FileDescriptor application = tcp_socket(to);
      EXPECT_EQ(connect_to(application, to), 0);
      EXPECT_EQ(::send(application.get(), &host, 1, 0), 1);
      // Linux 6.18 loses the byte of a client that closes while the backlog is full.
      char byte = 0;
      EXPECT_EQ(::recv(application.get(), &byte, 1, 0), 0);
    });
  for (std::size_t i = 0; i < applications.size(); ++i) {
    const FileDescriptor sidecar = accept_on(outbound_);
    char host = 0;
    EXPECT_EQ(::recv(sidecar.get(), &host, 1, 0), 1);
    EXPECT_EQ(local_of(sidecar), std::string("[::ffff:10.99.0.") + host + "]:80");
  }
  for (std::thread& application : applications) application.join();
}

TEST_F(RedirectProgramsTest, AnApplicationSeesTheAddressOfTheLinkOfItsDestination) {
  TwoNamespaces::run("ip addr add 10.5.0.2/24 dev eth0");
  attach();
  for (const auto& [to, own] :
       {std::pair("10.5.0.9:80", "10.5.0.2:"), {"10.99.0.9:80", "10.9.0.2:"}}) {
    const FileDescriptor application = tcp_socket(to);
    ASSERT_EQ(connect_to(application, to), 0);
    EXPECT_TRUE(local_of(application).starts_with(own)) << local_of(application);
    const FileDescriptor sidecar = accept_on(outbound_);
    EXPECT_TRUE(peer_of(sidecar).starts_with("[::ffff:127.0.0.1]:"))
        << peer_of(sidecar) << ": the application has bound no address";
  }
  const FileDescriptor bound = tcp_socket("10.99.0.9:80");
  const SocketAddress source = address("10.5.0.2:0");
  ASSERT_EQ(::bind(bound.get(), source.data(), source.size()), 0);
  ASSERT_EQ(connect_to(bound, "10.99.0.9:80"), 0);
  EXPECT_TRUE(local_of(bound).starts_with("10.5.0.2:")) << local_of(bound);
  EXPECT_TRUE(peer_of(accept_on(outbound_)).starts_with("[::ffff:10.5.0.2]:"));
}

TEST_F(RedirectProgramsTest, SocketsOfOtherNetworkNamespacesAreLeftAlone) {
  if (own_netns_cookie() == 0) GTEST_SKIP() << "a kernel without SO_NETNS_COOKIE (before 5.14)";
  attach();
  const FileDescriptor server = namespaces_.client_socket(AF_INET);
  const SocketAddress there = address("10.9.0.1:8080");
  ASSERT_EQ(::bind(server.get(), there.data(), there.size()), 0);
  ASSERT_EQ(::listen(server.get(), 4), 0);
  const FileDescriptor nested = namespaces_.client_socket(AF_INET);
  EXPECT_EQ(connect_to(nested, "10.9.0.1:8080"), 0);
}

TEST_F(RedirectProgramsTest, AFailedSocketKeepsNoDestination) {
  attach();
  outbound_.reset();
  const FileDescriptor application = tcp_socket("10.99.0.9:80");
  ASSERT_EQ(connect_to(application, "10.99.0.9:80"), ECONNREFUSED);
  EXPECT_EQ(entries_of("connecting"), 0U);
  EXPECT_EQ(entries_of("pending"), 0U);
}

TEST_F(RedirectProgramsTest, APodWithUsersOfItsOwnIsRefused) {
  // The process holds the namespaces until it is killed.
  std::FILE* other =
      ::popen("unshare --user --net --map-root-user sh -c 'echo $$; exec sleep 60'", "r");
  ASSERT_NE(other, nullptr);
  char line[32] = {};
  const bool made = std::fgets(line, sizeof line, other) != nullptr;
  const FileDescriptor home(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  const FileDescriptor netns(::open(
      ("/proc/" + std::to_string(std::atoi(line)) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  Result<RedirectReading> reading;
  if (made && ::setns(netns.get(), CLONE_NEWNET) == 0) {
    reading = attach_redirect_programs(place(), rules_);
    EXPECT_EQ(::setns(home.get(), CLONE_NEWNET), 0);
    ::kill(std::atoi(line), SIGKILL);
  }
  ::pclose(other);
  if (!made) GTEST_SKIP() << "no user namespaces";
  ASSERT_FALSE(reading);
  EXPECT_EQ(reading.error().code, Errc::kUnsupported);
  EXPECT_EQ(read_redirect_programs(place()).value_or(RedirectReading{"?"}), RedirectReading());
}

TEST_F(RedirectProgramsTest, AttachedProgramsAreNamedReplacedAndRemoved) {
  const auto none = read_redirect_programs(place());
  ASSERT_TRUE(none) << to_string(none.error());
  EXPECT_EQ(*none, RedirectReading());
  attach();
  const RedirectReading first = reading_;
  EXPECT_EQ(first.size(), 10U);
  EXPECT_EQ(read_redirect_programs(place()).value_or(RedirectReading()), first);
  attach();
  EXPECT_EQ(reading_.size(), 10U);
  EXPECT_NE(reading_, first);
  TwoNamespaces::run("tc qdisc del dev eth0 clsact");
  EXPECT_EQ(read_redirect_programs(place()).value_or(first).size(), 9U);
  ASSERT_TRUE(detach_redirect_programs(place()));
  EXPECT_EQ(read_redirect_programs(place()).value_or(first), RedirectReading());
  EXPECT_EQ(connect_to(tcp_socket("10.9.0.1:80"), "10.9.0.1:80"), ECONNREFUSED);
}

TEST_F(RedirectProgramsTest, TooManyBlocksAreRefused) {
  for (int i = 0; i <= FAIRLEAD_REDIRECT_BLOCKS_MAX; ++i)
    rules_.include.push_back(
        cidr(("100." + std::to_string(i / 256) + "." + std::to_string(i % 256) + ".0/24").c_str()));
  const auto reading = attach_redirect_programs(place(), rules_);
  ASSERT_FALSE(reading);
  EXPECT_EQ(reading.error().code, Errc::kExhausted);
  EXPECT_EQ(read_redirect_programs(place()).value_or(RedirectReading{"?"}), RedirectReading());
}

}  // namespace
}  // namespace fairlead::bpf
