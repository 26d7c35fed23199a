// Registered buffers of a device: keys and addresses, who is told of them, and how they end.
#include "rdma/shm/memory/shm_buffer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <thread>

#include "rdma/shm/memory/shm_discards.h"
#include "rdma/shm/shm_limits.h"
#include "unit/rdma/shm_device_test.h"

namespace fairlead::rdma::shm {
namespace {

class ShmBufferTest : public ShmDeviceTest {
 protected:
  Result<std::unique_ptr<ShmBuffer>> create(std::size_t size_bytes,
                                            BufferUse use = BufferUse::kRmb) {
    return ShmBuffer::create(domain_, size_bytes, use);
  }
  std::size_t file_pages(std::size_t blank) const {
    struct stat status {};
    EXPECT_EQ(::fstat(connector_->blanks[blank].get(), &status), 0);
    return static_cast<std::size_t>(status.st_blocks);
  }
};

TEST_F(ShmBufferTest, SizesHaveALimit) {
  EXPECT_EQ(create(0).error().code, Errc::kExhausted);
  EXPECT_EQ(create(kBufferBytesMax + 1).error().code, Errc::kExhausted);
  const auto largest = create(kBufferBytesMax);
  ASSERT_TRUE(largest);
  EXPECT_EQ((*largest)->bytes().size(), kBufferBytesMax);
  EXPECT_TRUE(create(1));
}

TEST_F(ShmBufferTest, AllTheBuffersOfADeviceHaveKeysOfTheirOwn) {
  std::vector<std::unique_ptr<ShmBuffer>> all;
  std::set<std::uint32_t> keys{messages_->rkey().value};
  while (all.size() + 1 < kBuffersMax) {
    all.push_back(std::move(create(1, BufferUse::kMessages).value()));
    EXPECT_EQ(all.back()->lkey().value, all.back()->rkey().value);
    keys.insert(all.back()->rkey().value);
  }
  EXPECT_EQ(keys.size(), kBuffersMax);
  EXPECT_FALSE(keys.contains(0));
  EXPECT_EQ(create(1, BufferUse::kMessages).error().code, Errc::kExhausted);
  const std::uint32_t before = all[7]->rkey().value;
  all[7].reset();
  const auto again = create(1, BufferUse::kMessages);
  ASSERT_TRUE(again);
  EXPECT_NE((*again)->rkey().value, before);
  EXPECT_EQ((*again)->rkey().value % kBuffersMax, before % kBuffersMax);
  EXPECT_EQ(create(1, BufferUse::kMessages).error().code, Errc::kExhausted);
}

// A peer that mixes up addresses of two buffers finds nothing there.
TEST_F(ShmBufferTest, AddressesLookLikePagesOfUserSpace) {
  std::set<std::uint64_t> addresses;
  for (int i = 0; i < 16; ++i) {
    const std::uint64_t address = make_buffer().address().value;
    EXPECT_EQ(address % 4096, 0u);
    EXPECT_GE(address, std::uint64_t{1} << 44);
    EXPECT_LT(address, std::uint64_t{1} << 47);
    addresses.insert(address);
  }
  EXPECT_EQ(addresses.size(), 16u);
}

TEST_F(ShmBufferTest, MemoryIsZeroedAndItsOwn) {
  for (const BufferUse use : {BufferUse::kRmb, BufferUse::kSendRing, BufferUse::kMessages}) {
    const auto one = create(8192, use), other = create(8192, use);
    ASSERT_TRUE(one && other);
    EXPECT_EQ((*one)->use(), use);
    ASSERT_EQ((*one)->bytes().size(), 8192u);
    (*one)->bytes()[8191] = std::byte{1};
    EXPECT_EQ((*other)->bytes()[8191], std::byte{0});
    EXPECT_EQ((*one)->id().is_zero(), !peer_may_write(use));
  }
  EXPECT_EQ(connector_->blanks.size(), 2u);
}

TEST_F(ShmBufferTest, PeersOfTheDomainAreToldOfEachBufferOnce) {
  auto one = make_queue_pair(), two = make_queue_pair();
  ShmBuffer& before = make_buffer(4096);
  FarSide far = face(*one);
  ASSERT_TRUE(connect(*two, kPeer, kTheirSecond));
  FarSide stranger = send_channel(kOther, 1);
  take_arrivals();
  ShmBuffer& after = make_buffer(8192);
  turn();
  for (const ShmBuffer* buffer : {&before, &after}) {
    const auto heard = far.hear(Kind::kAnnounce);
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->domain, domain_.id());
    EXPECT_EQ(heard->rkey, buffer->rkey());
    EXPECT_EQ(heard->address, buffer->address());
    EXPECT_EQ(heard->size_bytes, buffer->bytes().size());
    EXPECT_EQ(heard->buffer, buffer->id());
  }
  EXPECT_FALSE(far.hear(Kind::kAnnounce));
  EXPECT_FALSE(stranger.hear());
  EXPECT_EQ(connector_->granted,
            (std::vector{std::pair(before.id(), kPeer), std::pair(after.id(), kPeer)}));
}

TEST_F(ShmBufferTest, AWithdrawnBufferIsNotAnnouncedToOthers) {
  auto one = make_queue_pair(), two = make_queue_pair();
  const RemoteKey key = make_buffer().rkey();
  FarSide far = face(*one);
  buffers_.clear();
  turn();
  const auto heard = far.hear(Kind::kWithdraw);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->rkey, key);
  EXPECT_FALSE(far.hear());
  FarSide other = face(*two, kOther);
  EXPECT_FALSE(other.hear(Kind::kAnnounce));
}

// The domain has no queue pair there any more.
TEST_F(ShmBufferTest, BuffersAreAnnouncedAsLongAsAQueuePairIsThere) {
  auto one = make_queue_pair(), two = make_queue_pair();
  FarSide far = face(*one);
  ASSERT_TRUE(connect(*two, kPeer, kTheirSecond));
  one.reset();
  make_buffer();
  turn();
  EXPECT_TRUE(far.hear(Kind::kAnnounce));
  two->fail();
  make_buffer();
  turn();
  EXPECT_FALSE(far.hear(Kind::kAnnounce));
}

// Its key is unknown to the peer then.
TEST_F(ShmBufferTest, ABufferThatThePeerCannotGetIsNotAnnounced) {
  const auto queue_pair = make_queue_pair();
  FarSide far = face(*queue_pair);
  connector_->grants = false;
  make_buffer();
  connector_->grants = true;
  ShmBuffer& known = make_buffer();
  turn();
  EXPECT_EQ(far.hear(Kind::kAnnounce)->buffer, known.id());
  EXPECT_FALSE(far.hear(Kind::kAnnounce));
}

TEST_F(ShmBufferTest, ADestroyedBufferGivesItsPagesBackBeforeItIsFreed) {
  ShmBuffer& buffer = make_buffer(8192);
  const BufferId id = buffer.id();
  buffer.bytes()[0] = buffer.bytes()[4096] = std::byte{1};
  EXPECT_NE(file_pages(0), 0u);
  EXPECT_FALSE(timer_runs());
  buffers_.clear();
  EXPECT_TRUE(timer_runs());
  while (connector_->freed.empty()) {
    device_.ring_doorbells();
    std::this_thread::yield();
  }
  EXPECT_EQ(connector_->freed, std::vector{id});
  EXPECT_EQ(file_pages(0), 0u);
  expect_timer_stops();
  EXPECT_EQ(connector_->freed.size(), 1u);
}

TEST_F(ShmBufferTest, TheTimerFreesWhatNobodyRingsFor) {
  for (int i = 0; i < 3; ++i) make_buffer();
  buffers_.clear();
  expect_timer_stops();
  EXPECT_EQ(connector_->freed.size(), 3u);
}

// While something else waits, too.
TEST_F(ShmBufferTest, TheTimerRunsForAllThatWaits) {
  const auto queue_pair = make_queue_pair();
  ASSERT_TRUE(connect(*queue_pair));
  wait_long();
  make_buffer();
  buffers_.clear();
  while (connector_->freed.empty()) let_timer_expire();
  EXPECT_TRUE(timer_runs());
  FarSide far = send_channel(kPeer, 0);
  take_arrivals();
  while (far.hear()) {
  }
  expect_timer_stops();
}

TEST_F(ShmBufferTest, MemoryThatNoPeerWritesIsFreedAtOnce) {
  std::move(create(4096, BufferUse::kSendRing).value()).reset();
  EXPECT_FALSE(timer_runs());
  EXPECT_TRUE(connector_->freed.empty());
}

// More than may wait are unmapped at once, and freed as the others.
TEST(ShmDiscards, EachIsDoneOnce) {
  constexpr std::uint64_t kCount = 3 * kDiscardsWaitingMax;
  Discards discards;
  EXPECT_FALSE(discards.any());
  const FileDescriptor large = std::move(broker::make_memory("test", 64 << 20).value());
  ASSERT_EQ(::fallocate(large.get(), 0, 0, 64 << 20), 0);
  std::vector<Mapping> all;
  all.push_back(std::move(Mapping::map(large.get(), 64 << 20).value()));
  const FileDescriptor small = std::move(broker::make_memory("test", 4096).value());
  while (all.size() < kCount) all.push_back(std::move(Mapping::map(small.get(), 4096).value()));
  for (std::uint64_t i = 0; i < kCount; ++i) discards.add(std::move(all[i]), {1, i});
  EXPECT_TRUE(discards.any());
  std::multiset<std::uint64_t> done;
  while (discards.any()) {
    for (const BufferId& buffer : discards.take_done(TimePoint{})) done.insert(buffer.number);
    std::this_thread::yield();
  }
  EXPECT_EQ(done.size(), kCount);
  EXPECT_EQ(std::set<std::uint64_t>(done.begin(), done.end()).size(), kCount);
  EXPECT_TRUE(discards.take_done(TimePoint{}).empty());
}

}  // namespace
}  // namespace fairlead::rdma::shm
