#include "rdma/shm/channel/shm_control.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace fairlead::rdma::shm {
namespace {

using Kind = ControlMessage::Kind;

ControlMessage full(Kind kind) {
  return {.kind = kind,
          .source = QpNumber(0x123456),
          .destination = QpNumber(0x654321),
          .source_port = PortNumber(1),
          .destination_port = PortNumber(2),
          .domain = DomainId(0x11223344),
          .rkey = RemoteKey(0x55667788),
          .address = RemoteAddress(0x99aabbccddeeff00),
          .size_bytes = 0x0102030405060708,
          .buffer = {0x1112131415161718, 0x2122232425262728}};
}

constexpr Kind kKinds[] = {Kind::kQueuePairReady, Kind::kQueuePairGone, Kind::kAnnounce,
                           Kind::kWithdraw};

class ShmControlRing : public testing::Test {
 protected:
  std::unique_ptr<ControlRingMemory> memory_ = std::make_unique<ControlRingMemory>();
  ControlProducer producer_{*memory_};
  ControlConsumer consumer_{*memory_};
};

TEST(ShmControl, DecodesWhatItEncodes) {
  for (Kind kind : kKinds) EXPECT_EQ(decode_control(encode(full(kind))), full(kind));
}

TEST(ShmControl, RejectsOtherLengthsAndKinds) {
  ControlBytes bytes = encode(full(Kind::kWithdraw));
  for (std::size_t size = 0; size < kControlBytes; ++size)
    EXPECT_EQ(decode_control(std::span(bytes).first(size)).error().code, Errc::kTruncated);
  const std::vector<std::byte> longer(kControlBytes + 1);
  EXPECT_EQ(decode_control(longer).error().code, Errc::kMalformed);
  for (int kind : {0, 5, 255}) {
    bytes[0] = static_cast<std::byte>(kind);
    EXPECT_EQ(decode_control(bytes).error().code, Errc::kMalformed);
  }
}

TEST_F(ShmControlRing, PassesMessagesInOrderAroundTheEnd) {
  EXPECT_FALSE(consumer_.waiting());
  for (std::uint64_t i = 0; i < 3 * kControlSlots; ++i) {
    ControlMessage message = full(kKinds[i % 4]);
    message.size_bytes = i;
    ASSERT_TRUE(producer_.push(message));
    ASSERT_TRUE(consumer_.waiting());
    ASSERT_EQ(consumer_.front(), message);
    ASSERT_EQ(consumer_.front(), message);  // it stays
    consumer_.pop();
  }
  EXPECT_EQ(consumer_.front().error().code, Errc::kWouldBlock);
}

TEST_F(ShmControlRing, AFullRingGivesBackAllItsMessages) {
  constexpr std::uint64_t kBefore = 10;  // the end of the ring lies within what follows
  for (std::uint64_t i = 0; i < kBefore; ++i) {
    ASSERT_TRUE(producer_.push(full(Kind::kWithdraw)));
    consumer_.pop();
  }
  EXPECT_EQ(producer_.tail(), kBefore);
  const auto numbered = [](std::uint64_t i) {
    ControlMessage message = full(kKinds[i % 4]);
    message.buffer.number = i;
    return message;
  };
  for (std::uint64_t i = 0; i < kControlSlots; ++i) ASSERT_TRUE(producer_.push(numbered(i)));
  EXPECT_EQ(producer_.push(numbered(0)).error().code, Errc::kWouldBlock);
  consumer_.pop();
  EXPECT_TRUE(producer_.push(numbered(kControlSlots)));
  for (std::uint64_t i = 1; i <= kControlSlots; ++i) {
    ASSERT_EQ(consumer_.front(), numbered(i)) << i;
    consumer_.pop();
  }
  EXPECT_FALSE(consumer_.waiting());
}

// The consumer writes its index, and each look at it costs a cache miss. The impossible one here
// would be refused.
TEST_F(ShmControlRing, TheHeadIsLookedAtOnlyWhenTheRingSeemsFull) {
  for (std::uint64_t i = 0; i <= kControlSlots; ++i) {
    ASSERT_TRUE(producer_.push(full(Kind::kAnnounce)));
    consumer_.pop();
  }
  memory_->head = 3 * kControlSlots;
  for (std::uint64_t i = 1; i < kControlSlots; ++i)
    ASSERT_TRUE(producer_.push(full(Kind::kAnnounce))) << i;
  EXPECT_EQ(producer_.push(full(Kind::kAnnounce)).error().code, Errc::kMalformed);
}

TEST_F(ShmControlRing, RefusesImpossibleIndices) {
  memory_->tail = kControlSlots + 1;
  EXPECT_EQ(consumer_.front().error().code, Errc::kMalformed);
  memory_->tail = ~std::uint64_t{0};
  EXPECT_EQ(consumer_.front().error().code, Errc::kMalformed);
  for (std::uint64_t i = 0; i < kControlSlots; ++i)
    ASSERT_TRUE(producer_.push(full(Kind::kAnnounce)));
  memory_->head = kControlSlots + 1;
  EXPECT_EQ(producer_.push(full(Kind::kAnnounce)).error().code, Errc::kMalformed);
}

}  // namespace
}  // namespace fairlead::rdma::shm
