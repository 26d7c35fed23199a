// The channels of a device, with a connector that the test implements.
#include "rdma/shm/shm_channel_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "rdma/shm/shm_limits.h"
#include "unit/rdma/set_of_descriptors.h"

namespace fairlead::rdma::shm {
namespace {

constexpr PeerId kPeer{{1}};

// Takes every request and never answers by itself.
class SilentConnector final : public Connector {
 public:
  FabricId id() const override { return {}; }
  Result<void> set_watcher(FdWatcher* watcher) override {
    if (watcher != nullptr && !watchable) return Error{Errc::kExhausted, "test"};
    return {};
  }
  bool owns(int) const override { return false; }
  void handle_readable(int) override {}
  Result<void> request_channel(PeerId) override {
    ++requests;
    return {};
  }
  bool may_reach(PeerId) const override { return true; }
  Result<Blank> take_buffer() override { return Error{Errc::kExhausted, "test"}; }
  Result<void> grant(const BufferId&, PeerId) override { return {}; }
  void free_buffer(const BufferId&) override {}
  bool may_bring(const BufferId&) const override { return true; }
  Result<ConnectorEvent> next() override { return Error{Errc::kWouldBlock, "test"}; }
  bool has_events() const override { return false; }
  void flush() override {}
  bool backlog() const override { return false; }

  bool watchable = true;
  int requests = 0;
};

class ShmChannelTable : public testing::Test {
 protected:
  SilentConnector* connector_ = new SilentConnector;  // owned by the table
  SetOfDescriptors watcher_;
  ChannelTable table_{std::unique_ptr<Connector>(connector_)};
};

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
  channel->demand.abandoned = true;
  channel->demand.users = 1;
  EXPECT_EQ(table_.refuse(kPeer), nullptr);
  EXPECT_EQ(connector_->requests, 2);
  EXPECT_FALSE(table_.give_up(*channel, before));
  EXPECT_TRUE(table_.give_up(*channel, std::chrono::steady_clock::now() + kAnswerWaitMax));
}

}  // namespace
}  // namespace fairlead::rdma::shm
