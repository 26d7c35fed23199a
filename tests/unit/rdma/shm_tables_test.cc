// The tables of a device: what a peer told, its own queue pairs, and events that wait.
#include <gtest/gtest.h>

#include <set>

#include "rdma/shm/shm_events.h"
#include "rdma/shm/shm_queue_pair_table.h"
#include "rdma/shm/shm_remote_table.h"

namespace fairlead::rdma::shm {
namespace {

constexpr DomainId kDomain{5}, kOther{6};

ControlMessage announcement(RemoteKey key, DomainId domain, std::uint64_t size = 4096) {
  return {.kind = ControlMessage::Kind::kAnnounce,
          .domain = domain,
          .rkey = key,
          .address = RemoteAddress(0x1000),
          .size_bytes = size};
}

class ShmRemoteTable : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(table_.add_queue_pair(QpNumber(1), {kDomain, QpNumber(100)}));
    ASSERT_TRUE(table_.add_buffer(announcement(RemoteKey(7), kDomain), segment_.fd.get()));
  }
  std::byte* find(RemoteKey key, std::uint64_t address, std::size_t length,
                  DomainId domain = kDomain) {
    return table_.find(domain, key, RemoteAddress(address), length, false);
  }

  Segment segment_ = std::move(create_segment("test", 4096).value());
  RemoteTable table_;
};

TEST_F(ShmRemoteTable, FindsWhatWasAnnouncedAndNothingBeside) {
  ASSERT_NE(find(RemoteKey(7), 0x1000, 4096), nullptr);
  *find(RemoteKey(7), 0x1fff, 1) = std::byte{3};
  EXPECT_EQ(segment_.mapping.bytes()[4095], std::byte{3});
  EXPECT_NE(find(RemoteKey(7), 0x2000, 0), nullptr);
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 4097), nullptr);
  EXPECT_EQ(find(RemoteKey(7), 0x0fff, 1), nullptr);
  EXPECT_EQ(find(RemoteKey(7), 0x2001, 0), nullptr);
  EXPECT_EQ(find(RemoteKey(7), ~std::uint64_t{0}, 2), nullptr);
  EXPECT_EQ(find(RemoteKey(7), 0x1001, SIZE_MAX), nullptr);
  EXPECT_EQ(find(RemoteKey(8), 0x1000, 1), nullptr);
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 1, kOther), nullptr);
}

TEST_F(ShmRemoteTable, BuffersGoWithTheLastQueuePairOfTheirDomain) {
  ASSERT_TRUE(table_.add_queue_pair(QpNumber(2), {kDomain, QpNumber(101)}));
  ASSERT_TRUE(table_.add_queue_pair(QpNumber(3), {kOther, QpNumber(102)}));
  ASSERT_TRUE(table_.add_buffer(announcement(RemoteKey(8), kOther), segment_.fd.get()));
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(1)));
  EXPECT_NE(find(RemoteKey(7), 0x1000, 1), nullptr);
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(2)));
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 1), nullptr);
  EXPECT_NE(find(RemoteKey(8), 0x1000, 1, kOther), nullptr);
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(9)));  // unknown: nothing
  EXPECT_TRUE(table_.has_queue_pairs());
}

TEST_F(ShmRemoteTable, BufferOfADomainWithoutQueuePairIsIgnored) {
  EXPECT_TRUE(table_.add_buffer(announcement(RemoteKey(8), kOther), segment_.fd.get()));
  EXPECT_EQ(find(RemoteKey(8), 0x1000, 1, kOther), nullptr);
}

TEST_F(ShmRemoteTable, WithdrawnKeyCanBeAnnouncedAgain) {
  auto* view = table_.find(kDomain, RemoteKey(7), RemoteAddress(0x1000), 1, true);
  ASSERT_NE(view, nullptr);
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(7)));
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 1), nullptr);
  *view = std::byte{1};  // somebody's view is still memory
  EXPECT_TRUE(table_.add_buffer(announcement(RemoteKey(7), kDomain), segment_.fd.get()));
  EXPECT_NE(find(RemoteKey(7), 0x1000, 1), nullptr);
  EXPECT_EQ(segment_.mapping.bytes()[0], std::byte{0});
}

TEST_F(ShmRemoteTable, RefusesAnnouncementsTwice) {
  EXPECT_EQ(table_.add_buffer(announcement(RemoteKey(7), kDomain), segment_.fd.get()).error().code,
            Errc::kMalformed);
  EXPECT_EQ(table_.add_queue_pair(QpNumber(1), {kDomain, QpNumber(100)}).error().code,
            Errc::kMalformed);
}

TEST_F(ShmRemoteTable, LimitsBuffersQueuePairsAndSinks) {
  for (std::uint32_t i = 1; i < kRemoteQueuePairsMax; ++i)
    ASSERT_TRUE(table_.add_queue_pair(QpNumber(1000 + i), {kOther, QpNumber(1)}));
  EXPECT_EQ(table_.add_queue_pair(QpNumber(999), {kOther, QpNumber(1)}).error().code,
            Errc::kExhausted);
  std::size_t withdrawn = 0;
  while (table_.remove_buffer(RemoteKey(7))) {
    ASSERT_LE(++withdrawn, kSinksMax + 1);
    ASSERT_TRUE(table_.add_buffer(announcement(RemoteKey(7), kDomain), segment_.fd.get()));
    ASSERT_NE(table_.find(kDomain, RemoteKey(7), RemoteAddress(0x1000), 1, true), nullptr);
  }
  EXPECT_GT(withdrawn, kSinksMax / 2);
}

TEST(ShmQueuePairTable, NumbersAreUniqueAndNotReusedSoon) {
  QueuePairTable table(0xfffffffe);
  auto* queue_pair = reinterpret_cast<ShmQueuePair*>(alignof(std::max_align_t));
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 4000; ++i) {
    auto number = table.add(*queue_pair);
    ASSERT_TRUE(number);
    EXPECT_GE(number->value, 1u << 12);
    EXPECT_LT(number->value, 1u << 24);
    EXPECT_TRUE(seen.insert(number->value).second);
    EXPECT_EQ(table.find(*number), queue_pair);
    table.remove(*number);
    EXPECT_EQ(table.find(*number), nullptr);
  }
  EXPECT_EQ(table.find(QpNumber(0xffffffff)), nullptr);
  EXPECT_EQ(table.find(QpNumber(0)), nullptr);
}

TEST(ShmEvents, LatestStateOfAPortWins) {
  AsyncEvents events;
  EXPECT_TRUE(events.empty());
  for (int i = 0; i < 5; ++i) {
    events.port_changed(PortNumber(1), PortState::kDown);
    events.port_changed(PortNumber(1), PortState::kActive);
  }
  events.port_changed(PortNumber(2), PortState::kDown);
  events.receive_limit();
  events.receive_limit();
  events.queue_pair_fatal(QpNumber(3));
  events.queue_pair_fatal(QpNumber(4));
  events.forget(QpNumber(3));
  std::vector<AsyncEvent::Kind> kinds;
  while (auto event = events.poll()) kinds.push_back(event->kind);
  using Kind = AsyncEvent::Kind;
  EXPECT_EQ(kinds, (std::vector{Kind::kPortUp, Kind::kPortDown, Kind::kReceiveLimit,
                                Kind::kQueuePairFatal}));
}

}  // namespace
}  // namespace fairlead::rdma::shm
