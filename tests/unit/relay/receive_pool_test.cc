// Buffers that wait for messages: how many there are, how they are found and posted again, and when
// they become more.

#include "relay/group/receive_pool.h"

#include <algorithm>

#include "fake_device.h"

namespace fairlead::relay {
namespace {

constexpr PoolSize kSize{32, 8, 8};

class ReceivePoolTest : public testing::Test {
 protected:
  Result<std::unique_ptr<ReceivePool>> try_create() {
    return ReceivePool::create(pools, device, domain, kSize, budget);
  }
  std::unique_ptr<ReceivePool> create() { return std::move(try_create().value()); }
  static FakeReceiveQueue& queue_of(ReceivePool& pool) {
    return dynamic_cast<FakeReceiveQueue&>(pool.queue());
  }
  // A message came into what was posted as number `index`.
  static rdma::Completion received(ReceivePool& pool, std::size_t index) {
    rdma::Completion completion;
    completion.kind = rdma::Completion::Kind::kReceive;
    completion.id = queue_of(pool).posted.at(index).id;
    completion.length_bytes = 3;
    return completion;
  }
  // The first ones are taken back and posted again.
  Result<void> use(ReceivePool& pool, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) pool.take_back(received(pool, i));
    return pools.post_again();
  }
  std::size_t paid_bytes() const { return budget.used_bytes(MemoryUse::kMessages); }

  WorkerStats stats;
  MemoryBudget budget{std::size_t{4} << 20, 0, stats};
  FakeDevice device{"one"};
  rdma::ProtectionDomain domain;
  ReceivePools pools;
};

TEST(PoolOfWorker, TakesAPartOfTheMemoryBetweenTwoSizes) {
  constexpr std::size_t kMessage = rdma::kMessageBytesMax;
  EXPECT_EQ(pool_of_worker(0).entries, kPoolEntriesMin);
  EXPECT_EQ(pool_of_worker(100 * kMessage * kPoolShare).entries, 100U);
  const PoolSize largest = pool_of_worker(std::size_t{1} << 40);
  EXPECT_EQ(largest.entries, kPoolOfWorker.entries);
  EXPECT_EQ(largest.limit, kPoolOfWorker.limit);
  EXPECT_EQ(pool_of_worker(0).limit, kPoolEntriesMin * kPoolOfWorker.limit / kPoolOfWorker.entries);
}

TEST_F(ReceivePoolTest, BeginsWithAFewBuffersThatAreAllPosted) {
  const auto pool = create();
  EXPECT_EQ(pool->buffer_count(), kSize.first);
  const FakeReceiveQueue& queue = queue_of(*pool);
  ASSERT_EQ(queue.posted.size(), kSize.first);
  EXPECT_EQ(queue.limit, kSize.limit * kSize.first / kSize.entries);
  EXPECT_EQ(paid_bytes(), kSize.first * rdma::kMessageBytesMax);
  for (std::size_t i = 0; i < kSize.first; ++i) {
    EXPECT_EQ(queue.posted[i].offset, i * rdma::kMessageBytesMax);
    EXPECT_EQ(queue.posted[i].length_bytes, rdma::kMessageBytesMax);
  }
}

TEST_F(ReceivePoolTest, WhatCannotBeMadeCostsNothing) {
  const Error error{Errc::kExhausted, "what the device says"};
  for (std::optional<Error>* fails : {&device.queue_error, &device.buffer_error}) {
    *fails = error;
    EXPECT_EQ(error_of(try_create()), error);
    fails->reset();
    EXPECT_EQ(paid_bytes(), 0U);
  }
  const auto rest = MemoryCharge::take(budget, MemoryUse::kConnections, budget.left_bytes());
  ASSERT_TRUE(rest);
  EXPECT_STREQ(try_create().error().what, kBudgetSpent);
  EXPECT_TRUE(device.buffers.empty());
}

TEST_F(ReceivePoolTest, AMessageIsFoundByItsCompletion) {
  const auto first = create();
  const auto second = create();
  const rdma::Completion completion = received(*second, 5);
  const rdma::ReceiveRequest& request = queue_of(*second).posted[5];
  std::fill_n(request.buffer->bytes().begin() + static_cast<std::ptrdiff_t>(request.offset), 3,
              std::byte{7});
  ASSERT_EQ(pools.pool_of(completion), second.get());
  const std::span<const std::byte> message = second->message(completion);
  EXPECT_EQ(std::vector(message.begin(), message.end()), std::vector(3, std::byte{7}));
  EXPECT_EQ(pools.pool_of(received(*first, 5)), first.get());
}

TEST_F(ReceivePoolTest, AMessageOfAPoolThatHasGoneIsNotFound) {
  auto pool = create();
  const rdma::Completion completion = received(*pool, 0);
  pool->take_back(completion);
  pool.reset();
  EXPECT_EQ(pools.pool_of(completion), nullptr);
  EXPECT_TRUE(pools.post_again());
  EXPECT_EQ(paid_bytes(), 0U);
}

TEST_F(ReceivePoolTest, WhatIsTakenBackIsPostedOnceMore) {
  const auto pool = create();
  const rdma::Completion completion = received(*pool, 3);
  pool->take_back(completion);
  EXPECT_EQ(queue_of(*pool).posted.size(), kSize.first) << "not yet";
  ASSERT_TRUE(pools.post_again());
  ASSERT_EQ(queue_of(*pool).posted.size(), kSize.first + 1);
  EXPECT_EQ(queue_of(*pool).posted.back().id, completion.id);
  ASSERT_TRUE(pools.post_again());
  EXPECT_EQ(queue_of(*pool).posted.size(), kSize.first + 1);
}

TEST_F(ReceivePoolTest, ACrowdedPoolDoublesUpToItsSize) {
  const auto pool = create();
  ASSERT_TRUE(use(*pool, kSize.first / 2));
  EXPECT_EQ(pool->buffer_count(), kSize.first) << "half of them is no crowd";
  ASSERT_TRUE(use(*pool, kSize.first / 2 + 1));
  EXPECT_EQ(pool->buffer_count(), 2 * kSize.first);
  EXPECT_EQ(queue_of(*pool).posted.size(), 2 * kSize.first + kSize.first / 2 * 2 + 1);
  EXPECT_EQ(queue_of(*pool).limit, kSize.limit * 2 * kSize.first / kSize.entries);
  EXPECT_NE(queue_of(*pool).posted.back().buffer, queue_of(*pool).posted.front().buffer);
  ASSERT_TRUE(use(*pool, kSize.first + 1));
  EXPECT_EQ(pool->buffer_count(), kSize.entries);
  ASSERT_TRUE(use(*pool, kSize.entries));
  EXPECT_EQ(pool->buffer_count(), kSize.entries);
  EXPECT_EQ(paid_bytes(), kSize.entries * rdma::kMessageBytesMax);
}

TEST_F(ReceivePoolTest, WithoutMemoryForMoreAPoolGoesOnWithWhatItHas) {
  const auto pool = create();
  device.buffer_error = Error{Errc::kExhausted, "locked memory"};
  ASSERT_TRUE(use(*pool, kSize.first));
  EXPECT_EQ(pool->buffer_count(), kSize.first);
  EXPECT_EQ(queue_of(*pool).posted.size(), 2 * kSize.first);
  EXPECT_EQ(paid_bytes(), kSize.first * rdma::kMessageBytesMax);
}

TEST_F(ReceivePoolTest, TheLimitIsArmedAgainAfterItWasReached) {
  const auto pool = create();
  queue_of(*pool).limit = 0;
  ASSERT_TRUE(use(*pool, 1));
  EXPECT_EQ(queue_of(*pool).limit, 0U);
  pools.limit_reached();
  ASSERT_TRUE(use(*pool, 1));
  EXPECT_EQ(queue_of(*pool).limit, kSize.limit * kSize.first / kSize.entries);
}

TEST_F(ReceivePoolTest, AQueueThatTakesNothingKeepsNoOtherFromItsBuffers) {
  const auto broken = create();
  const auto good = create();
  queue_of(*broken).post_error = Error{Errc::kExhausted, "receive queue"};
  broken->take_back(received(*broken, 0));
  const Result<void> posted = use(*good, 1);
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error(), *queue_of(*broken).post_error);
  EXPECT_EQ(queue_of(*good).posted.size(), kSize.first + 1);
  queue_of(*broken).post_error.reset();
  ASSERT_TRUE(pools.post_again());
  EXPECT_EQ(queue_of(*broken).posted.size(), kSize.first + 1) << "it has kept its buffer";
}

}  // namespace
}  // namespace fairlead::relay
