// Goal: a pod that sends descriptors with its answer does not block the agent, and one that stalls
// is asked last. Method: a thread in a network namespace of its own plays the sidecar and sends
// sockets that linger.
#include "cni/node/pods/sidecar_counts.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <string>
#include <thread>

#include "base/linux/unix_address.h"
#include "cni/node/pods/pod_calls.h"
#include "cni/node/pods/sidecar_answers.h"
#include "lingering_socket.h"

namespace fairlead::cni::node {
namespace {

using Clock = std::chrono::steady_clock;

// Answers one request on the admin socket of a new network namespace.
class PlayedSidecar {
 public:
  PlayedSidecar(std::string answer, FileDescriptor sent)
      : thread_([this, answer = std::move(answer), sent = std::move(sent)]() mutable {
          run(answer, std::move(sent));
        }) {
    ready_ = begun_.get_future().get();
  }
  ~PlayedSidecar() {
    done_.set_value();
    thread_.join();
  }
  bool ready() const { return ready_; }
  const std::string& netns() const { return netns_; }

 private:
  void run(const std::string& answer, FileDescriptor descriptor) {
    netns_ = "/proc/self/task/" + std::to_string(::syscall(SYS_gettid)) + "/ns/net";
    const auto address = UnixAddress::parse("@fairlead-admin");
    const bool moved = ::unshare(CLONE_NEWNET) == 0;
    const FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool listens = moved && ::bind(listener.get(), address->data(), address->size()) == 0 &&
                         ::listen(listener.get(), 4) == 0;
    begun_.set_value(listens);
    if (listens) {
      const FileDescriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      // A socket that is closed with unread bytes is reset, and the agent would not get the answer.
      read_request(accepted.get());
      const int fd = descriptor.get();
      const auto bytes = std::as_bytes(std::span(answer));
      const bool sent = send_with_descriptors(accepted.get(), bytes, std::span(&fd, 1));
      // What the kernel refuses would linger here.
      if (!sent) LingeringSockets::disarm(fd);
      std::printf("the kernel lets a sidecar send descriptors: %s\n", sent ? "yes" : "no");
    }
    done_.get_future().wait();
  }

  static void read_request(int fd) {
    std::string request;
    char chunk[512];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::read(fd, chunk, sizeof chunk);
      if (count <= 0) return;
      request.append(chunk, static_cast<std::size_t>(count));
    }
  }

  std::string netns_;
  std::promise<bool> begun_;
  std::promise<void> done_;
  bool ready_ = false;
  std::thread thread_;
};

TEST(SidecarCounts, DescriptorsInAnAnswerBlockNobody) {
  LingeringSockets sockets;
  const auto begun = Clock::now();
  {
    PodCalls calls;
    PlayedSidecar sidecar("HTTP/1.1 200 OK\r\n\r\n{}", sockets.make());
    if (!sidecar.ready()) GTEST_SKIP() << "no network namespace: " << std::strerror(errno);
    const auto netns = Netns::open(sidecar.netns());
    ASSERT_TRUE(netns);
    const auto ask = [&] {
      return calls.ask("pod", kSidecarCallMax,
                       [path = sidecar.netns(), identity = netns->identity(), user = ::geteuid()] {
                         return ask_sidecar(path, identity, user);
                       });
    };
    // Where the kernel lets descriptors come, the call is left behind, and woken out of its close
    // when somebody asks again.
    while (!ask()) ASSERT_LT(Clock::now() - begun, LingeringSockets::kLinger / 4);
  }
}

TEST(SidecarCounts, AreSumsOfBothDirectionsByTransport) {
  const auto counts = parse_sidecar_counts(
      R"({"total":{"connections":{
          "outbound":{"smcr":{"total":1},"tcp":{"total":20},"short":{"total":300}},
          "inbound":{"smcr":{"total":4},"tcp":{"total":50},"short":{"total":600}},
          "taken_back":11,"taken_back_lost":2,"parked_nanoseconds":84000000},
          "links":{"active":7}}})",
      R"({"fallbacks":[{"reason":"memory","count":8},{"reason":"Not a reason","count":9}]})");
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->smcr, 5U);
  EXPECT_EQ(counts->tcp, 70U);
  EXPECT_EQ(counts->brief, 900U);
  EXPECT_EQ(counts->links, 7U);
  EXPECT_EQ(counts->hand_over.kept, 11U);
  EXPECT_EQ(counts->hand_over.lost, 2U);
  EXPECT_EQ(counts->hand_over.parked_nanoseconds, 84'000'000U);
  EXPECT_EQ(counts->reasons, (std::map<std::string, std::uint64_t>{{"memory", 8}}));
}

using Order = std::vector<std::size_t>;

std::vector<PodFinding> pods(std::initializer_list<std::uint64_t> inodes) {
  std::vector<PodFinding> found;
  for (const std::uint64_t inode : inodes) {
    PodFinding pod;
    pod.identity = {1, inode};
    found.push_back(pod);
  }
  return found;
}

SidecarCounts with_smcr(std::uint64_t count) {
  SidecarCounts counts;
  counts.smcr = count;
  return counts;
}

TEST(SidecarAnswers, AsksThoseThatStallLast) {
  SidecarAnswers answers;
  const auto all = pods({10, 11, 12});
  EXPECT_EQ(answers.order(all), (Order{0, 1, 2}));
  answers.record({1, 10}, std::nullopt);
  answers.record({1, 11}, with_smcr(1));
  answers.record({1, 12}, with_smcr(2));
  EXPECT_EQ(answers.order(all), (Order{1, 2, 0}));
  EXPECT_EQ(answers.order(pods({10, 11, 12, 13})), (Order{3, 1, 2, 0}));  // a new one first
}

TEST(SidecarAnswers, APodThatWasNotAskedKeepsItsLastAnswer) {
  SidecarAnswers answers;
  const auto all = pods({10, 11});
  (void)answers.order(all);
  EXPECT_FALSE(answers.line(all[0]).asked);
  EXPECT_FALSE(answers.line(all[0]).answers);
  answers.record({1, 10}, with_smcr(7));
  (void)answers.order(all);
  const PodLine line = answers.line(all[0]);
  EXPECT_TRUE(line.asked);
  EXPECT_TRUE(line.answers);
  EXPECT_EQ(line.counts.smcr, 7u);
  answers.record({1, 10}, std::nullopt);
  EXPECT_TRUE(answers.line(all[0]).asked);
  EXPECT_FALSE(answers.line(all[0]).answers);
  EXPECT_EQ(answers.line(all[0]).counts.smcr, 0u);
}

TEST(SidecarAnswers, ForgetsPodsThatHaveEnded) {
  SidecarAnswers answers;
  (void)answers.order(pods({10}));
  answers.record({1, 10}, with_smcr(7));
  (void)answers.order(pods({11}));
  answers.record({1, 10}, with_smcr(8));
  const auto again = pods({10});
  (void)answers.order(again);
  EXPECT_FALSE(answers.line(again[0]).asked);
}

}  // namespace
}  // namespace fairlead::cni::node
