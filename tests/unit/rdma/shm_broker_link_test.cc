// The socket of the connector and the connection of the broker: who is taken, what is watched, and
// what is left after a loss.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "descriptor_limit.h"
#include "rdma/shm/connect/shm_broker_connector.h"
#include "rdma/shm/shm_limits.h"
#include "unit/rdma/other_end.h"
#include "unit/rdma/played_broker.h"
#include "unit/rdma/set_of_descriptors.h"
#include "unit/rdma/sleeps.h"

namespace {

// As if the system's table of open files, which a test can hardly fill, were full.
std::atomic<bool> next_accept_finds_no_file{false};

}  // namespace

// Stands in front of that of the C library.
extern "C" int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  if (next_accept_finds_no_file.exchange(false)) {
    errno = ENFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, socket, address, length, flags));
}

namespace fairlead::rdma::shm {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = broker::Message::Kind;
using State = BrokerConnector::State;

constexpr std::chrono::minutes kNeverReached{10};

TEST(ShmBrokerConnectorOpens, AsOftenAsThereAreIndices) {
  std::vector<std::unique_ptr<BrokerConnector>> all;
  for (unsigned i = 0; i <= broker::kSocketIndexMax; ++i) all.push_back(open_connector());
  const PlayedBroker broker(7, broker::kSocketIndexMax);
  EXPECT_EQ(all.back()->poll_registration(), State::kRegistering);
  const auto beyond = BrokerConnector::open(connector_name(), peer_id(1));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Errc::kExhausted);
}

TEST(ShmBrokerConnectorOpens, WhereItMayBindOnly) {
  EXPECT_EQ(BrokerConnector::open("/not/there", peer_id(1)).error().code, Errc::kNotFound);
  EXPECT_EQ(BrokerConnector::open(std::string(200, 'x'), peer_id(1)).error().code,
            Errc::kUnsupported);
  const DescriptorLimit none(0);
  EXPECT_EQ(BrokerConnector::open(connector_name(), peer_id(1)).error().code, Errc::kExhausted);
}

// The broker has shut down its end for reading, so nobody can fill it.
TEST(ShmBrokerSocket, TakesNothing) {
  const auto address = UnixAddress::parse(connector_name() + "-7");
  const FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), address->data(), address->size()), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const PlayedBroker broker(7, 7);
  const FileDescriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int fd = listener.get();
  EXPECT_EQ(broker::send(accepted.get(), {.kind = Kind::kBlank}, std::span(&fd, 1)).error().code,
            Errc::kPeerGone);
  EXPECT_EQ(broker::send(accepted.get(), {.kind = Kind::kRoom}).error().code, Errc::kPeerGone);
}

class ShmBrokerConnectorLink : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(connector_, nullptr);
    ASSERT_TRUE(connector_->set_watcher(&watcher_));
    ASSERT_EQ(watcher_.watched.size(), 1U);
    listener_ = *watcher_.watched.begin();
  }
  void accept() { connector_->handle_readable(listener_); }
  void hear() { connector_->handle_readable(link()); }
  // The connection that is watched, or -1.
  int link() const {
    for (const int fd : watcher_.watched)
      if (fd != listener_) return fd;
    return -1;
  }
  bool listens() const { return watcher_.watched.contains(listener_); }
  void find_no_descriptors() {
    const DescriptorLimit none(0);
    accept();
  }

  SetOfDescriptors watcher_;  // outlives the connector
  std::unique_ptr<BrokerConnector> connector_ = open_connector();
  int listener_ = -1;
};

TEST_F(ShmBrokerConnectorLink, ListenerAndBrokerAreWatchedByTheLatestWatcher) {
  SetOfDescriptors other;
  const PlayedBroker broker;
  EXPECT_STREQ(connector_->error_text(), "no broker has connected yet");
  accept();
  EXPECT_EQ(connector_->state(), State::kRegistering);
  EXPECT_STREQ(connector_->error_text(), "the broker has not answered yet");
  const std::set<int> both = watcher_.watched;
  ASSERT_EQ(both.size(), 2U);
  for (const int fd : both) EXPECT_TRUE(connector_->owns(fd));
  EXPECT_FALSE(connector_->owns(broker.socket.get()));
  ASSERT_TRUE(connector_->set_watcher(&other));
  EXPECT_EQ(watcher_.watched, std::set<int>{});
  EXPECT_EQ(other.watched, both);
  ASSERT_TRUE(connector_->set_watcher(nullptr));
  EXPECT_EQ(other.watched, std::set<int>{});
}

TEST_F(ShmBrokerConnectorLink, IsReadWhenItIsReadable) {
  PlayedBroker broker;
  accept();
  broker.give_ring();
  hear();
  EXPECT_EQ(broker.requests->take()->kind, broker::Request::Kind::kRegister);
  ASSERT_TRUE(broker.say({.kind = Kind::kWelcome, .peer = peer_id(1), .fabric = kFabric}));
  hear();
  EXPECT_EQ(connector_->state(), State::kRegistered);
  EXPECT_STREQ(connector_->error_text(), "");
}

TEST_F(ShmBrokerConnectorLink, OfTheBrokerBeforeIsLeftForThatOfTheNext) {
  PlayedBroker first;
  first.welcome(*connector_);
  ASSERT_EQ(connector_->poll_registration(), State::kRegistered);
  const int before = link();
  PlayedBroker second;
  accept();
  EXPECT_EQ(connector_->state(), State::kRegistering);
  EXPECT_TRUE(is_hung_up(first.socket.get()));
  EXPECT_FALSE(is_hung_up(second.socket.get()));
  EXPECT_EQ(watcher_.watched.size(), 2U);
  EXPECT_NE(link(), before);
  EXPECT_TRUE(connector_->has_events());
  EXPECT_EQ(connector_->next().error().code, Errc::kPeerGone);
  EXPECT_FALSE(connector_->has_events());
  second.welcome(*connector_);
  EXPECT_EQ(connector_->poll_registration(), State::kRegistered);
}

// What has come still counts.
TEST_F(ShmBrokerConnectorLink, ThatIsLostIsReportedAfterWhatHasCome) {
  {
    PlayedBroker broker;
    broker.welcome(*connector_);
    broker.grant(1, peer_id(2));
    ASSERT_EQ(connector_->poll_registration(), State::kRegistered);
    EXPECT_TRUE(connector_->has_events());
  }
  hear();
  EXPECT_EQ(connector_->state(), State::kDown);
  EXPECT_STREQ(connector_->error_text(), "the broker has gone");
  EXPECT_EQ(watcher_.watched, std::set<int>{listener_});
  EXPECT_TRUE(connector_->next());
  EXPECT_TRUE(connector_->has_events());
  const auto next = connector_->next();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error(), (Error{Errc::kPeerGone, "the broker has gone"}));
  EXPECT_FALSE(connector_->has_events());
  EXPECT_EQ(connector_->next().error().code, Errc::kWouldBlock);
  accept();
  EXPECT_EQ(connector_->state(), State::kDown);
}

TEST_F(ShmBrokerConnectorLink, WithWordsOfAnotherLanguageIsGivenUp) {
  const PlayedBroker broker;
  accept();
  ASSERT_EQ(::send(broker.socket.get(), "?", 1, 0), 1);
  hear();
  EXPECT_EQ(connector_->state(), State::kDown);
  EXPECT_STREQ(connector_->error_text(), "the broker speaks otherwise");
  EXPECT_TRUE(is_hung_up(broker.socket.get()));
}

TEST_F(ShmBrokerConnectorLink, ThatCannotBeWatchedIsGivenUp) {
  PlayedBroker first;
  first.welcome(*connector_);
  ASSERT_EQ(connector_->poll_registration(), State::kRegistered);
  watcher_.full = true;
  const PlayedBroker second;
  accept();
  EXPECT_TRUE(gets_hung_up(second.socket.get()));
  EXPECT_EQ(connector_->state(), State::kRegistered);
  EXPECT_FALSE(is_hung_up(first.socket.get()));
  watcher_.full = false;
  const PlayedBroker third;
  accept();
  EXPECT_EQ(connector_->state(), State::kRegistering);
}

// The listener stays readable until all are taken.
TEST_F(ShmBrokerConnectorLink, IsTheLastOfALimitedNumber) {
  constexpr std::size_t kAtOnce = 4;
  std::vector<PlayedBroker> brokers(kAtOnce + 1);
  accept();
  for (std::size_t i = 0; i < brokers.size(); ++i)
    EXPECT_EQ(is_hung_up(brokers[i].socket.get()), i < kAtOnce - 1) << i;
  accept();
  EXPECT_TRUE(is_hung_up(brokers[kAtOnce - 1].socket.get()));
  EXPECT_FALSE(is_hung_up(brokers[kAtOnce].socket.get()));
}

TEST_F(ShmBrokerConnectorLink, OfAnotherFabricIsTheLastOne) {
  {
    PlayedBroker broker;
    broker.welcome(*connector_);
    ASSERT_EQ(connector_->poll_registration(), State::kRegistered);
  }
  hear();
  PlayedBroker other;
  other.welcome(*connector_, kOtherFabric);
  hear();
  const PlayedBroker next;
  accept();
  EXPECT_TRUE(gets_hung_up(next.socket.get()));
  EXPECT_EQ(connector_->state(), State::kFabricChanged);
  EXPECT_STREQ(connector_->error_text(), "the broker is of another fabric");
  EXPECT_EQ(connector_->id(), kFabric);
  EXPECT_EQ(watcher_.watched, std::set<int>{listener_});
}

// A listener that cannot be emptied is left alone until it can.
TEST_F(ShmBrokerConnectorLink, ListenerIsWatchedAgainWhenThereAreDescriptors) {
  find_no_descriptors();
  EXPECT_FALSE(listens());
  find_no_descriptors();
  EXPECT_FALSE(listens());
  for (int i = 0; i < 2; ++i) {
    accept();
    EXPECT_TRUE(listens()) << i;
  }
}

TEST_F(ShmBrokerConnectorLink, ListenerIsWatchedAgainWhenTheWatcherHasRoom) {
  find_no_descriptors();
  watcher_.full = true;
  for (int i = 0; i < 2; ++i) {
    accept();
    EXPECT_FALSE(listens()) << i;
  }
  watcher_.full = false;
  accept();
  EXPECT_TRUE(listens());
}

TEST_F(ShmBrokerConnectorLink, ListenerThatIsLeftAloneIsWatchedByTheNextWatcher) {
  find_no_descriptors();
  SetOfDescriptors next;
  ASSERT_TRUE(connector_->set_watcher(&next));
  EXPECT_EQ(next.watched, std::set<int>{listener_});
  ASSERT_TRUE(connector_->set_watcher(nullptr));
  EXPECT_EQ(next.watched, std::set<int>{});
}

TEST_F(ShmBrokerConnectorLink, ListenerThatIsLeftAloneIsTriedAgainAfterAWhile) {
  bool left_alone = false;
  TimePoint begun;
  // A test that was held up for that long has seen nothing.
  do {
    begun = Clock::now();
    find_no_descriptors();
    connector_->flush();
    left_alone = !listens();
  } while (Clock::now() - begun >= kAcceptRetry);
  EXPECT_TRUE(left_alone);
  while (!listens() && Clock::now() - begun < std::chrono::seconds(30)) {
    (void)::poll(nullptr, 0, 1);
    connector_->flush();
  }
  EXPECT_TRUE(listens());
  EXPECT_GE(Clock::now() - begun, kAcceptRetry);
}

TEST_F(ShmBrokerConnectorLink, IsFoundWithoutAWatcherToo) {
  ASSERT_TRUE(connector_->set_watcher(nullptr));
  find_no_descriptors();
  const PlayedBroker broker;
  EXPECT_EQ(connector_->poll_registration(), State::kRegistering);
}

// Otherwise the listener stays readable, and its owner never sleeps.
TEST_F(ShmBrokerConnectorLink, IsTakenAndClosedWhenDescriptorsAreUsedUp) {
  const PlayedBroker broker;
  {
    const DescriptorLimit limit(DescriptorLimit::used_up());
    accept();
    EXPECT_TRUE(gets_hung_up(broker.socket.get()));
  }
  EXPECT_EQ(connector_->state(), State::kListening);
  const PlayedBroker next;
  accept();
  EXPECT_TRUE(listens());
  EXPECT_EQ(connector_->state(), State::kRegistering);
}

TEST_F(ShmBrokerConnectorLink, IsTakenAndClosedWhenTheFilesOfTheSystemAreUsedUp) {
  const PlayedBroker broker;
  next_accept_finds_no_file = true;
  accept();
  EXPECT_TRUE(gets_hung_up(broker.socket.get()));
  EXPECT_TRUE(listens());
  EXPECT_EQ(connector_->state(), State::kListening);
}

TEST_F(ShmBrokerConnectorLink, CanBeTakenAfterALookWithoutDescriptors) {
  PlayedBroker broker(PlayedBroker::kLater);
  {
    const DescriptorLimit limit(DescriptorLimit::used_up());
    accept();
    EXPECT_TRUE(listens());
    EXPECT_EQ(DescriptorLimit::next(), DescriptorLimit::kNone);
    broker.connect();
    accept();
  }
  EXPECT_TRUE(gets_hung_up(broker.socket.get()));
}

TEST(ShmBrokerConnectorRegistration, IsCompleteWithTheWelcome) {
  const auto connector = open_connector();
  EXPECT_EQ(connector->poll_registration(), State::kListening);
  EXPECT_EQ(connector->request_channel(peer_id(2)).error().code, Errc::kPeerGone);
  PlayedBroker broker;
  broker.welcome(*connector);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  EXPECT_EQ(connector->id(), kFabric);
  EXPECT_TRUE(connector->may_reach(peer_id(2)));
  EXPECT_EQ(connector->next().error().code, Errc::kWouldBlock);
}

TEST(ShmBrokerConnectorRegistration, IsWaitedFor) {
  const auto connector = open_connector();
  PlayedBroker broker;
  Wakeups wakeups(broker);
  (void)wakeups.any();
  broker.give_ring();
  std::thread answering([&] {
    EXPECT_TRUE(wakeups.wait(kHangMilliseconds));
    EXPECT_TRUE(broker.say({.kind = Kind::kWelcome, .peer = peer_id(1), .fabric = kFabric}));
  });
  EXPECT_EQ(connector->wait_registered(kNeverReached), State::kRegistered);
  answering.join();
}

TEST(ShmBrokerConnectorRegistration, IsNotWaitedForWhenItIsRefused) {
  const auto connector = open_connector();
  PlayedBroker broker;
  broker.give_ring();
  ASSERT_TRUE(broker.say({.kind = Kind::kRefused, .peer = peer_id(1)}));
  EXPECT_EQ(connector->wait_registered(kNeverReached), State::kDown);
}

TEST(ShmBrokerConnectorRegistration, IsWaitedForAsleepAndNotWithoutEnd) {
  constexpr std::chrono::milliseconds kLimit{20};
  const auto connector = open_connector();
  const auto begun = Clock::now();
  EXPECT_TRUE(sleeps([&] { EXPECT_EQ(connector->wait_registered(kLimit), State::kListening); }));
  EXPECT_GE(Clock::now() - begun, kLimit);
}

TEST(ShmBrokerConnectorRegistration, ThatIsRefusedSaysWhy) {
  const std::pair<broker::Refusal, const char*> kinds[] = {
      {broker::Refusal::kTaken, "the broker refuses us: our peer id is taken"},
      {broker::Refusal::kLimit, "the broker refuses us: too many devices of our pod"},
      {broker::Refusal::kFailed, "the broker refuses us"},
  };
  for (const auto& [refusal, text] : kinds) {
    const auto connector = open_connector();
    PlayedBroker broker;
    broker.give_ring();
    ASSERT_TRUE(broker.say({.kind = Kind::kRefused, .refusal = refusal, .peer = peer_id(1)}));
    EXPECT_EQ(connector->poll_registration(), State::kDown);
    EXPECT_STREQ(connector->error_text(), text);
    EXPECT_TRUE(is_hung_up(broker.socket.get()));
  }
}

// Of the ring and the welcome, whatever says that there was one.
TEST(ShmBrokerConnectorRegistration, IsWhatOtherWordsHaveToWaitFor) {
  const auto say = [](PlayedBroker& broker, Kind kind) {
    const auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    const auto fds = ends[0].descriptors();
    ASSERT_TRUE(
        broker.say({.kind = kind, .layout = kChannelLayout, .peer = peer_id(2), .fabric = kFabric},
                   {fds.begin(), fds.begin() + static_cast<int>(broker::descriptors_of(kind))}));
  };
  for (const Kind kind :
       {Kind::kWelcome, Kind::kRoom, Kind::kChannel, Kind::kBlank, Kind::kGranted}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto connector = open_connector();
    PlayedBroker broker;
    if (kind != Kind::kWelcome && kind != Kind::kRoom) broker.give_ring();
    say(broker, kind);
    EXPECT_EQ(connector->poll_registration(), State::kDown);
    EXPECT_STREQ(connector->error_text(), "the broker speaks otherwise");
    EXPECT_EQ(connector->next().error().code, Errc::kPeerGone);
  }
}

// Memory of a broker is told by the upper half of its instance; the lower is of a connection.
TEST(ShmBrokerConnectorLoss, LosesMemoryThatOnlyTheLostBrokerCouldBring) {
  constexpr std::uint64_t kOne = std::uint64_t{5} << 32, kOther = std::uint64_t{6} << 32;
  const auto connector = open_connector();
  const auto may_bring = [&](std::uint64_t instance) {
    return connector->may_bring({instance, 1});
  };
  const auto serve = [&](std::uint64_t instance) {
    auto broker = std::make_unique<PlayedBroker>(instance);
    broker->welcome(*connector);
    EXPECT_EQ(connector->poll_registration(), State::kRegistered);
    EXPECT_TRUE(may_bring(instance + 9));
    return broker;
  };
  const auto lose = [&](std::unique_ptr<PlayedBroker> broker) {
    broker.reset();
    EXPECT_EQ(connector->poll_registration(), State::kDown);
  };
  lose(serve(kOne + 1));
  EXPECT_FALSE(may_bring(kOne + 1));
  EXPECT_TRUE(may_bring(kOther + 1));
  // One that has never said who it is changes nothing.
  auto silent = std::make_unique<PlayedBroker>();
  EXPECT_EQ(connector->poll_registration(), State::kRegistering);
  lose(std::move(silent));
  EXPECT_FALSE(may_bring(kOne + 1));
  auto again = serve(kOne + 2);
  EXPECT_TRUE(may_bring(kOne + 1));
  lose(std::move(again));
  const auto other = serve(kOther + 1);
  EXPECT_FALSE(may_bring(kOne + 1));
}

TEST(ShmBrokerConnectorLoss, LetsGoOfTheRing) {
  const auto mapped = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);)
      if (line.find("memfd:ring") != std::string::npos) ++count;
    return count;
  };
  const auto connector = open_connector();
  {
    PlayedBroker broker;
    broker.welcome(*connector);
    EXPECT_EQ(connector->poll_registration(), State::kRegistered);
    EXPECT_EQ(mapped(), 2);
  }
  EXPECT_EQ(mapped(), 1);
  EXPECT_EQ(connector->poll_registration(), State::kDown);
  EXPECT_EQ(mapped(), 0);
}

}  // namespace
}  // namespace fairlead::rdma::shm
