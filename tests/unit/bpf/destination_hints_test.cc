// Goal: the programs do as the sidecar has told of a destination, and connect(2) of an application
// succeeds or fails as the sidecar's dial has. Method: redirect_fixture.h.
#include "bpf/destination_hints.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cstddef>
#include <filesystem>
#include <iterator>

#include "redirect_fixture.h"

namespace fairlead::bpf {
namespace {

DestinationHints open_direct() {
  const AsSidecar sidecar;
  auto opened = DestinationHints::open();
  EXPECT_TRUE(opened) << to_string(opened.error());
  return std::move(*opened);
}

// Nobody listens at these destinations of the other namespace; the sidecar accepts.
constexpr const char* kClosedPorts[] = {"10.9.0.1:80", "[::ffff:10.9.0.1]:90", "[fd09::1]:80"};

TEST_F(RedirectProgramsTest, WhatTheSidecarLeavesAloneIsReachedDirectly) {
  attach();
  DestinationHints direct = open_direct();
  for (const char* where : kClosedPorts) {
    SCOPED_TRACE(where);
    const SocketAddress to = address(where).unmapped();
    EXPECT_EQ(connect_to(tcp_socket(where), where), 0);
    {
      const AsSidecar sidecar;
      EXPECT_TRUE(direct.leave_alone(to, FAIRLEAD_REDIRECT_LEVELS));
    }
    EXPECT_EQ(connect_to(tcp_socket(where), where), ECONNREFUSED);
    const std::string other = to_string(address(where).with_port(81));
    EXPECT_EQ(connect_to(tcp_socket(other), other), 0) << "another port";
    {
      const AsSidecar sidecar;
      EXPECT_TRUE(direct.forget(to));
    }
    EXPECT_EQ(connect_to(tcp_socket(where), where), 0);
  }
  const AsSidecar sidecar;
  EXPECT_EQ(direct.direct_connections().value_or(0), std::size(kClosedPorts));
}

TEST_F(RedirectProgramsTest, WhatIsLeftAloneIsRedirectedAgainAfterAWhile) {
  attach();
  DestinationHints direct = open_direct();
  {
    const AsSidecar sidecar;
    EXPECT_TRUE(direct.leave_alone(address("10.9.0.1:80"), 1));
  }
  const auto began = std::chrono::steady_clock::now();
  int result = ECONNREFUSED;
  while (result == ECONNREFUSED && std::chrono::steady_clock::now() < began + kStuck)
    result = connect_to(tcp_socket("10.9.0.1:80"), "10.9.0.1:80");
  EXPECT_EQ(result, 0);
  EXPECT_GE(std::chrono::steady_clock::now() - began,
            direct_lifetime(1) - std::chrono::milliseconds(100));
}

TEST_F(RedirectProgramsTest, AnotherSidecarBeginsAnew) {
  attach();
  DestinationHints direct = open_direct();
  {
    const AsSidecar sidecar;
    EXPECT_TRUE(direct.leave_alone(address("10.9.0.1:80"), FAIRLEAD_REDIRECT_LEVELS));
  }
  EXPECT_EQ(connect_to(tcp_socket("10.9.0.1:80"), "10.9.0.1:80"), ECONNREFUSED);
  const DestinationHints next = open_direct();
  EXPECT_EQ(connect_to(tcp_socket("10.9.0.1:80"), "10.9.0.1:80"), 0);
}

TEST_F(RedirectProgramsTest, OnlyTheSidecarDecidesWhatIsLeftAlone) {
  attach();
  DestinationHints direct = open_direct();
  EXPECT_FALSE(DestinationHints::open()) << "this process has another uid now";
  EXPECT_FALSE(direct.leave_alone(address("10.9.0.1:80"), 1));
  EXPECT_EQ(connect_to(tcp_socket("10.9.0.1:80"), "10.9.0.1:80"), 0);
}

TEST_F(RedirectProgramsTest, MoreThanTheMapTakesIsRedirected) {
  attach();
  DestinationHints direct = open_direct();
  {
    const AsSidecar sidecar;
    for (unsigned i = 0; i < 3 * FAIRLEAD_REDIRECT_TOLD_MAX; ++i)
      EXPECT_TRUE(direct.leave_alone(address("10.9.0.1:" + std::to_string(1000 + i)),
                                     FAIRLEAD_REDIRECT_LEVELS));
  }
  EXPECT_LE(entries_of("told"), FAIRLEAD_REDIRECT_TOLD_MAX);
  EXPECT_EQ(connect_to(tcp_socket("10.9.0.1:1000"), "10.9.0.1:1000"), 0) << "the first";
  const std::string last = "10.9.0.1:" + std::to_string(999 + 3 * FAIRLEAD_REDIRECT_TOLD_MAX);
  EXPECT_EQ(connect_to(tcp_socket(last), last), ECONNREFUSED);
}

// As a cluster network translates addresses of services: a program at connect(2) of a cgroup above,
// attached as long as the object lives.
class ServiceTranslation {
 public:
  ServiceTranslation(const std::string& cgroup, const SocketAddress& service,
                     const SocketAddress& backend)
      : cgroup_(::open(cgroup.c_str(), O_RDONLY | O_CLOEXEC)) {
    const bpf_insn program[] = {
        {BPF_LDX | BPF_W | BPF_MEM, 2, 1, offsetof(bpf_sock_addr, user_ip4), 0},
        {BPF_ALU | BPF_MOV | BPF_K, 3, 0, 0, word_of(service)},
        {BPF_JMP | BPF_JNE | BPF_X, 2, 3, 2, 0},
        {BPF_ALU | BPF_MOV | BPF_K, 2, 0, 0, word_of(backend)},
        {BPF_STX | BPF_W | BPF_MEM, 1, 2, offsetof(bpf_sock_addr, user_ip4), 0},
        {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1},
        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
    bpf_prog_load_opts options{};
    options.sz = sizeof options;
    options.expected_attach_type = BPF_CGROUP_INET4_CONNECT;
    program_ = FileDescriptor(bpf_prog_load(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, "services", "GPL",
                                            program, std::size(program), &options));
    EXPECT_TRUE(program_) << std::strerror(errno);
    EXPECT_EQ(
        bpf_prog_attach(program_.get(), cgroup_.get(), BPF_CGROUP_INET4_CONNECT, BPF_F_ALLOW_MULTI),
        0)
        << std::strerror(errno);
  }
  ~ServiceTranslation() {
    EXPECT_EQ(bpf_prog_detach2(program_.get(), cgroup_.get(), BPF_CGROUP_INET4_CONNECT), 0);
  }

 private:
  static std::int32_t word_of(const SocketAddress& address) {
    std::int32_t word = 0;
    std::memcpy(&word, address.bytes().data(), sizeof word);
    return word;
  }
  FileDescriptor cgroup_, program_;
};

TEST_F(RedirectProgramsTest, AddressesOfServicesAreTranslatedForTheSidecar) {
  attach();
  const std::string service = "10.96.0.1:80";
  const ServiceTranslation others(std::filesystem::path(cgroup_.path()).parent_path(),
                                  address(service), address("10.9.0.1:80"));
  const FileDescriptor application = tcp_socket(service);
  ASSERT_EQ(connect_to(application, service), 0);
  EXPECT_EQ(peer_of(application), service);
  EXPECT_EQ(local_of(accept_on(outbound_)), "[::ffff:10.96.0.1]:80");
  const AsSidecar sidecar;
  EXPECT_EQ(connect_to(tcp_socket(service), service), ECONNREFUSED) << "by the backend";
}

class HeldConnections : public RedirectProgramsTest {
 protected:
  void SetUp() override {
    RedirectProgramsTest::SetUp();
    if (IsSkipped()) return;
    outbound_ = listen_on("[::]:15001", nullptr, false, 64, Holds::kYes);
    attach();
  }
  // An application's connect(2) that has begun.
  static FileDescriptor begin(const std::string& where) {
    FileDescriptor made(
        ::socket(address(where).family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(connect_to(made, where), EINPROGRESS) << where;
    return made;
  }
  // What becomes of it, as the application sees it; EINPROGRESS while it waits.
  static int result_of(const FileDescriptor& application, std::chrono::milliseconds wait) {
    pollfd waiting{application.get(), POLLOUT, 0};
    if (::poll(&waiting, 1, static_cast<int>(wait.count())) == 0) return EINPROGRESS;
    int error = 0;
    socklen_t length = sizeof error;
    EXPECT_EQ(::getsockopt(application.get(), SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
  }
  static void reset(FileDescriptor socket) {
    const linger now{1, 0};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  }
  static constexpr std::chrono::milliseconds kAMoment{50};
};

TEST_F(HeldConnections, WaitUntilTheSidecarAnswers) {
  for (const Destination& one : kDestinations) {
    SCOPED_TRACE(one.to);
    const FileDescriptor application = begin(one.to);
    const FileDescriptor sidecar = accept_on(outbound_);
    EXPECT_TRUE(is_held(sidecar.get()));
    EXPECT_EQ(local_of(sidecar), one.seen_by_sidecar);
    EXPECT_EQ(result_of(application, kAMoment), EINPROGRESS);
    EXPECT_FALSE(handshake_over(sidecar.get()));
    answer_held(sidecar.get());
    EXPECT_FALSE(is_held(sidecar.get()));
    ASSERT_EQ(result_of(application, kStuck), 0);
    EXPECT_EQ(peer_of(application), one.to);
    int retries = 0;
    socklen_t length = sizeof retries;
    EXPECT_EQ(::getsockopt(application.get(), IPPROTO_TCP, TCP_SYNCNT, &retries, &length), 0);
    EXPECT_EQ(retries, 6) << "as a new socket has it";
    ASSERT_EQ(::send(application.get(), "x", 1, 0), 1);
    char byte = 0;
    EXPECT_EQ(::recv(sidecar.get(), &byte, 1, 0), 1);
    ASSERT_EQ(::send(sidecar.get(), "y", 1, 0), 1);
    EXPECT_EQ(result_of(application, kStuck), 0);
    pollfd answer{application.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&answer, 1, static_cast<int>(kStuck.count() * 1000)), 1);
    EXPECT_EQ(::recv(application.get(), &byte, 1, 0), 1);
  }
}

TEST_F(HeldConnections, FailAsTheDialHas) {
  struct Row {
    int of_the_dial;
    int of_the_application;
  };
  for (const Destination& one : kDestinations) {
    for (const Row& row :
         {Row{ECONNREFUSED, ECONNREFUSED}, Row{EHOSTUNREACH, EHOSTUNREACH},
          Row{ENETUNREACH, ENETUNREACH}, Row{EACCES, EHOSTUNREACH}, Row{EPROTO, ECONNREFUSED}}) {
      SCOPED_TRACE(std::string(one.to) + " " + std::strerror(row.of_the_dial));
      const FileDescriptor application = begin(one.to);
      FileDescriptor sidecar = accept_on(outbound_);
      refuse_held(sidecar.get(), row.of_the_dial);
      EXPECT_EQ(result_of(application, kAMoment), EINPROGRESS) << "before the reset";
      reset(std::move(sidecar));
      EXPECT_EQ(result_of(application, kStuck), row.of_the_application);
    }
  }
}

TEST_F(HeldConnections, ComeAgainAfterASilentDial) {
  const FileDescriptor application = begin("10.99.0.9:6379");
  for (const int error : {ETIMEDOUT, EMFILE, EADDRNOTAVAIL}) {
    FileDescriptor sidecar = accept_on(outbound_);
    EXPECT_TRUE(is_held(sidecar.get()));
    refuse_held(sidecar.get(), error);
    reset(std::move(sidecar));
  }
  const FileDescriptor sidecar = accept_on(outbound_);
  EXPECT_EQ(local_of(sidecar), "[::ffff:10.99.0.9]:6379");
  answer_held(sidecar.get());
  EXPECT_EQ(result_of(application, kStuck), 0);
}

TEST_F(HeldConnections, FailWithTheSidecar) {
  const FileDescriptor application = begin("10.99.0.9:6379");
  FileDescriptor sidecar = accept_on(outbound_);
  outbound_.reset();
  reset(std::move(sidecar));
  EXPECT_EQ(result_of(application, kStuck), ECONNREFUSED);
}

TEST_F(HeldConnections, TakeTheDataOfAnApplicationThatAsksForFastOpenItself) {
  const std::string where = "10.99.0.9:6379";
  const SocketAddress to = address(where);
  for (int i = 0; i < 2; ++i) {  // the first one gets a cookie, if the sidecar's kernel gives any
    const FileDescriptor application(
        ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const ssize_t sent = ::sendto(application.get(), "x", 1, MSG_FASTOPEN, to.data(), to.size());
    EXPECT_TRUE(sent == 1 || errno == EINPROGRESS) << std::strerror(errno);
    const FileDescriptor sidecar = accept_on(outbound_);
    EXPECT_EQ(local_of(sidecar), "[::ffff:10.99.0.9]:6379");
    EXPECT_TRUE(is_held(sidecar.get()));
    answer_held(sidecar.get());
    ASSERT_EQ(result_of(application, kStuck), 0);
    const ssize_t sent_later = sent == 1 ? 1 : ::send(application.get(), "x", 1, 0);
    EXPECT_EQ(sent_later, 1);
    char byte = 0;
    EXPECT_EQ(::recv(sidecar.get(), &byte, 1, 0), 1);
    EXPECT_EQ(byte, 'x');
  }
}

TEST_F(HeldConnections, AreNotThoseToADestinationThatHasAnswered) {
  DestinationHints hints = open_direct();
  const std::string where = "10.99.0.9:6379";
  {
    const AsSidecar sidecar;
    EXPECT_TRUE(hints.answers(address(where)));
  }
  EXPECT_EQ(connect_to(tcp_socket(where), where), 0) << "before it is accepted";
  EXPECT_FALSE(is_held(accept_on(outbound_).get()));
  {
    const AsSidecar sidecar;
    EXPECT_TRUE(hints.forget(address(where)));
  }
  const FileDescriptor application = begin(where);
  EXPECT_TRUE(is_held(accept_on(outbound_).get()));
}

TEST_F(HeldConnections, OfAnApplicationThatGivesUpEnd) {
  FileDescriptor sidecar;
  {
    const FileDescriptor application = begin("10.99.0.9:6379");
    sidecar = accept_on(outbound_);
  }
  answer_held(sidecar.get());
  pollfd end{sidecar.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, static_cast<int>(kStuck.count() * 1000)), 1);
  char byte = 0;
  EXPECT_EQ(::recv(sidecar.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_TRUE(handshake_over(sidecar.get()));
}

TEST_F(HeldConnections, AreConnectedAtOnceWhereTheKernelCannotHoldThem) {
  TwoNamespaces::run("sysctl -q net.ipv4.tcp_fastopen=1");
  const std::string where = "10.99.0.9:6379";
  EXPECT_EQ(connect_to(tcp_socket(where), where), 0);
  EXPECT_FALSE(is_held(accept_on(outbound_).get()));
}

}  // namespace
}  // namespace fairlead::bpf
