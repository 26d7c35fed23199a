// The channels of a device, with a connector that the test implements.
#include "rdma/shm/channel/shm_channel_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <vector>

#include "rdma/shm/shm_limits.h"
#include "unit/rdma/scripted_connector.h"
#include "unit/rdma/set_of_descriptors.h"

namespace fairlead::rdma::shm {
namespace {

constexpr PeerId kPeer{{1}};

PeerId peer(std::size_t number) {
  return PeerId{{static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8), 1}};
}

class ShmChannelTable : public testing::Test {
 protected:
  using State = Channel::State;

  // What the connector brings; the peer's end goes into `end`.
  static ConnectorEvent event(PeerId from, std::uint8_t side, std::uint32_t pod,
                              broker::ChannelEnd* end = nullptr) {
    auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    ConnectorEvent made;
    made.kind = ConnectorEvent::Kind::kChannel;
    made.peer = from;
    made.side = side;
    made.pod = pod;
    made.end = std::move(ends[side]);
    if (end != nullptr) *end = std::move(ends[1 - side]);
    return made;
  }
  // The peer asked for it.
  Channel* accept(PeerId from, std::uint32_t pod) {
    return table_.take_in(event(from, 1, pod)).value();
  }
  // One that waits for its memory, and costs no descriptors.
  Channel* ask(PeerId whom, std::uint32_t pod = 0, std::uint32_t users = 0) {
    Channel* const channel = table_.request(whom, now_).value();
    channel->set_pod(pod);
    for (std::uint32_t i = 0; i < users; ++i) channel->add_user();
    return channel;
  }
  // So many that are in use, each of another peer.
  void ask_many(std::size_t count, std::uint32_t pod, std::uint32_t users = 1) {
    for (std::size_t i = 0; i < count; ++i) ask(peer(next_peer_++), pod, users);
  }
  std::vector<Channel*> dead() const {
    std::vector<Channel*> found;
    table_.for_each([&](Channel& channel) {
      if (channel.state() == State::kDead) found.push_back(&channel);
    });
    return found;
  }
  std::size_t count() const {
    std::size_t found = 0;
    table_.for_each([&](Channel&) { ++found; });
    return found;
  }

  TimePoint now_ = std::chrono::steady_clock::now();
  std::size_t next_peer_ = 1000;
  ScriptedConnector* connector_ = new ScriptedConnector;  // owned by the table
  SetOfDescriptors watcher_;
  ChannelTable table_{std::unique_ptr<Connector>(connector_)};
};

using Dead = std::vector<Channel*>;

TEST_F(ShmChannelTable, WatchesTheTimerOnceThereIsOne) {
  constexpr int kTimer = 1000, kOtherTimer = 1001;
  EXPECT_TRUE(table_.set_watcher(&watcher_));
  EXPECT_TRUE(watcher_.watched.empty());
  EXPECT_TRUE(table_.watch_timer(kTimer));
  EXPECT_TRUE(table_.watch_timer(kOtherTimer));
  EXPECT_EQ(watcher_.watched, std::set<int>{kOtherTimer});
  EXPECT_TRUE(table_.set_watcher(nullptr));
  EXPECT_TRUE(watcher_.watched.empty());
  EXPECT_TRUE(table_.set_watcher(&watcher_));
  EXPECT_EQ(watcher_.watched, std::set<int>{kOtherTimer});
}

TEST_F(ShmChannelTable, AConnectorThatCannotBeWatchedIsAnErrorDespiteTheTimer) {
  ASSERT_TRUE(table_.watch_timer(1000));
  connector_->watchable = false;
  watcher_.may_be_unknown = true;  // the table has not noted which descriptors it watches
  EXPECT_EQ(table_.set_watcher(&watcher_).error().code, Errc::kExhausted);
}

TEST_F(ShmChannelTable, AnAnswerIsWaitedForFromTheRequestOn) {
  const TimePoint now = std::chrono::steady_clock::now();
  Channel* const channel = table_.request(kPeer, now).value();
  EXPECT_FALSE(table_.give_up(*channel, now + kAnswerWaitMax - std::chrono::milliseconds(1)));
  EXPECT_EQ(channel->state(), Channel::State::kOpen);
  EXPECT_TRUE(table_.give_up(*channel, now + kAnswerWaitMax));
  EXPECT_EQ(channel->state(), Channel::State::kClosing);
}

// The second request has the whole time for its answer.
TEST_F(ShmChannelTable, WhatIsAskedForOnceMoreIsWaitedForOnceMore) {
  const TimePoint before = std::chrono::steady_clock::now();
  Channel* const channel = table_.request(kPeer, before - kAnswerWaitMax).value();
  channel->set_abandoned(true);
  channel->add_user();
  EXPECT_EQ(table_.refuse(kPeer), nullptr);
  EXPECT_EQ(connector_->requested.size(), 2u);
  EXPECT_FALSE(table_.give_up(*channel, before));
  EXPECT_TRUE(table_.give_up(*channel, std::chrono::steady_clock::now() + kAnswerWaitMax));
}

TEST_F(ShmChannelTable, TheTimerMayBeAnyDescriptor) {
  EXPECT_TRUE(table_.watch_timer(0));
  EXPECT_TRUE(table_.set_watcher(&watcher_));
  EXPECT_EQ(watcher_.watched, std::set<int>{0});
  EXPECT_TRUE(table_.watch_timer(-1));
  EXPECT_TRUE(watcher_.watched.empty());
  EXPECT_TRUE(table_.watch_timer(0));
  EXPECT_EQ(watcher_.watched, std::set<int>{0});
  EXPECT_TRUE(table_.set_watcher(nullptr));
  EXPECT_TRUE(watcher_.watched.empty());
}

TEST_F(ShmChannelTable, AllBellsMoveToANewWatcher) {
  Channel* const before = accept(peer(1), 1);
  ASSERT_TRUE(table_.watch_timer(1000));
  ASSERT_TRUE(table_.set_watcher(&watcher_));
  Channel* const after = accept(peer(2), 1);
  const std::set<int> all{before->bell(), after->bell(), 1000};
  EXPECT_EQ(watcher_.watched, all);
  SetOfDescriptors other;
  ASSERT_TRUE(table_.set_watcher(&other));
  EXPECT_TRUE(watcher_.watched.empty());
  EXPECT_EQ(other.watched, all);
  EXPECT_EQ(before->state(), State::kOpen);
  EXPECT_EQ(table_.find(before->bell()), before);
  EXPECT_EQ(table_.find(after->bell()), after);
  EXPECT_EQ(table_.find(1000), nullptr);
  ASSERT_TRUE(table_.set_watcher(nullptr));
  EXPECT_TRUE(other.watched.empty());
}

TEST_F(ShmChannelTable, AChannelThatCannotBeWatchedIsClosed) {
  Channel* const channel = accept(peer(1), 1);
  SetOfDescriptors refusing;
  refusing.full = refusing.may_be_unknown = true;
  EXPECT_TRUE(table_.set_watcher(&refusing));
  EXPECT_EQ(channel->state(), State::kClosing);
  EXPECT_FALSE(table_.take_in(event(peer(2), 1, 1)));
  Channel* const asked = ask(peer(3));
  EXPECT_EQ(table_.take_in(event(peer(3), 0, 1)).error().code, Errc::kExhausted);
  EXPECT_EQ(asked->state(), State::kClosing);
  EXPECT_EQ(count(), 2u);
  EXPECT_EQ(table_.watch_timer(1000).error().code, Errc::kExhausted);
  EXPECT_FALSE(table_.set_watcher(&refusing));
  EXPECT_TRUE(table_.set_watcher(nullptr));
}

TEST_F(ShmChannelTable, AnAnswerIsForTheChannelThatWaits) {
  Channel* const other = ask(peer(2));
  Channel* const channel = ask(peer(1));
  ASSERT_TRUE(table_.set_watcher(&watcher_));
  broker::ChannelEnd end;
  EXPECT_EQ(table_.take_in(event(peer(1), 0, 7, &end)).value(), channel);
  EXPECT_TRUE(channel->attached());
  EXPECT_FALSE(other->attached());
  EXPECT_EQ(channel->pod(), 7u);
  EXPECT_EQ(watcher_.watched, std::set<int>{channel->bell()});
  EXPECT_EQ(table_.find(channel->bell()), channel);
  Channel far(peer(9), std::move(Mapping::map_private(sizeof(ChannelMemory)).value()),
              table_.budget());
  ASSERT_TRUE(far.attach(Channel::Side::kAcceptor, std::move(end)));
  channel->send({.rkey = RemoteKey(5)});
  ASSERT_TRUE(far.control_waiting());
  EXPECT_EQ(far.control_in().front()->rkey, RemoteKey(5));
  // Nobody waits any more.
  EXPECT_EQ(table_.take_in(event(peer(1), 0, 7)).value(), nullptr);
  EXPECT_EQ(count(), 2u);
}

TEST_F(ShmChannelTable, WhatAPeerAskedForIsANewChannel) {
  ask(peer(1));
  Channel* const channel = accept(peer(1), 7);
  EXPECT_EQ(count(), 2u);
  EXPECT_EQ(channel->peer(), peer(1));
  EXPECT_EQ(channel->pod(), 7u);
  EXPECT_TRUE(channel->attached());
  EXPECT_EQ(table_.find_open(peer(1)), channel);  // the newest
  channel->close();
  EXPECT_NE(table_.find_open(peer(1)), channel);
  EXPECT_NE(table_.find_open(peer(1)), nullptr);
  EXPECT_EQ(table_.find_open(peer(2)), nullptr);
}

TEST_F(ShmChannelTable, AnAnswerThatNobodyWantsIsClosed) {
  ASSERT_TRUE(table_.set_watcher(&watcher_));
  Channel* const channel = ask(peer(1));
  channel->set_abandoned(true);
  EXPECT_EQ(table_.take_in(event(peer(1), 0, 0)).value(), nullptr);
  EXPECT_EQ(channel->state(), State::kDead);
  EXPECT_TRUE(watcher_.watched.empty());
  Channel* const wanted = ask(peer(2), 0, 1);  // by another since
  wanted->set_abandoned(true);
  EXPECT_EQ(table_.take_in(event(peer(2), 0, 0)).value(), wanted);
  EXPECT_FALSE(wanted->take_abandoned());
  EXPECT_EQ(wanted->state(), State::kOpen);
}

TEST_F(ShmChannelTable, MemoryThatIsRefusedClosesTheChannelThatWaits) {
  Channel* const channel = ask(peer(1));
  ConnectorEvent empty = event(peer(1), 0, 0);
  empty.end.memory.reset();
  EXPECT_EQ(table_.take_in(std::move(empty)).error().code, Errc::kMalformed);
  EXPECT_EQ(channel->state(), State::kClosing);
}

TEST_F(ShmChannelTable, APodWhoseBellsTakeTooLongGetsNoChannel) {
  Channel* const channel = accept(peer(1), 1);
  EXPECT_TRUE(table_.note_ring(*channel, kRingDebtMax, now_));
  EXPECT_FALSE(table_.note_ring(*channel, std::chrono::hours(1), now_));
  EXPECT_EQ(table_.take_in(event(peer(2), 1, 1)).error().code, Errc::kExhausted);
  EXPECT_TRUE(table_.take_in(event(peer(2), 1, 2)));
  EXPECT_EQ(count(), 2u);
}

TEST_F(ShmChannelTable, ARefusalClosesWhatWaits) {
  EXPECT_EQ(table_.refuse(peer(1)), nullptr);
  Channel* const attached = accept(peer(1), 0);
  Channel* const channel = ask(peer(1), 0, 1);
  EXPECT_EQ(table_.refuse(peer(2)), nullptr);
  EXPECT_EQ(table_.refuse(peer(1)), channel);
  EXPECT_EQ(channel->state(), State::kClosing);
  EXPECT_EQ(attached->state(), State::kOpen);
  Channel* const abandoned = ask(peer(1));
  abandoned->set_abandoned(true);
  EXPECT_EQ(table_.refuse(peer(1)), abandoned);
  EXPECT_EQ(connector_->requested.size(), 2u);
  Channel* const again = ask(peer(1), 0, 1);
  again->set_abandoned(true);
  connector_->reachable = false;
  EXPECT_EQ(table_.refuse(peer(1)), again);
  EXPECT_EQ(again->state(), State::kClosing);
}

TEST_F(ShmChannelTable, AllThatWaitCanBeRefusedTogether) {
  Channel* const attached = accept(peer(1), 0);
  Channel* const waits[] = {ask(peer(1)), ask(peer(2))};
  table_.refuse_all();
  EXPECT_EQ(attached->state(), State::kOpen);
  for (const Channel* channel : waits) EXPECT_EQ(channel->state(), State::kClosing);
}

TEST_F(ShmChannelTable, TheDeadAreFreedOnceNobodyUsesThem) {
  ASSERT_TRUE(table_.set_watcher(&watcher_));
  Channel* const lives = accept(peer(1), 0);
  Channel* const used = accept(peer(2), 0);
  Channel* const waits = ask(peer(3));
  used->add_user();
  const int bell = used->bell();
  EXPECT_FALSE(table_.has_dead());
  table_.terminate(*used);
  table_.terminate(*waits);
  EXPECT_EQ(watcher_.watched, std::set<int>{lives->bell()});
  EXPECT_EQ(table_.find(bell), nullptr);
  EXPECT_EQ(used->bell(), -1);
  EXPECT_TRUE(table_.has_dead());
  table_.erase_dead();
  EXPECT_FALSE(table_.has_dead());
  EXPECT_EQ(count(), 2u);
  table_.note_unused(*lives);
  EXPECT_FALSE(table_.has_dead());
  used->remove_user();
  table_.note_unused(*used);
  EXPECT_TRUE(table_.has_dead());
  table_.erase_dead();
  EXPECT_EQ(count(), 1u);
  EXPECT_EQ(table_.find_open(peer(1)), lives);
}

TEST_F(ShmChannelTable, APeerThatDoesNotAnswerIsLeftAloneForLongerEachTime) {
  const auto fail = [&] {
    Channel* const channel = table_.request(peer(1), now_).value();
    now_ += kAnswerWaitMax;
    EXPECT_TRUE(table_.give_up(*channel, now_));
  };
  for (int seconds : {1, 2, 4, 8, 16, 32, 32}) {
    fail();
    EXPECT_TRUE(table_.request(peer(2), now_)) << seconds;
    table_.refuse_all();
    table_.for_each([&](Channel& channel) { table_.terminate(channel); });
    table_.erase_dead();
    now_ += std::chrono::seconds(seconds) - Duration(1);
    EXPECT_EQ(table_.request(peer(1), now_).error().code, Errc::kTimedOut) << seconds;
    now_ += Duration(1);
  }
  ask(peer(1));
  EXPECT_TRUE(table_.take_in(event(peer(1), 0, 0)));  // an answer
  fail();
  now_ += kAnswerPause;
  EXPECT_TRUE(table_.request(peer(1), now_));
}

TEST_F(ShmChannelTable, WhatHasItsMemoryIsNotGivenUp) {
  Channel* const channel = ask(peer(1));
  ASSERT_TRUE(table_.take_in(event(peer(1), 0, 0)));
  EXPECT_FALSE(table_.give_up(*channel, now_ + 2 * kAnswerWaitMax));
  EXPECT_EQ(channel->state(), State::kOpen);
}

TEST_F(ShmChannelTable, SoManyPeersAreLeftAloneAndThenNone) {
  const TimePoint late = now_ + kAnswerWaitMax;
  for (std::size_t i = 0; i <= kUnansweredMax; ++i) {
    if (i == kUnansweredMax) {
      EXPECT_FALSE(table_.request(peer(1), late));
    }
    Channel* const channel = ask(peer(1 + i));
    EXPECT_TRUE(table_.give_up(*channel, late));
    table_.terminate(*channel);
    table_.erase_dead();
  }
  EXPECT_FALSE(table_.request(peer(1 + kUnansweredMax), late));
  EXPECT_TRUE(table_.request(peer(1), late));
}

TEST_F(ShmChannelTable, APeerHasFewOpenChannels) {
  for (std::size_t i = 0; i < kChannelsPerPeerMax; ++i) {
    ask(peer(1));
    ask(peer(2 + i));
  }
  EXPECT_EQ(table_.request(peer(1), now_).error().code, Errc::kExhausted);
  EXPECT_EQ(table_.take_in(event(peer(1), 1, 1)).error().code, Errc::kExhausted);
  table_.find_open(peer(1))->close();
  EXPECT_TRUE(table_.request(peer(1), now_));
  EXPECT_EQ(dead(), Dead{});
}

TEST_F(ShmChannelTable, AFullPodMakesRoomForItself) {
  ask(peer(1), 2);  // of another pod, and idle
  ask_many(kChannelsPerPodMax - 1, 1);
  Channel* const idle = ask(peer(2), 1);
  Channel* const younger = ask(peer(3), 3);
  Channel* const fresh = accept(peer(4), 1);
  EXPECT_EQ(dead(), Dead{idle});
  fresh->add_user();
  EXPECT_STREQ(table_.take_in(event(peer(5), 1, 1)).error().what, "channels of one pod");
  EXPECT_TRUE(table_.take_in(event(peer(5), 1, 3)));
  EXPECT_EQ(younger->state(), State::kOpen);
}

TEST_F(ShmChannelTable, APodMayHaveSoManyChannels) {
  ask(peer(2), 1);
  ask_many(kChannelsPerPodMax - 2, 1);
  ask_many(2 * kChannelsPerPodMax, 0);  // no pod: each peer counts for itself
  accept(peer(3), 1);
  accept(peer(4), 0);
  EXPECT_EQ(dead(), Dead{});
}

TEST_F(ShmChannelTable, WhenThereAreTooManyOneOfTheLargestPodGoes) {
  ask(peer(1), 2);
  Channel* const goes = ask(peer(2), 1);
  ask(peer(3), 1);
  ask(peer(4), 3);
  ask_many(5, 1);
  ask_many(4, 2);
  ask_many(9, 4);  // larger, without an idle one
  ask_many(kChannelsMax - 23, 0);
  ask(peer(5));
  EXPECT_EQ(dead(), Dead{});
  ask(peer(6));
  EXPECT_EQ(dead(), Dead{goes});
}

TEST_F(ShmChannelTable, PeersWithoutAPodAreNoPodTogether) {
  for (std::size_t i = 1; i <= 3; ++i) ask(peer(i));
  Channel* const goes = ask(peer(4), 5);
  ask_many(1, 5);
  ask(peer(5), 6);  // its peer has other channels, which are of no pod
  ask(peer(5), 0, 1);
  ask(peer(5), 0, 1);
  ask_many(kChannelsMax - 8, 0, 0);
  EXPECT_EQ(dead(), Dead{});
  ask(peer(6));
  EXPECT_EQ(dead(), Dead{goes});
}

TEST_F(ShmChannelTable, APodTakesNoChannelOfASmallerOne) {
  Channel* const idle = ask(peer(1), 2);
  ask_many(3, 2);
  ask_many(5, 1);
  ask_many(kChannelsMax - 9, 0);
  EXPECT_STREQ(table_.take_in(event(peer(2), 1, 1)).error().what, "channels");
  EXPECT_EQ(dead(), Dead{});
  EXPECT_TRUE(table_.take_in(event(peer(2), 1, 3)));
  EXPECT_EQ(dead(), Dead{idle});
}

TEST_F(ShmChannelTable, APodTakesAChannelOfOneOfItsSize) {
  Channel* const idle = ask(peer(1), 2);
  ask_many(4, 2);
  ask_many(5, 1);
  ask_many(kChannelsMax - 10, 0);
  accept(peer(2), 1)->add_user();
  EXPECT_EQ(dead(), Dead{idle});
  idle->add_user();  // somebody points to it still
  EXPECT_STREQ(table_.request(peer(3), now_).error().what, "channels");
}

TEST_F(ShmChannelTable, OfAPodFewIdleChannelsStay) {
  Channel* const used = accept(peer(1), 1);
  used->add_user();
  // Another pod that has as many, and older ones, keeps them.
  for (std::size_t i = 0; i < kIdleChannelsPerPodMax; ++i) accept(peer(100 + i), 2);
  Channel* const oldest = accept(peer(3), 1);
  for (std::size_t i = 1; i < kIdleChannelsPerPodMax; ++i) accept(peer(10 + i), 1);
  EXPECT_EQ(dead(), Dead{});
  accept(peer(4), 1);
  EXPECT_EQ(dead(), Dead{oldest});
}

TEST_F(ShmChannelTable, OfAllPodsOneWithMostIdleChannelsGivesOneUp) {
  ask_many(20, 0, 0);  // what waits for its memory costs nothing yet
  for (std::size_t i = 0; i < 20; ++i) accept(peer(10 + i), 1)->add_user();
  for (std::size_t i = 0; i < 5; ++i) accept(peer(40 + i), 1);
  Channel* const goes = accept(peer(1), 2);
  for (std::size_t i = 1; i < 10; ++i) accept(peer(60 + i), 2);
  for (std::size_t i = 15; i < kIdleChannelsMax - 1; ++i) accept(peer(80 + i), 0);
  accept(peer(2), 3);
  EXPECT_EQ(dead(), Dead{});
  accept(peer(3), 3);
  EXPECT_EQ(dead(), Dead{goes});
}

}  // namespace
}  // namespace fairlead::rdma::shm
