#include "rdma/shm/memory/shm_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

namespace fairlead::rdma::shm {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed * 31 + i);
  return bytes;
}

class ShmRing : public testing::Test {
 protected:
  bool push(const Bytes& message, std::uint32_t source = 7, std::uint32_t destination = 9) {
    if (slots_for(message.size()) > producer_.free_slots()) return false;
    producer_.push({QpNumber(destination), QpNumber(source)}, message);
    producer_.publish();
    return true;
  }
  // The message at the front, or nothing.
  std::optional<Bytes> pull() {
    if (!consumer_.refresh() || consumer_.empty()) return std::nullopt;
    auto header = consumer_.front();
    if (!header) return std::nullopt;
    EXPECT_EQ(header->source, QpNumber(7));
    EXPECT_EQ(header->destination, QpNumber(9));
    Bytes bytes(header->length_bytes);
    consumer_.copy_front(bytes);
    consumer_.pop(*header);
    consumer_.publish();
    return bytes;
  }

  std::unique_ptr<RingMemory> memory_ = std::make_unique<RingMemory>();
  RingProducer producer_{*memory_};
  RingConsumer consumer_{*memory_};
};

TEST_F(ShmRing, CountsSlots) {
  static_assert(slots_for(1) == 1);
  static_assert(slots_for(kShortMessageBytes) == 1);
  static_assert(slots_for(kShortMessageBytes + 1) == 2);
  static_assert(slots_for(44) == 1);
  static_assert(slots_for(kMessageBytesMax) == kSlotsPerMessageMax);
  EXPECT_EQ(producer_.free_slots(), kRingSlots);
}

TEST_F(ShmRing, KeepsProducerAndConsumerOffEachOthersCacheLines) {
  const auto* base = reinterpret_cast<const std::byte*>(memory_.get());
  auto line = [&](const void* at) { return (static_cast<const std::byte*>(at) - base) / 64; };
  EXPECT_NE(line(&memory_->tail), line(&memory_->head));
  EXPECT_NE(line(&memory_->head), line(memory_->slots));
}

TEST_F(ShmRing, NothingIsSeenBeforePublish) {
  producer_.push({QpNumber(9), QpNumber(7)}, pattern(10, 1));
  EXPECT_FALSE(pull());
  producer_.publish();
  EXPECT_EQ(pull(), pattern(10, 1));
}

TEST_F(ShmRing, MessagesOfAllSizesPassTheWrap) {
  unsigned seed = 0;
  for (std::size_t size = 1; size <= kMessageBytesMax; size += 1 + size / 7) {
    for (int twice = 0; twice < 2; ++twice) {
      const Bytes message = pattern(size, ++seed);
      ASSERT_TRUE(producer_.refresh());
      ASSERT_TRUE(push(message));
      ASSERT_EQ(pull(), message) << size;
    }
  }
  EXPECT_GT(producer_.tail(), kRingSlots);  // else nothing wrapped
}

TEST_F(ShmRing, TheLongestMessageFillsItsSlots) {
  const Bytes message = pattern(kMessageBytesMax, 3);
  ASSERT_TRUE(push(message));
  EXPECT_EQ(producer_.tail(), kSlotsPerMessageMax);
  EXPECT_EQ(pull(), message);
  EXPECT_EQ(consumer_.head(), kSlotsPerMessageMax);
}

TEST_F(ShmRing, WhatIsPublishedInOrderIsSeenToo) {
  producer_.push({QpNumber(9), QpNumber(7)}, pattern(10, 1));
  producer_.publish_ordered();
  EXPECT_EQ(consumer_.peek_tail(), 1u);
  EXPECT_EQ(consumer_.peek_tail_ordered(), 1u);
  ASSERT_TRUE(consumer_.refresh());
  consumer_.pop(*consumer_.front());
  EXPECT_EQ(producer_.peek_head(), 0u);
  consumer_.publish_ordered();
  EXPECT_EQ(producer_.peek_head(), 1u);
  EXPECT_EQ(producer_.peek_head_ordered(), 1u);
}

TEST_F(ShmRing, FillsUpAndDrains) {
  std::uint64_t count = 0;
  while (push(pattern(44, static_cast<unsigned>(count)))) ++count;
  EXPECT_EQ(count, kRingSlots);
  ASSERT_TRUE(producer_.refresh());
  EXPECT_EQ(producer_.free_slots(), 0u);
  for (unsigned i = 0; i < count; ++i) ASSERT_EQ(pull(), pattern(44, i));
  EXPECT_EQ(producer_.free_slots(), 0u);
  ASSERT_TRUE(producer_.refresh());
  EXPECT_EQ(producer_.free_slots(), kRingSlots);
}

TEST_F(ShmRing, ConsumerRefusesImpossibleTails) {
  ASSERT_TRUE(push(pattern(44, 1)));
  ASSERT_TRUE(push(pattern(44, 1)));
  ASSERT_TRUE(pull());
  for (std::uint64_t lie : {std::uint64_t{1}, kRingSlots + 2, std::uint64_t{1} << 63,
                            ~std::uint64_t{0}, std::uint64_t{0}}) {
    memory_->tail = lie;
    EXPECT_FALSE(consumer_.refresh()) << lie;
  }
  memory_->tail = kRingSlots + 1;  // full, but possible
  EXPECT_TRUE(consumer_.refresh());
}

TEST_F(ShmRing, ProducerRefusesImpossibleHeads) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(push(pattern(44, 1)));
  ASSERT_TRUE(pull());
  ASSERT_TRUE(pull());
  ASSERT_TRUE(producer_.refresh());
  for (std::uint64_t lie : {std::uint64_t{1}, std::uint64_t{4}, ~std::uint64_t{0}}) {
    memory_->head = lie;
    EXPECT_FALSE(producer_.refresh()) << lie;
  }
  EXPECT_EQ(producer_.head(), 2u);
}

TEST_F(ShmRing, ConsumerRefusesImpossibleLengths) {
  for (std::uint64_t lie :
       {std::uint64_t{0}, std::uint64_t{kMessageBytesMax} + 1, std::uint64_t{1} << 32,
        ~std::uint64_t{0}, std::uint64_t{kShortMessageBytes} + 1}) {
    auto memory = std::make_unique<RingMemory>();
    memory->slots[0].words[1] = lie;
    memory->tail = 1;
    RingConsumer consumer(*memory);
    ASSERT_TRUE(consumer.refresh());
    auto header = consumer.front();
    ASSERT_FALSE(header) << lie;
    EXPECT_EQ(header.error().code, Errc::kMalformed);
  }
}

TEST_F(ShmRing, ConsumerRefusesAMessageThatReachesPastTheTail) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    ASSERT_TRUE(push(pattern(44, seed)));
    ASSERT_TRUE(pull());
  }
  ASSERT_TRUE(push(pattern(kShortMessageBytes + 1, 3)));
  memory_->slots[3].words[1] = 2 * kSlotBytes;  // three slots, of which there are two
  ASSERT_TRUE(consumer_.refresh());
  EXPECT_EQ(consumer_.front().error().code, Errc::kMalformed);
  memory_->slots[3].words[1] = kSlotBytes;
  EXPECT_EQ(consumer_.front()->length_bytes, kSlotBytes);
}

}  // namespace
}  // namespace fairlead::rdma::shm
