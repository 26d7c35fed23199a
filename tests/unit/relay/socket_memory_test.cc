#include "relay/connection/socket_memory.h"

#include <gtest/gtest.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <vector>

#include "event/socket_buffers.h"
#include "fake_stream.h"
#include "relay/pipes/tcp_relay.h"
#include "smc/frames/deferral.h"
#include "unit/event/socket_pair.h"

namespace fairlead::relay {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;

class SocketMemoryTest : public testing::Test {
 protected:
  explicit SocketMemoryTest(std::size_t limit_bytes = 32 * kMiB) : budget(limit_bytes, 0, stats) {}

  SocketMemory begin() { return SocketMemory::begin(budget, Direction::kOutbound).value(); }

  WorkerStats stats;
  MemoryBudget budget;
  FakeStream app, net;
};

class MoreSocketMemoryTest : public SocketMemoryTest {
 protected:
  MoreSocketMemoryTest() : SocketMemoryTest(64 * kMiB) {}
};

// The charge does not depend on sockets, and a stream without descriptor is not changed.
TEST_F(SocketMemoryTest, BeginsSmallerAsTheBudgetIsUsedUpAndThenNotAtAll) {
  std::vector<SocketMemory> connections;
  std::size_t last = SIZE_MAX;
  while (auto memory = SocketMemory::begin(budget, Direction::kOutbound)) {
    EXPECT_LE(memory->charged_bytes(), last);
    last = memory->charged_bytes();
    connections.push_back(std::move(*memory));
  }
  EXPECT_LE(last, 64u * 1024);
  EXPECT_LT(budget.left_bytes(), last);
  EXPECT_GT(connections.size(), 250u);
  connections.clear();
  EXPECT_EQ(budget.left_bytes(), 32 * kMiB);
}

TEST_F(SocketMemoryTest, InboundConnectionsLeaveMemoryToTheApplicationsOwn) {
  std::vector<SocketMemory> inbound;
  while (auto memory = SocketMemory::begin(budget, Direction::kInbound))
    inbound.push_back(std::move(*memory));
  EXPECT_GT(inbound.size(), 250u);
  EXPECT_GE(budget.left_bytes(), 32 * kMiB / kInboundLeaves);
  EXPECT_TRUE(SocketMemory::begin(budget, Direction::kOutbound));
}

TEST_F(SocketMemoryTest, WhatFramesMayCarryIsPaidForBeforeTheyBegin) {
  SocketMemory memory = begin();
  const std::size_t before = memory.charged_bytes();
  ASSERT_TRUE(memory.begin_frames(smc::kFramedBytesMax));
  EXPECT_EQ(memory.charged_bytes(), before + smc::kFramedBytesMax);
  memory.keep_ahead(smc::kFramedBytesMax);
  EXPECT_EQ(memory.charged_bytes(), before + smc::kFramedBytesMax);
  memory.keep_ahead(100'000);
  EXPECT_EQ(memory.charged_bytes(), before + 100'000);
  // Nothing is taken again.
  memory.keep_ahead(smc::kFramedBytesMax);
  EXPECT_EQ(memory.charged_bytes(), before + 100'000);
  memory.keep_ahead(0);
  EXPECT_EQ(memory.charged_bytes(), before);
}

TEST(SocketMemory, FramesAreRefusedBeforeConnectionsWithoutThemAre) {
  for (const Direction direction : {Direction::kOutbound, Direction::kInbound}) {
    WorkerStats stats;
    MemoryBudget budget(32 * kMiB, 0, stats);
    std::vector<SocketMemory> connections;
    std::size_t in_frames = 0;
    while (auto memory = SocketMemory::begin(budget, direction)) {
      const std::size_t before = memory->charged_bytes();
      const bool begun = memory->begin_frames(smc::kFramedBytesMax);
      EXPECT_EQ(memory->charged_bytes(), before + (begun ? smc::kFramedBytesMax : 0));
      in_frames += begun ? 1U : 0U;
      connections.push_back(std::move(*memory));
    }
    EXPECT_GT(in_frames, 50U);
    const std::size_t without = connections.size() - in_frames;
    if (direction == Direction::kOutbound)
      EXPECT_GT(without, 100U);
    else
      EXPECT_LT(without, 5U);
  }
}

// A connection that leaves SMC-R needs what frames may carry, and its ring. It takes no more than
// it has, if smaller sockets make that enough.
TEST_F(SocketMemoryTest, LeavingSmcIsPaidForOrChangesNothing) {
  constexpr std::size_t kRing = 4 * kMiB;
  SocketMemory memory = begin();
  memory.become_smc(net);
  const std::size_t over_smc = memory.charged_bytes();
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, budget.left_bytes()));
  EXPECT_FALSE(memory.leave_smc(app, net, kRing));
  EXPECT_EQ(memory.charged_bytes(), over_smc);
  budget.give_back(MemoryUse::kConnections, 5 * kMiB);
  EXPECT_TRUE(memory.leave_smc(app, net, kRing));
  EXPECT_GE(memory.charged_bytes(), smc::kFramedBytesMax + kRing);
  EXPECT_LE(memory.charged_bytes(), over_smc + 5 * kMiB);
}

TEST_F(MoreSocketMemoryTest, LeavingSmcTakesLittleWhereSmallerSocketsSuffice) {
  SocketMemory memory = begin();
  memory.become_smc(net);
  const std::size_t over_smc = memory.charged_bytes();
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, budget.left_bytes()));
  // The window of the application's socket stays.
  budget.give_back(MemoryUse::kConnections, smc::kFramedBytesMax);
  EXPECT_TRUE(memory.leave_smc(app, net, 64 * 1024));
  EXPECT_LE(memory.charged_bytes(), over_smc + smc::kFramedBytesMax);
}

TEST_F(MoreSocketMemoryTest, LeavingSmcKeepsLargeBuffersWhileHalfOfTheBudgetIsLeft) {
  std::vector<SocketMemory> connections;
  for (int i = 0; i < 40; ++i) {
    SocketMemory memory = begin();
    memory.become_smc(net);
    connections.push_back(std::move(memory));
  }
  const std::size_t largest = std::size(kSocketBufferBytes) - 1;
  const std::size_t before = connections.front().charged_bytes();
  ASSERT_TRUE(connections.front().leave_smc(app, net, 64 * 1024));
  EXPECT_GT(connections.front().charged_bytes(), before + 4 * kSocketBufferBytes[largest]);
  for (std::size_t i = 1; i < connections.size(); ++i)
    EXPECT_TRUE(connections[i].leave_smc(app, net, 64 * 1024)) << i;
  EXPECT_GT(budget.left_bytes(), budget.limit_bytes() / 4);
}

TEST_F(SocketMemoryTest, AResumedConnectionPaysForWhatWaits) {
  const auto begun = SocketMemory::begin(budget, Direction::kOutbound);
  const auto resumed = SocketMemory::resume(budget, kMiB);
  ASSERT_TRUE(begun && resumed);
  EXPECT_GE(resumed->charged_bytes(), kMiB);
  EXPECT_FALSE(SocketMemory::resume(budget, 32 * kMiB));
}

class BoundedSockets : public SocketMemoryTest {
 protected:
  BoundedSockets() : SocketMemoryTest(256 * kMiB) {}
  // One that bounds its sockets once so much is used.
  SocketMemory begin_bounded(std::size_t used_bytes) {
    EXPECT_TRUE(budget.take(MemoryUse::kConnections, used_bytes));
    SocketMemory memory = begin();
    EXPECT_TRUE(memory.bound(*pair.dialled, SocketMemory::Leg::kApp));
    return memory;
  }
  std::size_t queued(int what) const {
    std::uint32_t values[SK_MEMINFO_VARS] = {};
    socklen_t length = sizeof values;
    EXPECT_EQ(::getsockopt(pair.dialled->descriptor(), SOL_SOCKET, SO_MEMINFO, values, &length), 0);
    return values[what];
  }

  event::SocketPair pair;
};

TEST_F(BoundedSockets, AReaderThatStallsCostsNoMoreThanWasSetAside) {
  SocketMemory memory = begin_bounded(200 * kMiB);
  const std::string piece(kCopyBytes, 'x');
  // The other side reads nothing; only the kernel's buffers accept data.
  while (event::SocketPair::write(*pair.dialled, piece) != 0)
    ASSERT_LE(queued(SK_MEMINFO_WMEM_QUEUED), memory.charged_bytes() - kConnectionBytes);
  EXPECT_LE(queued(SK_MEMINFO_WMEM_QUEUED), 2 * kLeastSendBytes);
}

TEST_F(BoundedSockets, AConnectionThatMovesBytesGrowsWhileHalfOfTheBudgetIsFree) {
  // It does not begin with the largest buffers.
  SocketMemory memory = begin_bounded(65 * kMiB);
  const std::size_t before = memory.charged_bytes();
  const std::size_t buffer = queued(SK_MEMINFO_SNDBUF);
  memory.moved(kMiB, *pair.dialled, pair.accepted.get());
  EXPECT_GT(memory.charged_bytes(), before);
  EXPECT_GT(queued(SK_MEMINFO_SNDBUF), buffer);

  auto late = SocketMemory::begin(budget, Direction::kOutbound);
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 65 * kMiB));
  const std::size_t least = late->charged_bytes();
  late->moved(kMiB, *pair.dialled, pair.accepted.get());
  const std::size_t next = late->charged_bytes();
  EXPECT_GT(next, least);
  EXPECT_LT(next, 3 * least);
  late->moved(2 * kMiB, *pair.dialled, pair.accepted.get());
  EXPECT_EQ(late->charged_bytes(), next);

  auto last = SocketMemory::begin(budget, Direction::kOutbound);
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 65 * kMiB));
  last->moved(kMiB, *pair.dialled, pair.accepted.get());
  EXPECT_EQ(last->charged_bytes(), least);
}

TEST_F(BoundedSockets, WhereMemoryIsPlentySocketsAreBoundedOnceTheyHaveMovedBytes) {
  SocketMemory memory = begin();
  const std::size_t before = queued(SK_MEMINFO_SNDBUF);
  ASSERT_TRUE(memory.bound(*pair.dialled, SocketMemory::Leg::kApp));
  memory.moved(kBoundAtBytes - 1, *pair.accepted, pair.dialled.get());
  EXPECT_EQ(queued(SK_MEMINFO_SNDBUF), before);
  memory.moved(kBoundAtBytes, *pair.accepted, pair.dialled.get());
  EXPECT_EQ(queued(SK_MEMINFO_SNDBUF), 2 * kSocketBufferBytes[kApplicationLevel]);
  EXPECT_EQ(queued(SK_MEMINFO_RCVBUF), 2 * kSocketBufferBytes[kApplicationLevel]);
}

TEST_F(BoundedSockets, WhereMemoryIsShortSocketsAreBoundedAtOnce) {
  SocketMemory memory = begin_bounded(200 * kMiB);
  EXPECT_EQ(queued(SK_MEMINFO_SNDBUF), 4608U);  // the kernel's minimum
  EXPECT_EQ(queued(SK_MEMINFO_RCVBUF), 2 * kSocketBufferBytes[0]);
}

// The defaults of the kernel are what a stream of a connection can cost before it is bounded.
TEST_F(BoundedSockets, AnUnboundedStreamCostsNoMoreThanWasSetAside) {
  SocketMemory memory = begin_bounded(0);
  const std::string piece(kBoundAtBytes - 1, 'x');
  event::SocketPair::write(*pair.dialled, piece);
  EXPECT_LE(queued(SK_MEMINFO_WMEM_QUEUED), memory.charged_bytes() - kConnectionBytes);
  EXPECT_LE(queued(SK_MEMINFO_RCVBUF), memory.charged_bytes() - kConnectionBytes);
}

TEST_F(MoreSocketMemoryTest, NewConnectionsBeginSmallerWhenAnEighthIsUsed) {
  EXPECT_EQ(SocketMemory::level_for(budget), kApplicationLevel);
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 8 * kMiB));
  EXPECT_EQ(SocketMemory::level_for(budget), kApplicationLevel);
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 1));
  EXPECT_EQ(SocketMemory::level_for(budget), kGrownLevel);
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 4 * kMiB));
  EXPECT_EQ(SocketMemory::level_for(budget), kLeastLevel);
}

TEST_F(SocketMemoryTest, AllConnectionsBeginSmallWhereTheLimitIs) {
  EXPECT_EQ(SocketMemory::level_for(budget), kLeastLevel);
}

TEST(SocketMemory, AsManyConnectionsFitAsIsPromised) {
  const std::pair<std::size_t, std::size_t> promises[] = {{32 * kMiB, 1000}, {512 * kMiB, 10'000}};
  for (const auto& [limit, count] : promises)
    for (const Direction direction : {Direction::kOutbound, Direction::kInbound}) {
      WorkerStats stats;
      MemoryBudget budget(limit, 0, stats);
      std::vector<SocketMemory> connections;
      while (auto memory = SocketMemory::begin(budget, direction))
        connections.push_back(std::move(*memory));
      EXPECT_GE(connections.size(), count) << to_string(direction);
    }
}

// What comes within a window that has been announced would be dropped.
TEST_F(BoundedSockets, AConnectionKeepsRoomForItsFirstWindow) {
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 100 * kMiB));
  SocketMemory memory = begin();
  const std::size_t before = memory.charged_bytes();
  ASSERT_TRUE(memory.bound(*pair.dialled, SocketMemory::Leg::kApp));
  constexpr std::size_t kRoom = 2 * kSocketBufferBytes[kFirstWindowLevel];
  EXPECT_EQ(queued(SK_MEMINFO_RCVBUF), kRoom);
  EXPECT_EQ(memory.charged_bytes(), before + kRoom - 2 * kSocketBufferBytes[0]);
}

TEST_F(BoundedSockets, RoomForFirstWindowsLeavesHalfToOthers) {
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 200 * kMiB));
  SocketMemory memory = begin();
  const std::size_t before = memory.charged_bytes();
  ASSERT_TRUE(memory.bound(*pair.dialled, SocketMemory::Leg::kApp));
  EXPECT_EQ(queued(SK_MEMINFO_RCVBUF), 2 * kSocketBufferBytes[0]);
  EXPECT_EQ(memory.charged_bytes(), before);
}

TEST_F(BoundedSockets, ABufferThatWasChosenInTimeIsNotCharged) {
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 200 * kMiB));
  SocketMemory memory = begin();
  const std::size_t before = memory.charged_bytes();
  SocketMemory::prepare(pair.dialled->descriptor(), memory.dialled_level());
  ASSERT_TRUE(memory.bound(*pair.dialled, SocketMemory::Leg::kApp));
  EXPECT_EQ(queued(SK_MEMINFO_RCVBUF), 2 * kSocketBufferBytes[0]);
  EXPECT_EQ(memory.charged_bytes(), before);
}

TEST_F(SocketMemoryTest, FramesAreOfferedWhileAQuarterIsLeftAndAgainFromThreeEighths) {
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 24 * kMiB));
  EXPECT_TRUE(SocketMemory::affords_frames(budget, true));
  EXPECT_FALSE(SocketMemory::affords_frames(budget, false));
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 1));
  EXPECT_FALSE(SocketMemory::affords_frames(budget, true));
  budget.give_back(MemoryUse::kConnections, 4 * kMiB + 1);
  EXPECT_TRUE(SocketMemory::affords_frames(budget, false));
}

TEST_F(BoundedSockets, AnSmcConnectionGivesBackWhatTcpWouldNeed) {
  SocketMemory memory = begin();
  const std::size_t before = memory.charged_bytes();
  memory.become_smc(*pair.accepted);
  EXPECT_LT(memory.charged_bytes(), before * 2 / 3);
}

// The peer knows the window of before, and sends again when the connection is back in frames.
TEST_F(BoundedSockets, AReceiveBufferOutlivesSmc) {
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 100 * kMiB));
  SocketMemory memory = begin();
  ASSERT_TRUE(memory.bound(*pair.dialled, SocketMemory::Leg::kNet));
  memory.moved(kMiB, *pair.accepted, pair.dialled.get());
  const std::size_t before = queued(SK_MEMINFO_RCVBUF);
  ASSERT_GT(before, 2 * kSocketBufferBytes[kLeastLevel]);
  memory.become_smc(*pair.dialled);
  ASSERT_LT(queued(SK_MEMINFO_RCVBUF), before);
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, budget.left_bytes() - 256 * 1024));
  ASSERT_TRUE(memory.leave_smc(*pair.accepted, *pair.dialled, 4096));
  EXPECT_EQ(queued(SK_MEMINFO_RCVBUF), before);
}

TEST_F(BoundedSockets, AReceiveBufferOutlivesAProcess) {
  SocketMemory first = begin();
  first.moved(kBoundAtBytes, *pair.accepted, pair.dialled.get());
  const std::size_t before = queued(SK_MEMINFO_RCVBUF);
  ASSERT_EQ(before, 2 * kSocketBufferBytes[kApplicationLevel]);
  // Less than half is left for the next one, and it begins with the least.
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 200 * kMiB));
  auto next = SocketMemory::resume(budget, 0);
  ASSERT_TRUE(next);
  ASSERT_TRUE(next->bound(*pair.dialled, SocketMemory::Leg::kNet));
  EXPECT_EQ(queued(SK_MEMINFO_RCVBUF), before);
  EXPECT_GT(next->charged_bytes(), before);
}

TEST_F(BoundedSockets, WhatCameInBeforeIsPaidForToo) {
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 200 * kMiB));
  SocketMemory memory = begin();
  const std::size_t before = memory.charged_bytes();
  const std::string flood(32 * 1024, 'x');
  ASSERT_EQ(event::SocketPair::write(*pair.accepted, flood), flood.size());
  pair.until([&] { return pair.dialled->readable(); });
  ASSERT_TRUE(memory.bound(*pair.dialled, SocketMemory::Leg::kApp));
  EXPECT_GE(memory.charged_bytes(), before + flood.size());
}

}  // namespace
}  // namespace fairlead::relay
