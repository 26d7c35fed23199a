// What a registered connector makes of the words of its broker, and what it asks of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "descriptor_limit.h"
#include "rdma/shm/connect/shm_broker_connector.h"
#include "rdma/shm/shm_limits.h"
#include "unit/rdma/other_end.h"
#include "unit/rdma/played_broker.h"
#include "unit/rdma/set_of_descriptors.h"
#include "unit/rdma/sleeps.h"

namespace fairlead::rdma::shm {
namespace {

using broker::Request;
using Kind = broker::Message::Kind;
using State = BrokerConnector::State;
using Event = ConnectorEvent::Kind;

bool same_file(int one, int other) {
  struct stat of_one {
  }, of_other{};
  return ::fstat(one, &of_one) == 0 && ::fstat(other, &of_other) == 0 &&
         of_one.st_dev == of_other.st_dev && of_one.st_ino == of_other.st_ino;
}

// A connector that its broker has taken in.
struct Registered {
  Registered() {
    EXPECT_TRUE(connector->set_watcher(&watcher));
    listener = *watcher.watched.begin();
    broker.emplace();
    broker->welcome(*connector);
    EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  }
  // Reads what the broker has said.
  void hear() const {
    for (const int fd : watcher.watched)
      if (fd != listener) return connector->handle_readable(fd);
  }
  void lose_broker() {
    broker.reset();
    hear();
    EXPECT_EQ(connector->state(), State::kDown);
  }
  // So many requests for channels as the ring and those that wait for it have room.
  void fill_ring() {
    for (std::uint64_t i = 0; i < broker::kRequestSlots; ++i)
      ASSERT_TRUE(connector->request_channel(peer_id(2)));
  }

  SetOfDescriptors watcher;
  std::unique_ptr<BrokerConnector> connector = open_connector();
  std::optional<PlayedBroker> broker;
  int listener = -1;
};

// So few descriptors that all new ones are scarce.
class FewDescriptors {
 public:
  FewDescriptors() {
    while (DescriptorLimit::next() < 40)
      fillers_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    limit_.emplace(DescriptorLimit::next() + 4);
  }

 private:
  std::vector<FileDescriptor> fillers_;
  std::optional<DescriptorLimit> limit_;
};

class ShmBrokerWords : public testing::Test, protected Registered {
 protected:
  void expect_down(const char* why) const {
    EXPECT_EQ(connector->state(), State::kDown);
    EXPECT_STREQ(connector->error_text(), why);
    EXPECT_TRUE(is_hung_up(broker->socket.get()));
    EXPECT_EQ(watcher.watched, std::set<int>{listener});
  }
  ConnectorEvent next() const {
    auto event = connector->next();
    EXPECT_TRUE(event);
    return event ? std::move(*event) : ConnectorEvent{};
  }
  void say_channel(std::uint8_t layout, PeerId peer) {
    ends_ = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    const auto fds = ends_[1].descriptors();
    ASSERT_TRUE(
        broker->say({.kind = Kind::kChannel, .side = 1, .layout = layout, .peer = peer, .pod = 3},
                    {fds.begin(), fds.end()}));
  }

  std::array<broker::ChannelEnd, 2> ends_;
};

TEST_F(ShmBrokerWords, AChannelComesWithItsDescriptors) {
  say_channel(kChannelLayout, peer_id(2));
  const ConnectorEvent event = next();
  EXPECT_EQ(event.kind, Event::kChannel);
  EXPECT_EQ(event.peer, peer_id(2));
  EXPECT_EQ(event.side, 1);
  EXPECT_EQ(event.pod, 3U);
  const auto sent = ends_[1].descriptors(), came = event.end.descriptors();
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(same_file(sent[i], came[i])) << i;
  EXPECT_EQ(connector->next().error().code, Errc::kWouldBlock);
}

TEST_F(ShmBrokerWords, AChannelOfAnotherLayoutIsNotTaken) {
  say_channel(kChannelLayout + 1, peer_id(2));
  hear();
  expect_down("channel layout of another version");
}

TEST_F(ShmBrokerWords, AChannelWithNobodyIsNotTaken) {
  say_channel(kChannelLayout, PeerId{});
  hear();
  expect_down("the broker speaks otherwise");
}

TEST_F(ShmBrokerWords, MemoryThatIsGrantedComesWithItsName) {
  const FileDescriptor memory = std::move(broker::make_memory("granted", 4096).value());
  ASSERT_TRUE(broker->say(
      {.kind = Kind::kGranted, .peer = peer_id(2), .buffer = broker->buffer(4), .pod = 3},
      {memory.get()}));
  EXPECT_FALSE(connector->has_events());
  const ConnectorEvent event = next();
  EXPECT_EQ(event.kind, Event::kGranted);
  EXPECT_EQ(event.peer, peer_id(2));
  EXPECT_EQ(event.pod, 3U);
  EXPECT_EQ(event.buffer, broker->buffer(4));
  EXPECT_TRUE(same_file(event.memory.get(), memory.get()));
}

TEST_F(ShmBrokerWords, WhatIsNoMemoryIsNotTaken) {
  const FileDescriptor other(::eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(broker->say({.kind = Kind::kGranted, .peer = peer_id(2)}, {other.get()}));
  hear();
  expect_down("segment that is no memfd");
}

TEST_F(ShmBrokerWords, RefusalsAreOfChannels) {
  for (const PeerId peer : {peer_id(2), peer_id(3)})
    ASSERT_TRUE(broker->say({.kind = Kind::kRefused, .peer = peer}));
  hear();
  for (const PeerId peer : {peer_id(2), peer_id(3)}) {
    const ConnectorEvent event = next();
    EXPECT_EQ(event.kind, Event::kRefused);
    EXPECT_EQ(event.peer, peer);
  }
  EXPECT_EQ(connector->next().error().code, Errc::kWouldBlock);
  EXPECT_EQ(connector->state(), State::kRegistered);
}

TEST_F(ShmBrokerWords, WaitInTheSocketWhileManyAreNotHandled) {
  const auto say_one = [&] {
    ASSERT_TRUE(broker->say({.kind = Kind::kRefused, .peer = peer_id(2)}));
    hear();
  };
  for (std::size_t i = 0; i < kConnectorEventsMax; ++i) say_one();
  EXPECT_FALSE(has_unread(broker->socket.get()));
  say_one();
  EXPECT_TRUE(has_unread(broker->socket.get()));
  (void)next();
  hear();
  EXPECT_FALSE(has_unread(broker->socket.get()));
}

TEST_F(ShmBrokerWords, WhoseDescriptorIsLostAreSkipped) {
  const FileDescriptor blank = std::move(broker::make_blank().value());
  {
    const DescriptorLimit limit(DescriptorLimit::used_up());
    ASSERT_TRUE(broker->say({.kind = Kind::kBlank, .buffer = broker->buffer(1)}, {blank.get()}));
    hear();
  }
  EXPECT_FALSE(has_unread(broker->socket.get()));
  EXPECT_EQ(connector->state(), State::kRegistered);
  broker->give_blank(2);
  const auto taken = connector->take_buffer();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, broker->buffer(2));
}

TEST_F(ShmBrokerWords, WithDescriptorsAreTakenAllAtOnceWhileThereAreMany) {
  for (const std::uint64_t number : {1U, 2U}) broker->grant(number, peer_id(2));
  hear();
  EXPECT_FALSE(has_unread(broker->socket.get()));
}

TEST_F(ShmBrokerWords, WithDescriptorsAreTakenOneByOneWhileTheseAreScarce) {
  for (const std::uint64_t number : {1U, 2U}) broker->grant(number, peer_id(2));
  const FewDescriptors few;
  for (const std::uint64_t number : {1U, 2U}) {
    hear();
    EXPECT_EQ(has_unread(broker->socket.get()), number == 1);
    EXPECT_EQ(next().buffer, broker->buffer(number));
    EXPECT_FALSE(connector->has_events());
  }
}

// They wait for nobody to handle them.
TEST_F(ShmBrokerWords, OfBlanksAreTakenWhileDescriptorsAreScarce) {
  for (const std::uint64_t number : {1U, 2U}) broker->give_blank(number);
  const FewDescriptors few;
  hear();
  EXPECT_FALSE(has_unread(broker->socket.get()));
}

TEST_F(ShmBrokerWords, OfBlanksAreKeptInOrderUpToALimit) {
  for (std::uint64_t number = 1; number <= kStockMax + 1; ++number) {
    broker->give_blank(number);
    hear();
  }
  for (std::uint64_t number = 1; number <= kStockMax; ++number) {
    const auto taken = connector->take_buffer();
    ASSERT_TRUE(taken) << number;
    EXPECT_EQ(taken->id, broker->buffer(number));
    EXPECT_TRUE(taken->fd);
  }
  EXPECT_FALSE(connector->take_buffer());
}

TEST(ShmBrokerWelcome, IsNotTakenTwice) {
  for (const bool ring : {false, true}) {
    Registered device;
    if (ring)
      device.broker->give_ring();
    else
      ASSERT_TRUE(
          device.broker->say({.kind = Kind::kWelcome, .peer = peer_id(2), .fabric = kFabric}));
    EXPECT_EQ(device.connector->next().error().code, Errc::kPeerGone);
    EXPECT_EQ(device.connector->next().error().code, Errc::kWouldBlock);
    EXPECT_EQ(device.connector->state(), State::kDown);
    EXPECT_FALSE(device.connector->may_reach(peer_id(2)));
  }
}

class ShmBrokerStock : public testing::Test {
 protected:
  // Some attempts, since a machine may hold one up for longer than the stock is waited for.
  static constexpr int kAttempts = 20;

  static void find_no_buffer(const Registered& device, const char* why) {
    const auto taken = device.connector->take_buffer();
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error(), (Error{Errc::kExhausted, why}));
  }
  static void expect_no_wait(const std::function<void()>& take) {
    bool all_sleep = true;
    for (int i = 0; i < kAttempts; ++i) all_sleep = all_sleep && sleeps(take);
    EXPECT_FALSE(all_sleep);
  }
};

TEST_F(ShmBrokerStock, ThatIsEmptyIsWaitedForAsleepOnceInAWhile) {
  const Registered device;
  const auto take = [&] { find_no_buffer(device, "the broker has no buffer for us"); };
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(sleeps(take));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, kStockWaitMax);
  expect_no_wait(take);
}

TEST_F(ShmBrokerStock, IsNotWaitedForWithoutABroker) {
  Registered device;
  device.lose_broker();
  expect_no_wait([&] { find_no_buffer(device, "the broker, which makes buffers, is not there"); });
}

// The blank is behind something that has to be taken first.
TEST_F(ShmBrokerStock, IsTakenFromAsSoonAsABlankHasCome) {
  Registered device;
  device.broker->grant(1, peer_id(2));
  device.broker->give_blank(2);
  const FewDescriptors few;
  const auto taken = device.connector->take_buffer();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, device.broker->buffer(2));
  EXPECT_EQ(device.connector->next()->buffer, device.broker->buffer(1));
}

TEST_F(ShmBrokerStock, IsWaitedForWhileOtherThingsCome) {
  bool any_taken = false;
  for (int i = 0; i < kAttempts && !any_taken; ++i) {
    Registered device;
    for (const std::uint64_t number : {1U, 2U}) device.broker->grant(number, peer_id(2));
    device.broker->give_blank(3);
    const FewDescriptors few;
    any_taken = device.connector->take_buffer().has_value();
  }
  EXPECT_TRUE(any_taken);
}

TEST_F(ShmBrokerStock, IsThatOfTheBrokerThatIsThere) {
  Registered device;
  const auto& connector = device.connector;
  for (const std::uint64_t number : {1U, 2U}) device.broker->give_blank(number);
  const auto old = connector->take_buffer();
  ASSERT_TRUE(old);
  EXPECT_EQ(device.broker->requests->take()->kind, Request::Kind::kTake);
  EXPECT_TRUE(connector->grant(old->id, peer_id(2)));
  device.lose_broker();
  EXPECT_EQ(connector->take_buffer().error().code, Errc::kExhausted);
  PlayedBroker broker(8);
  broker.welcome(*connector);
  broker.give_blank(1);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  // Buffers of the old broker are unknown to the new one.
  EXPECT_EQ(connector->grant(old->id, peer_id(2)).error().code, Errc::kPeerGone);
  connector->free_buffer(old->id);
  EXPECT_EQ(broker.requests->take().error().code, Errc::kWouldBlock);
  const auto taken = connector->take_buffer();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, broker.buffer(1));
}

// The broker refills the stock when it learns what has been taken.
TEST_F(ShmBrokerStock, IsWaitedForAfterTheBrokerIsWoken) {
  Registered device;
  device.broker->give_blank(1);
  ASSERT_TRUE(device.connector->take_buffer());
  Wakeups wakeups(*device.broker);
  (void)wakeups.any();
  EXPECT_FALSE(device.connector->take_buffer());
  EXPECT_TRUE(wakeups.any());
}

class ShmBrokerRequests : public testing::Test, protected Registered {
 protected:
  void SetUp() override { (void)wakeups_.any(); }
  void expect_request(const Request& expected) {
    const auto request = broker->requests->take();
    ASSERT_TRUE(request);
    EXPECT_EQ(*request, expected);
  }

  Wakeups wakeups_{*broker};
};

// The broker looks at a ring only when it is woken.
TEST_F(ShmBrokerRequests, ForChannelsWakeTheBrokerOneByOne) {
  connector->flush();
  EXPECT_FALSE(wakeups_.any());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(connector->request_channel(peer_id(2)));
    EXPECT_TRUE(wakeups_.any()) << i;
    EXPECT_FALSE(wakeups_.any()) << i;
  }
}

TEST_F(ShmBrokerRequests, ForBuffersWakeTheBrokerTogether) {
  for (const std::uint64_t number : {1U, 2U}) broker->give_blank(number);
  for (const std::uint64_t number : {1U, 2U}) {
    const auto taken = connector->take_buffer();
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->id, broker->buffer(number));
  }
  EXPECT_TRUE(connector->grant(broker->buffer(1), peer_id(2)));
  connector->free_buffer(broker->buffer(2));
  EXPECT_TRUE(connector->backlog());
  EXPECT_FALSE(wakeups_.any());
  connector->flush();
  EXPECT_TRUE(wakeups_.any());
  EXPECT_FALSE(connector->backlog());
  for (const std::uint64_t number : {1U, 2U})
    expect_request({.kind = Request::Kind::kTake, .buffer = broker->buffer(number)});
  expect_request({.kind = Request::Kind::kGrant, .peer = peer_id(2), .buffer = broker->buffer(1)});
  expect_request({.kind = Request::Kind::kFree, .buffer = broker->buffer(2)});
  EXPECT_EQ(broker->requests->take().error().code, Errc::kWouldBlock);
}

TEST_F(ShmBrokerRequests, ThatWaitedWakeTheBrokerWhenThereIsRoom) {
  fill_ring();
  for (const PeerId peer : {peer_id(3), peer_id(4)}) ASSERT_TRUE(connector->request_channel(peer));
  EXPECT_TRUE(connector->backlog());
  connector->flush();
  EXPECT_TRUE(connector->backlog());
  EXPECT_EQ(connector->state(), State::kRegistered);
  while (broker->requests->take()) continue;
  EXPECT_TRUE(broker->requests->take_wish());
  (void)wakeups_.any();
  ASSERT_TRUE(broker->say({.kind = Kind::kRoom}));
  hear();
  EXPECT_TRUE(wakeups_.any());
  EXPECT_FALSE(connector->backlog());
  for (const PeerId peer : {peer_id(3), peer_id(4)})
    expect_request({.kind = Request::Kind::kConnect, .peer = peer});
}

TEST_F(ShmBrokerRequests, BeyondALimitMeanThatTheBrokerIsTooSlow) {
  fill_ring();
  for (std::size_t i = 0; i < kRequestsWaitingMax; ++i)
    ASSERT_TRUE(connector->request_channel(peer_id(2)));
  EXPECT_EQ(connector->state(), State::kRegistered);
  (void)connector->request_channel(peer_id(2));
  EXPECT_EQ(connector->state(), State::kDown);
  EXPECT_STREQ(connector->error_text(), "the broker does not keep up");
}

TEST_F(ShmBrokerRequests, InADamagedRingAreTheLast) {
  fill_ring();
  broker->damage_ring();
  const auto granted = connector->grant(broker->buffer(1), peer_id(2));
  ASSERT_FALSE(granted);
  EXPECT_EQ(granted.error(), (Error{Errc::kPeerGone, "the broker speaks otherwise"}));
  EXPECT_EQ(connector->state(), State::kDown);
  EXPECT_TRUE(is_hung_up(broker->socket.get()));
}

TEST_F(ShmBrokerRequests, ThatWaitForADamagedRingAreTheLast) {
  fill_ring();
  ASSERT_TRUE(connector->request_channel(peer_id(2)));
  broker->damage_ring();
  connector->flush();
  EXPECT_EQ(connector->state(), State::kDown);
  EXPECT_STREQ(connector->error_text(), "the broker speaks otherwise");
}

TEST_F(ShmBrokerRequests, AreNotForTheNextBroker) {
  fill_ring();
  ASSERT_TRUE(connector->request_channel(peer_id(2)));
  lose_broker();
  EXPECT_FALSE(connector->backlog());
  broker.emplace(8);
  broker->welcome(*connector);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  EXPECT_EQ(broker->requests->take().error().code, Errc::kWouldBlock);
}

TEST_F(ShmBrokerRequests, OfWhichALostBrokerWasNotTold) {
  broker->give_blank(1);
  ASSERT_TRUE(connector->take_buffer());
  EXPECT_TRUE(connector->backlog());
  lose_broker();
  EXPECT_FALSE(connector->backlog());
}

}  // namespace
}  // namespace fairlead::rdma::shm
