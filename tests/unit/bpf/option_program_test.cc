// Goal: the option is on the SYN and SYN/ACK of the sockets that asked for it and nowhere else, and
// both sides learn the same. Method: real connections over loopback on the running kernel. Changes
// that would affect the machine (a uid's sockets, sysctls) happen in a thread with its own uid or
// network namespace, both of which Linux keeps per thread. The file is long because it covers every
// combination of sides that request the option.
#include "bpf/option_program.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "base/address.h"
#include "base/linux/handle.h"
#include "bpf/cgroup_path.h"
#include "bpf/smc_option.h"
#include "bpf/tcp_option.h"

namespace fairlead::bpf {
namespace {

constexpr uid_t kStrangeUid = 61234;  // not in use elsewhere
constexpr const char* kLoopback[] = {"127.0.0.1:0", "[::1]:0"};

struct Connection {
  FileDescriptor listener, client, accepted;
};

using Prepare = std::function<void(int fd)>;
void nothing(int) {}

SocketAddress local_address(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length), 0);
  return SocketAddress::from(bound, length).value_or(SocketAddress());
}

// `prepare_listener` runs before listen(2), `prepare_client` before connect(2).
Connection connect_over(const char* loopback, const Prepare& prepare_listener,
                        const Prepare& prepare_client) {
  auto address = SocketAddress::parse(loopback).value_or(SocketAddress());
  Connection pair;
  pair.listener.reset(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  pair.client.reset(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(pair.listener.get(), address.data(), address.size()), 0) << strerror(errno);
  EXPECT_TRUE(save_syn(pair.listener.get()));
  prepare_listener(pair.listener.get());
  EXPECT_EQ(listen(pair.listener.get(), 4), 0) << strerror(errno);
  prepare_client(pair.client.get());
  SocketAddress target = local_address(pair.listener.get());
  EXPECT_EQ(connect(pair.client.get(), target.data(), target.size()), 0) << strerror(errno);
  pair.accepted.reset(accept4(pair.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(pair.accepted);
  return pair;
}

bool syn_carried(const Connection& pair) {
  auto carried = syn_carried_option(pair.accepted.get());
  EXPECT_TRUE(carried) << carried.error().what;
  return carried && *carried != Announced::kNothing;
}

bool answered(const Connection& pair) {
  return peer_answered_option(pair.client.get()) != Announced::kNothing;
}

void expect_bytes_flow(const Connection& pair) {
  for (auto [from, to] : {std::pair(pair.client.get(), pair.accepted.get()),
                          std::pair(pair.accepted.get(), pair.client.get())}) {
    std::array<char, 4096> sent, received;
    sent.fill('s');
    EXPECT_EQ(send(from, sent.data(), sent.size(), 0), static_cast<ssize_t>(sent.size()));
    EXPECT_EQ(recv(to, received.data(), received.size(), MSG_WAITALL),
              static_cast<ssize_t>(received.size()));
    EXPECT_EQ(sent, received);
  }
}

class OptionProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    auto program = OptionProgram::attach();
    if (!program) {
      if (program.error().code == Errc::kPermission || program.error().code == Errc::kUnsupported ||
          program.error().code == Errc::kNotFound)
        GTEST_SKIP() << to_string(program.error()) << "; " << refusal();
      FAIL() << to_string(program.error()) << "; " << refusal();
    }
    program_.emplace(std::move(*program));
  }

  static Prepare requested_of(const OptionProgram& program) {
    return [&program](int fd) {
      auto done = program.request(fd);
      EXPECT_TRUE(done) << to_string(done.error());
    };
  }
  Prepare requested() { return requested_of(*program_); }

  std::optional<OptionProgram> program_;
};

TEST_F(OptionProgramTest, BothSidesLearnThatBothAskedForIt) {
  for (const char* loopback : kLoopback) {
    Connection pair = connect_over(loopback, requested(), requested());
    EXPECT_TRUE(syn_carried(pair)) << loopback;
    EXPECT_TRUE(answered(pair)) << loopback;
    expect_bytes_flow(pair);
  }
}

TEST_F(OptionProgramTest, FramesAreAnnouncedByBothOrNot) {
  const auto with_frames = [&](int fd) {
    ask_for_frames(fd);
    requested()(fd);
  };
  for (const char* loopback : kLoopback)
    for (const bool by_listener : {true, false, true})
      for (const bool by_client : {true, false}) {
        Connection pair = connect_over(loopback, by_listener ? Prepare(with_frames) : requested(),
                                       by_client ? Prepare(with_frames) : requested());
        const auto carried = syn_carried_option(pair.accepted.get());
        ASSERT_TRUE(carried);
        EXPECT_EQ(*carried, by_client ? Announced::kFrames : Announced::kSmc);
        EXPECT_EQ(peer_answered_option(pair.client.get()),
                  by_listener && by_client ? Announced::kFramesWithWindows : Announced::kSmc);
        expect_bytes_flow(pair);
      }
}

void ask_as_an_older_proxy(int fd) {
  const int priority = FAIRLEAD_PRIORITY_FRAMES_WANTED;
  ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority), 0);
}

TEST_F(OptionProgramTest, AnOlderServerAnnouncesFramesWithoutWindows) {
  const auto older = [&](int fd) {
    ask_as_an_older_proxy(fd);
    requested()(fd);
  };
  const auto newer = [&](int fd) {
    ask_for_frames(fd);
    requested()(fd);
  };
  for (const char* loopback : kLoopback)
    for (const Prepare& client : {Prepare(older), Prepare(newer)}) {
      Connection pair = connect_over(loopback, older, client);
      EXPECT_EQ(peer_answered_option(pair.client.get()), Announced::kFrames) << loopback;
    }
}

// It does not know the mark of an answer with windows.
TEST_F(OptionProgramTest, AnOlderClientOfANewerServerHasNoFrames) {
  const auto newer = [&](int fd) {
    ask_for_frames(fd);
    requested()(fd);
  };
  for (const char* loopback : kLoopback) {
    Connection pair = connect_over(loopback, newer, [&](int fd) {
      ask_as_an_older_proxy(fd);
      requested()(fd);
    });
    EXPECT_EQ(peer_answered_option(pair.client.get()), Announced::kSmc) << loopback;
  }
}

TEST_F(OptionProgramTest, AskingForFramesLeavesThePriorityAsItWas) {
  Connection pair = connect_over("127.0.0.1:0", nothing, ask_for_frames);
  EXPECT_FALSE(answered(pair));
  stop_asking_for_frames(pair.listener.get());
  for (int fd : {pair.client.get(), pair.listener.get()}) {
    int priority = -1;
    socklen_t length = sizeof priority;
    ASSERT_EQ(getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, &length), 0);
    EXPECT_EQ(priority, 0);
  }
}

int priority_of(const FileDescriptor& socket) {
  int priority = -1;
  socklen_t length = sizeof priority;
  EXPECT_EQ(getsockopt(socket.get(), SOL_SOCKET, SO_PRIORITY, &priority, &length), 0);
  return priority;
}

TEST_F(OptionProgramTest, AnswerStaysInAPriorityThatMovesNoPacket) {
  constexpr int kBand = 0xf;  // what queueing disciplines make of a priority that is no class
  Connection pair = connect_over("127.0.0.1:0", requested(), requested());
  EXPECT_TRUE(answered(pair));
  EXPECT_TRUE(answered(pair));
  EXPECT_EQ(priority_of(pair.client) & kBand, 0);
  EXPECT_EQ(priority_of(pair.accepted), 0);
}

TEST_F(OptionProgramTest, AConnectionRequestsItsOptionsByItsPriority) {
  const auto with_frames = [&](int fd) {
    ask_for_frames(fd);
    requested()(fd);
  };
  // Of several programs in one cgroup, only the one that is asked acts.
  auto other = OptionProgram::attach();
  ASSERT_TRUE(other) << to_string(other.error());
  for (const char* loopback : kLoopback)
    for (const OptionProgram* asked : {&*program_, &*other})
      for (const bool frames : {true, false}) {
        Connection pair = connect_over(loopback, with_frames, [&](int fd) {
          EXPECT_TRUE(asked->request_for_connection(fd, frames));
        });
        const auto carried = syn_carried_option(pair.accepted.get());
        ASSERT_TRUE(carried);
        EXPECT_EQ(*carried, frames ? Announced::kFrames : Announced::kSmc);
        EXPECT_EQ(peer_answered_option(pair.client.get()),
                  frames ? Announced::kFramesWithWindows : Announced::kSmc);
        EXPECT_EQ(priority_of(pair.client) & 0xf, 0);
        expect_bytes_flow(pair);
      }
}

TEST_F(OptionProgramTest, ARequestThatNobodyAnswersMovesNoPacket) {
  Connection pair = connect_over("127.0.0.1:0", nothing, [&](int fd) {
    EXPECT_TRUE(program_->request_for_connection(fd, true));
  });
  EXPECT_FALSE(answered(pair));
  EXPECT_EQ(priority_of(pair.client) & 0xf, 0);
}

TEST_F(OptionProgramTest, SavedSynIsReadOnce) {
  Connection pair = connect_over("127.0.0.1:0", requested(), requested());
  EXPECT_TRUE(syn_carried(pair));
  EXPECT_FALSE(syn_carried(pair));
}

TEST_F(OptionProgramTest, PlainListenerDoesNotAnswer) {
  for (const char* loopback : kLoopback) {
    Connection pair = connect_over(loopback, nothing, requested());
    EXPECT_TRUE(syn_carried(pair)) << loopback;
    EXPECT_FALSE(answered(pair)) << loopback;
    expect_bytes_flow(pair);
  }
}

TEST_F(OptionProgramTest, PlainClientGetsNoAnswer) {
  for (const char* loopback : kLoopback) {
    Connection pair = connect_over(loopback, requested(), nothing);
    EXPECT_FALSE(syn_carried(pair)) << loopback;
    EXPECT_FALSE(answered(pair)) << loopback;
    expect_bytes_flow(pair);
  }
}

TEST_F(OptionProgramTest, OtherSocketsOfTheProcessAreLeftAlone) {
  Connection ours = connect_over("127.0.0.1:0", requested(), requested());
  Connection other = connect_over("127.0.0.1:0", nothing, nothing);
  EXPECT_FALSE(syn_carried(other));
  EXPECT_FALSE(answered(other));
  EXPECT_TRUE(answered(ours));
}

TEST_F(OptionProgramTest, EveryConnectionOfOneListenerIsAnswered) {
  Connection first = connect_over("127.0.0.1:0", requested(), requested());
  EXPECT_TRUE(answered(first));
  SocketAddress target = local_address(first.listener.get());
  for (bool asks : {false, true, true}) {
    FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (asks) requested()(client.get());
    ASSERT_EQ(connect(client.get(), target.data(), target.size()), 0);
    EXPECT_EQ(peer_answered_option(client.get()) != Announced::kNothing, asks);
  }
}

TEST_F(OptionProgramTest, TwoProgramsShareACgroup) {
  auto second = OptionProgram::attach();
  ASSERT_TRUE(second) << to_string(second.error());
  auto by_both = [&](int fd) {
    requested()(fd);
    requested_of (*second)(fd);
  };
  for (const char* loopback : kLoopback) {
    Connection crossed = connect_over(loopback, requested_of(*second), requested());
    EXPECT_TRUE(syn_carried(crossed));
    EXPECT_TRUE(answered(crossed));
    Connection doubled = connect_over(loopback, by_both, by_both);
    EXPECT_TRUE(syn_carried(doubled));
    EXPECT_TRUE(answered(doubled));
    expect_bytes_flow(doubled);
    Connection one_sided = connect_over(loopback, nothing, by_both);
    EXPECT_TRUE(syn_carried(one_sided));
    EXPECT_FALSE(answered(one_sided));
  }
}

TEST_F(OptionProgramTest, TwoProgramsOfOneSocketTellWhatOneDoes) {
  auto second = OptionProgram::attach();
  ASSERT_TRUE(second) << to_string(second.error());
  const auto with_frames = [&](int fd) {
    ask_for_frames(fd);
    requested()(fd);
  };
  // Of both, as of two that drew the same bits for requests by priority.
  const auto of_both = [&](int fd) {
    with_frames(fd);
    requested_of (*second)(fd);
  };
  // Of one by priority, while the other has the socket as well, as it has all sockets of a uid.
  const auto of_one = [&](const OptionProgram& asked, const OptionProgram& other) {
    return [&](int fd) {
      requested_of(other)(fd);
      EXPECT_TRUE(asked.request_for_connection(fd, true));
    };
  };
  for (const char* loopback : kLoopback)
    for (const Prepare& client : {Prepare(of_both), Prepare(of_one(*program_, *second)),
                                  Prepare(of_one(*second, *program_))})
      for (const bool by_listener : {true, false}) {
        Connection pair =
            connect_over(loopback, by_listener ? Prepare(with_frames) : requested(), client);
        EXPECT_EQ(peer_answered_option(pair.client.get()),
                  by_listener ? Announced::kFramesWithWindows : Announced::kSmc);
      }
}

TEST_F(OptionProgramTest, SynHoldsTheOptionOnceAlthoughTwoProgramsWriteIt) {
  auto second = OptionProgram::attach();
  ASSERT_TRUE(second) << to_string(second.error());
  Connection pair = connect_over("127.0.0.1:0", nothing, [&](int fd) {
    requested()(fd);
    requested_of (*second)(fd);
  });
  std::array<char, 256> syn;
  socklen_t length = syn.size();
  ASSERT_EQ(getsockopt(pair.accepted.get(), IPPROTO_TCP, TCP_SAVED_SYN, syn.data(), &length), 0);
  std::string_view headers(syn.data(), length), option("\xfe\x06\xe2\xd4\xc3\xd9", 6);
  EXPECT_NE(headers.find(option), std::string_view::npos);
  EXPECT_EQ(headers.find(option), headers.rfind(option));
}

TEST_F(OptionProgramTest, NothingIsWrittenAfterItIsDetached) {
  FileDescriptor early(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connection before = connect_over("127.0.0.1:0", requested(), requested());
  requested()(early.get());
  program_.reset();
  SocketAddress target = local_address(before.listener.get());
  ASSERT_EQ(connect(early.get(), target.data(), target.size()), 0);
  EXPECT_EQ(peer_answered_option(early.get()), Announced::kNothing);
  before.accepted.reset(accept4(before.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_FALSE(syn_carried(before));
}

TEST_F(OptionProgramTest, RequestForSomethingOtherThanASocketIsAnError) {
  EXPECT_FALSE(program_->request(-1));
  FileDescriptor file(fileno(std::tmpfile()));
  EXPECT_FALSE(program_->request(file.get()));
}

// Runs in a network namespace that has only a loopback device and ends with the thread.
void in_own_network(const std::function<void()>& body) {
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "network namespaces: " << strerror(errno);
    FileDescriptor control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    ASSERT_EQ(ioctl(control.get(), SIOCSIFFLAGS, &request), 0) << strerror(errno);
    body();
  }).join();
}

TEST_F(OptionProgramTest, ConnectionsFromSynCookiesAreTcpOnBothSides) {
  in_own_network([this] {
    std::FILE* setting = std::fopen("/proc/sys/net/ipv4/tcp_syncookies", "w");
    if (setting == nullptr) GTEST_SKIP() << "tcp_syncookies cannot be set";
    std::fputs("2", setting);  // 2: always
    std::fclose(setting);
    for (const char* loopback : kLoopback) {
      Connection pair = connect_over(loopback, requested(), requested());
      EXPECT_FALSE(syn_carried(pair)) << loopback;
      EXPECT_FALSE(answered(pair)) << loopback;
      expect_bytes_flow(pair);
    }
  });
}

// As a process without any privilege sees it. The kernel's call: that of glibc changes all threads.
void as_strange_uid(const std::function<void()>& body) {
  std::thread([&] {
    if (syscall(SYS_setresuid, kStrangeUid, kStrangeUid, kStrangeUid) != 0)
      GTEST_SKIP() << "another uid: " << strerror(errno);
    body();
  }).join();
}

TEST_F(OptionProgramTest, AttachedForAUidActsOnItsSocketsOnly) {
  auto cgroup = own_cgroup_path();
  ASSERT_TRUE(cgroup);
  auto program = OptionProgram::attach_for_uid(*cgroup, kStrangeUid);
  ASSERT_TRUE(program) << to_string(program.error()) << "; " << refusal();
  as_strange_uid([] {
    for (const char* loopback : kLoopback) {
      Connection pair = connect_over(loopback, nothing, nothing);
      EXPECT_TRUE(syn_carried(pair)) << loopback;
      EXPECT_TRUE(answered(pair)) << loopback;
      expect_bytes_flow(pair);
      const Connection framed = connect_over(loopback, ask_for_frames, ask_for_frames);
      EXPECT_EQ(peer_answered_option(framed.client.get()), Announced::kFramesWithWindows)
          << loopback;
    }
  });
  Connection ours = connect_over("127.0.0.1:0", nothing, nothing);
  EXPECT_FALSE(syn_carried(ours));
  EXPECT_FALSE(answered(ours));
}

TEST_F(OptionProgramTest, ProbeTellsWhetherSomebodyAttachedOneForUs) {
  as_strange_uid([] {
    auto without = probe_external();
    ASSERT_TRUE(without) << to_string(without.error());
    EXPECT_FALSE(*without);
  });
  auto cgroup = own_cgroup_path();
  ASSERT_TRUE(cgroup);
  auto program = OptionProgram::attach_for_uid(*cgroup, kStrangeUid);
  ASSERT_TRUE(program) << to_string(program.error());
  as_strange_uid([] {
    auto with = probe_external();
    ASSERT_TRUE(with) << to_string(with.error());
    EXPECT_TRUE(*with);
  });
  auto ours = probe_external();
  ASSERT_TRUE(ours);
  EXPECT_FALSE(*ours) << "a program attached for a uid acted for another";
}

TEST_F(OptionProgramTest, AttachWithoutCapabilitiesSaysWhichAreNeeded) {
  as_strange_uid([] {
    auto program = OptionProgram::attach();
    ASSERT_FALSE(program);
    EXPECT_EQ(program.error().code, Errc::kPermission);
    EXPECT_NE(std::string_view(program.error().what).find("CAP_BPF"), std::string_view::npos);
    EXPECT_FALSE(refusal().empty());
    EXPECT_EQ(refusal().find('\n'), std::string::npos);
  });
}

TEST_F(OptionProgramTest, AttachWantsACgroupDirectory) {
  auto missing = OptionProgram::attach("/nonexistent");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  auto ordinary = OptionProgram::attach("/tmp");
  ASSERT_FALSE(ordinary);
  EXPECT_EQ(ordinary.error().code, Errc::kUnsupported) << to_string(ordinary.error());
}

TEST(TcpOption, SocketsWithoutProgramHaveNoAnswer) {
  Connection pair = connect_over("127.0.0.1:0", nothing, nothing);
  EXPECT_FALSE(answered(pair));
  EXPECT_FALSE(syn_carried(pair));
}

TEST(TcpOption, OrdinaryPrioritiesAreNoAnswerAndStay) {
  FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int priority = 5;
  ASSERT_EQ(setsockopt(client.get(), SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority), 0);
  EXPECT_EQ(peer_answered_option(client.get()), Announced::kNothing);
  socklen_t length = sizeof priority;
  ASSERT_EQ(getsockopt(client.get(), SOL_SOCKET, SO_PRIORITY, &priority, &length), 0);
  EXPECT_EQ(priority, 5);
}

TEST(TcpOption, BadDescriptorsAreErrors) {
  EXPECT_EQ(peer_answered_option(-1), Announced::kNothing);
  EXPECT_FALSE(save_syn(-1));
  EXPECT_FALSE(syn_carried_option(-1));
}

TEST(TcpOption, ProbeNeedsALoopbackDevice) {
  std::thread([] {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "network namespaces need CAP_SYS_ADMIN";
    auto probed = probe_external(std::chrono::milliseconds(50));
    EXPECT_FALSE(probed) << "the loopback device of a new network namespace is down";
  }).join();
}

}  // namespace
}  // namespace fairlead::bpf
