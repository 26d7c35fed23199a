// The tables of a device: announcements of a peer, its own queue pairs, and pending events.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/linux/cpu_time.h"
#include "broker/shared_objects.h"
#include "rdma/shm/channel/shm_events.h"
#include "rdma/shm/channel/shm_remote_table.h"
#include "rdma/shm/queue/shm_queue_pair_table.h"

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
    ASSERT_TRUE(add(announcement(RemoteKey(7), kDomain)));
  }
  // As the device does: false for a buffer that is ignored.
  Result<bool> add(const ControlMessage& message) {
    const bool wanted = SMC_TRY(table_.check_buffer(message));
    if (!wanted) return false;
    CountedMapping mapping = SMC_TRY(budget_.map(memory_.get()));
    SMC_TRY(table_.add_buffer(message, std::move(mapping)));
    return true;
  }
  void expect_refused(const ControlMessage& message, Errc why) {
    const auto checked = table_.check_buffer(message);
    ASSERT_FALSE(checked.has_value());
    EXPECT_EQ(checked.error().code, why);
  }
  std::byte* find(RemoteKey key, std::uint64_t address, std::size_t length,
                  DomainId domain = kDomain) {
    return table_.find(domain, key, RemoteAddress(address), length);
  }
  std::byte* view(RemoteKey key, QpNumber holder) {
    return table_.find_view(kDomain, key, RemoteAddress(0x1000), 1, holder);
  }

  FileDescriptor memory_ = std::move(broker::make_memory("test", 4096).value());
  Mapping ours_ = std::move(Mapping::map(memory_.get(), 4096).value());
  MapBudget budget_;
  RemoteTable table_{budget_};
};

TEST_F(ShmRemoteTable, FindsWhatWasAnnouncedAndNothingBeside) {
  ASSERT_NE(find(RemoteKey(7), 0x1000, 4096), nullptr);
  *find(RemoteKey(7), 0x1fff, 1) = std::byte{3};
  EXPECT_EQ(ours_.bytes()[4095], std::byte{3});
  EXPECT_NE(find(RemoteKey(7), 0x2000, 0), nullptr);
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 4097), nullptr);
  EXPECT_EQ(find(RemoteKey(7), 0x1001, 4096), nullptr);
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
  ASSERT_EQ(add(announcement(RemoteKey(8), kOther)), true);
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(1)));
  EXPECT_NE(find(RemoteKey(7), 0x1000, 1), nullptr);
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(2)));
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 1), nullptr);
  EXPECT_NE(find(RemoteKey(8), 0x1000, 1, kOther), nullptr);
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(9)));  // unknown: nothing
  EXPECT_EQ(table_.queue_pair_count(), 1u);
}

// The peer may not know that this side's queue pair is destroyed, and announces its buffers for the
// first one only.
TEST_F(ShmRemoteTable, ADomainOutlivesOurQueuePairUntilThePeerKnows) {
  table_.depart(QpNumber(1));
  ASSERT_TRUE(table_.add_queue_pair(QpNumber(2), {kDomain, QpNumber(101)}));
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(1)));
  EXPECT_NE(find(RemoteKey(7), 0x1000, 1), nullptr);
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(2)));
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 1), nullptr);
}

TEST_F(ShmRemoteTable, TheLastToDepartAreKeptAndTheOldestGoes) {
  for (std::uint32_t i = 1; i <= kDepartedQueuePairsMax + 1; ++i)
    ASSERT_TRUE(table_.add_queue_pair(QpNumber(100 + i), {kOther, QpNumber(i)}));
  for (std::uint32_t i = 1; i <= kDepartedQueuePairsMax; ++i) table_.depart(QpNumber(100 + i));
  EXPECT_NE(table_.find_queue_pair(QpNumber(101)), nullptr);
  table_.depart(QpNumber(100 + kDepartedQueuePairsMax + 1));
  EXPECT_EQ(table_.find_queue_pair(QpNumber(101)), nullptr);
  EXPECT_EQ(table_.queue_pair_count(), 1 + kDepartedQueuePairsMax);
}

// Numbers are used again in the end.
TEST_F(ShmRemoteTable, ANumberThatDepartedAndIsAnnouncedAgainStays) {
  const QpNumber again(50);
  ASSERT_TRUE(table_.add_queue_pair(again, {kOther, QpNumber(1)}));
  table_.depart(again);
  ASSERT_TRUE(table_.remove_queue_pair(again));
  ASSERT_TRUE(table_.add_queue_pair(again, {kOther, QpNumber(2)}));
  for (std::uint32_t i = 1; i <= kDepartedQueuePairsMax + 1; ++i) {
    ASSERT_TRUE(table_.add_queue_pair(QpNumber(100 + i), {kOther, QpNumber(1)}));
    table_.depart(QpNumber(100 + i));
  }
  ASSERT_NE(table_.find_queue_pair(again), nullptr);
  EXPECT_EQ(table_.find_queue_pair(again)->destination, QpNumber(2));
}

TEST_F(ShmRemoteTable, ADomainIsForgottenWithItsLastQueuePairAndMayComeBack) {
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(7)));
  ASSERT_TRUE(table_.remove_queue_pair(QpNumber(1)));
  EXPECT_EQ(add(announcement(RemoteKey(7), kDomain)), false);
  EXPECT_EQ(budget_.count(), 0u);
  ASSERT_TRUE(table_.add_queue_pair(QpNumber(1), {kDomain, QpNumber(100)}));
  EXPECT_EQ(add(announcement(RemoteKey(7), kDomain)), true);
}

TEST_F(ShmRemoteTable, APeerThatNeverSaysWhatIsGoneIsNotRememberedFor) {
  for (std::uint32_t round = 0; round < 2 * kRemoteQueuePairsMax; ++round) {
    const QpNumber theirs(5000 + round);
    ASSERT_TRUE(table_.add_queue_pair(theirs, {kOther, QpNumber(100 + round)}));
    table_.depart(theirs);
    ASSERT_LE(table_.queue_pair_count(), 1 + kDepartedQueuePairsMax);
  }
  EXPECT_NE(find(RemoteKey(7), 0x1000, 1), nullptr);
  table_.depart(QpNumber(9));  // unknown: nothing
}

TEST_F(ShmRemoteTable, WithdrawnKeyCanBeAnnouncedAgain) {
  auto* kept = view(RemoteKey(7), QpNumber(5));
  ASSERT_NE(kept, nullptr);
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(7)));
  EXPECT_EQ(find(RemoteKey(7), 0x1000, 1), nullptr);
  *kept = std::byte{1};  // an existing view is still valid memory
  EXPECT_EQ(add(announcement(RemoteKey(7), kDomain)), true);
  EXPECT_NE(find(RemoteKey(7), 0x1000, 1), nullptr);
  EXPECT_EQ(ours_.bytes()[0], std::byte{0});
}

TEST_F(ShmRemoteTable, RefusesAnnouncementsTwice) {
  EXPECT_EQ(add(announcement(RemoteKey(7), kDomain)).error().code, Errc::kMalformed);
  EXPECT_EQ(table_.add_queue_pair(QpNumber(1), {kDomain, QpNumber(100)}).error().code,
            Errc::kMalformed);
}

TEST_F(ShmRemoteTable, AcceptsTheLargestBufferAndTheLastAddresses) {
  ControlMessage message = announcement(RemoteKey(8), kDomain, kBufferBytesMax);
  EXPECT_EQ(table_.check_buffer(message), true);
  message.address = RemoteAddress(0);
  EXPECT_EQ(table_.check_buffer(message), true);
  message.address = RemoteAddress(~std::uint64_t{kBufferBytesMax});
  EXPECT_EQ(table_.check_buffer(message), true);
  message.address = RemoteAddress(-std::uint64_t{kBufferBytesMax});
  expect_refused(message, Errc::kMalformed);
  expect_refused(announcement(RemoteKey(8), kDomain, kBufferBytesMax + 1), Errc::kMalformed);
  expect_refused(announcement(RemoteKey(8), kDomain, 0), Errc::kMalformed);
}

TEST_F(ShmRemoteTable, RefusesMemorySmallerThanAnnounced) {
  EXPECT_EQ(add(announcement(RemoteKey(8), kDomain, 4097)).error().code, Errc::kMalformed);
  EXPECT_EQ(budget_.count(), 1u);
  EXPECT_EQ(find(RemoteKey(8), 0x1000, 1), nullptr);
}

TEST_F(ShmRemoteTable, LimitsTheBuffersOfAPeer) {
  for (std::uint32_t key = 8; key < 7 + kRemoteBuffersMax; ++key)
    ASSERT_EQ(add(announcement(RemoteKey(key), kDomain)), true) << key;
  expect_refused(announcement(RemoteKey(7 + kRemoteBuffersMax), kDomain), Errc::kExhausted);
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(7)));
  EXPECT_EQ(add(announcement(RemoteKey(7 + kRemoteBuffersMax), kDomain)), true);
}

TEST_F(ShmRemoteTable, LimitsTheAddressSpaceThatAPeerTakes) {
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(7)));
  memory_ = std::move(broker::make_memory("test", kBufferBytesMax).value());
  constexpr std::uint32_t kFit = kRemoteBytesMax / kBufferBytesMax;
  for (std::uint32_t key = 1; key <= kFit; ++key)
    ASSERT_EQ(add(announcement(RemoteKey(key), kDomain, kBufferBytesMax)), true) << key;
  expect_refused(announcement(RemoteKey(kFit + 1), kDomain, 1), Errc::kExhausted);
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(1)));
  EXPECT_EQ(add(announcement(RemoteKey(kFit + 1), kDomain, kBufferBytesMax)), true);
}

TEST_F(ShmRemoteTable, LimitsBuffersQueuePairsAndSinks) {
  for (std::uint32_t i = 1; i < kRemoteQueuePairsMax; ++i)
    ASSERT_TRUE(table_.add_queue_pair(QpNumber(1000 + i), {kOther, QpNumber(1)}));
  EXPECT_EQ(table_.add_queue_pair(QpNumber(999), {kOther, QpNumber(1)}).error().code,
            Errc::kExhausted);
  std::size_t withdrawn = 0;
  ASSERT_NE(view(RemoteKey(7), QpNumber(5)), nullptr);
  while (table_.remove_buffer(RemoteKey(7))) {
    ASSERT_LE(++withdrawn, kSinksMax);
    ASSERT_EQ(add(announcement(RemoteKey(7), kDomain)), true);
    ASSERT_NE(view(RemoteKey(7), QpNumber(5)), nullptr);
  }
  EXPECT_EQ(withdrawn, kSinksMax);
}

// One connection stays while other queue pairs are created and destroyed with their buffers.
TEST_F(ShmRemoteTable, ViewsGoWithTheQueuePairThatHoldsThem) {
  auto* kept = view(RemoteKey(7), QpNumber(5));
  ASSERT_NE(kept, nullptr);
  for (std::uint32_t round = 0; round < 3 * kSinksMax; ++round) {
    const QpNumber guest(100 + round), theirs(5000 + round);
    ASSERT_TRUE(table_.add_queue_pair(theirs, {kOther, guest}));
    ASSERT_EQ(add(announcement(RemoteKey(8), kOther)), true);
    ASSERT_NE(table_.find_view(kOther, RemoteKey(8), RemoteAddress(0x1000), 1, guest), nullptr);
    ASSERT_TRUE(table_.remove_queue_pair(theirs));
    table_.forget_views(guest);
    ASSERT_EQ(table_.sink_count(), 0u);
    ASSERT_EQ(budget_.count(), 1u);
  }
  *kept = std::byte{9};
  EXPECT_EQ(ours_.bytes()[0], std::byte{9});
}

TEST_F(ShmRemoteTable, AViewOfTwoStaysUntilBothHaveGone) {
  auto* kept = view(RemoteKey(7), QpNumber(5));
  ASSERT_EQ(view(RemoteKey(7), QpNumber(6)), kept);
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(7)));
  table_.forget_views(QpNumber(5));
  EXPECT_EQ(table_.sink_count(), 1u);
  *kept = std::byte{1};
  table_.forget_views(QpNumber(6));
  EXPECT_EQ(table_.sink_count(), 0u);
}

// A long connection while slabs are created and freed, on one queue pair.
TEST_F(ShmRemoteTable, ViewsThatAreGivenBackLeaveNothingBehind) {
  auto* kept = view(RemoteKey(7), QpNumber(5));
  ASSERT_NE(kept, nullptr);
  for (std::size_t round = 0; round < 3 * kSinksMax; ++round) {
    ASSERT_EQ(add(announcement(RemoteKey(8), kDomain)), true);
    ASSERT_NE(view(RemoteKey(8), QpNumber(5)), nullptr);
    // Before or after the owner has withdrawn the buffer.
    if (round % 2 == 0) table_.forget_views(QpNumber(5), RemoteKey(8));
    ASSERT_TRUE(table_.remove_buffer(RemoteKey(8)));
    table_.forget_views(QpNumber(5), RemoteKey(8));
    ASSERT_EQ(table_.sink_count(), 0u);
    ASSERT_EQ(budget_.count(), 1u);
  }
  *kept = std::byte{9};
  EXPECT_EQ(ours_.bytes()[0], std::byte{9});
}

TEST_F(ShmRemoteTable, AViewThatIsGivenBackByOneStaysForTheOther) {
  auto* kept = view(RemoteKey(7), QpNumber(5));
  ASSERT_EQ(view(RemoteKey(7), QpNumber(6)), kept);
  table_.forget_views(QpNumber(5), RemoteKey(7));
  ASSERT_TRUE(table_.remove_buffer(RemoteKey(7)));
  EXPECT_EQ(table_.sink_count(), 1u);
  *kept = std::byte{1};
  table_.forget_views(QpNumber(6), RemoteKey(7));
  EXPECT_EQ(table_.sink_count(), 0u);
}

class ShmMapBudget : public testing::Test {
 protected:
  Result<CountedMapping> map(const FileDescriptor& memory, std::uint32_t pod = 0) {
    return budget_.map(memory.get(), pod);
  }
  // Until there are so many mappings.
  void fill(std::size_t count, const FileDescriptor& memory, std::uint32_t pod = 0) {
    while (taken_.size() < count) {
      auto mapping = map(memory, pod);
      ASSERT_TRUE(mapping) << taken_.size() << ' ' << to_string(mapping.error());
      taken_.push_back(std::move(*mapping));
    }
  }

  static constexpr std::size_t kLargeFit = kMappedBytesPerPodMax / kBufferBytesMax;
  const FileDescriptor small_ = std::move(broker::make_memory("test", 4096).value());
  const FileDescriptor large_ = std::move(broker::make_memory("test", kBufferBytesMax).value());
  MapBudget budget_;
  std::vector<CountedMapping> taken_;
};

// Empty memory costs the granting pod nothing.
TEST_F(ShmMapBudget, OnePodLeavesMappingsAndAddressSpaceToOthers) {
  const struct {
    const FileDescriptor& memory;
    std::size_t fit;
    const char* limit;
  } cases[] = {{small_, kMappingsPerPodMax, "mappings of one pod"},
               {large_, kLargeFit, "mapped bytes of one pod"}};
  for (const auto& one : cases) {
    fill(one.fit, one.memory, 1);
    EXPECT_STREQ(map(one.memory, 1).error().what, one.limit);
    EXPECT_TRUE(map(one.memory, 2));
    taken_.pop_back();
    EXPECT_TRUE(map(one.memory, 1));
    fill(one.fit, one.memory, 1);
    EXPECT_STREQ(map(one.memory, 1).error().what, one.limit);
    CountedMapping moved = std::move(taken_.back());
    taken_.clear();
    EXPECT_EQ(budget_.count(), 1u);
    EXPECT_EQ(budget_.bytes(), moved.bytes().size());
  }
}

TEST_F(ShmMapBudget, AddressSpaceThatOnePodGivesBackItMayTakeAgain) {
  for (int round = 0; round < 2; ++round) {
    fill(kLargeFit, large_, 1);
    EXPECT_STREQ(map(small_, 1).error().what, "mapped bytes of one pod");
    taken_.erase(taken_.begin() + 1, taken_.end());
  }
}

TEST_F(ShmMapBudget, AMappingThatMovesStaysCountedOnceForItsPod) {
  const FileDescriptor other = std::move(broker::make_memory("test", 8192).value());
  fill(kMappingsPerPodMax - 1, small_, 1);
  CountedMapping one = std::move(map(other, 1).value());
  CountedMapping two = std::move(map(small_, 2).value());
  const std::byte* const at = one.bytes().data();
  two = std::move(one);
  EXPECT_EQ(two.bytes().data(), at);
  EXPECT_EQ(budget_.count(), kMappingsPerPodMax);
  one = CountedMapping();
  EXPECT_EQ(budget_.count(), kMappingsPerPodMax);
  EXPECT_FALSE(map(small_, 1));
  auto& same = two;
  two = std::move(same);
  EXPECT_EQ(two.bytes().data(), at);
  two = CountedMapping();
  EXPECT_EQ(budget_.count(), kMappingsPerPodMax - 1);
  EXPECT_EQ(budget_.bytes(), (kMappingsPerPodMax - 1) * 4096);
  EXPECT_TRUE(map(small_, 1));
}

TEST_F(ShmMapBudget, ADeviceHasALimitOfBytes) {
  constexpr std::size_t kFit = kMappedBytesPerDeviceMax / kBufferBytesMax;
  fill(kFit, large_);
  EXPECT_STREQ(map(large_).error().what, "mapped bytes of the device");
  taken_.pop_back();
  EXPECT_TRUE(map(large_));
}

TEST_F(ShmMapBudget, DevicesAndTheProcessHaveLimitsOfMappings) {
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  static_assert(kMappingsPerProcessMax == 2 * kMappingsPerDeviceMax);
  MapBudget second, third;
  EXPECT_EQ(third.map(null.get()).error().code, Errc::kMalformed);
  std::vector<CountedMapping> taken;  // goes before the budgets
  for (MapBudget* const budget : {&budget_, &second}) {
    while (budget->count() < kMappingsPerDeviceMax)
      taken.push_back(std::move(budget->map(small_.get()).value()));
    EXPECT_STREQ(budget->map(small_.get()).error().what, "mappings of the device");
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_STREQ(third.map(small_.get()).error().what, "mappings of the process");
  taken.pop_back();
  EXPECT_TRUE(third.map(small_.get()));
  EXPECT_TRUE(second.map(small_.get()));
  EXPECT_EQ(third.count(), 0u);
}

// Processor time for releasing a full memfd without other users.
template <class Drop>
Duration time_to_drop(Drop drop) {
  constexpr std::size_t kBytes = std::size_t{128} << 20;
  FileDescriptor memory = std::move(broker::make_memory("test", kBytes).value());
  EXPECT_EQ(::fallocate(memory.get(), 0, 0, kBytes), 0);
  return drop(std::move(memory));
}

// The last unmapping frees its pages. The processor time does not depend on other processes.
TEST_F(ShmMapBudget, AThreadOfItsOwnFreesWhatAPeerHasFilled) {
  const Duration here = time_to_drop([](FileDescriptor memory) {
    auto mapping = adopt_whole_segment(memory.get());
    EXPECT_TRUE(mapping);
    memory.reset();
    const Duration begun = thread_cpu_time();
    *mapping = Mapping();
    return thread_cpu_time() - begun;
  });
  const auto in_budget = [&](bool detach) {
    return time_to_drop([&](FileDescriptor memory) {
      auto mapping = map(memory, 1);
      EXPECT_TRUE(mapping);
      memory.reset();
      const Duration begun = thread_cpu_time();
      if (detach) mapping->detach_from_file();
      *mapping = CountedMapping();
      return thread_cpu_time() - begun;
    });
  };
  EXPECT_LT(in_budget(false), here / 4);
  EXPECT_LT(in_budget(true), here / 4);
  EXPECT_EQ(budget_.count(), 0u);
}

class ShmQueuePairNumbers : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ShmQueuePairNumbers, AllGenerationsAreUsedBeforeANumberComesAgain) {
  QueuePairTable table(GetParam());
  auto* queue_pair = reinterpret_cast<ShmQueuePair*>(alignof(std::max_align_t));
  std::set<std::uint32_t> seen;
  for (int i = 1; i < 1 << 12; ++i) {
    const QpNumber number = table.add(*queue_pair).value();
    EXPECT_GE(number.value, 1u << 12);
    EXPECT_LT(number.value, 1u << 24);
    EXPECT_TRUE(seen.insert(number.value).second) << i;
    EXPECT_EQ(table.find(number), queue_pair);
    table.remove(number);
    EXPECT_EQ(table.find(number), nullptr);
  }
  for (const std::uint32_t unknown : {0u, 1u << 12, 0xfffu, 0xffffffu, 0xffffffffu})
    EXPECT_EQ(table.find(QpNumber(unknown)), nullptr) << unknown;
}

INSTANTIATE_TEST_SUITE_P(FirstGenerations, ShmQueuePairNumbers,
                         testing::Values(0u, 1u, 0xffeu, 0xfffu, 0xffffffffu));

TEST(ShmQueuePairTable, FindsEachOfThemUntilItIsRemoved) {
  QueuePairTable table(77);
  const auto queue_pair = [](std::uintptr_t i) {
    return reinterpret_cast<ShmQueuePair*>(i * alignof(std::max_align_t));
  };
  std::vector<QpNumber> numbers;
  for (std::uint32_t i = 1; i <= kQueuePairsMax; ++i)
    numbers.push_back(table.add(*queue_pair(i)).value());
  EXPECT_EQ(table.add(*queue_pair(1)).error().code, Errc::kExhausted);
  for (const std::uint32_t i : {10u, 20u}) table.remove(numbers[i - 1]);
  for (const std::uint32_t i : {30u, 40u}) {
    const QpNumber added = table.add(*queue_pair(kQueuePairsMax + i)).value();
    EXPECT_EQ(table.find(added), queue_pair(kQueuePairsMax + i));
  }
  EXPECT_EQ(table.add(*queue_pair(1)).error().code, Errc::kExhausted);
  for (std::uint32_t i = 1; i <= kQueuePairsMax; ++i) {
    auto* const expected = i == 10 || i == 20 ? nullptr : queue_pair(i);
    EXPECT_EQ(table.find(numbers[i - 1]), expected) << i;
  }
  std::size_t visited = 0;
  table.for_each([&](ShmQueuePair&) { ++visited; });
  EXPECT_EQ(visited, kQueuePairsMax);
  table.remove(numbers[0]);
  table.for_each([&](ShmQueuePair& one) { EXPECT_NE(&one, queue_pair(1)); });
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

TEST(ShmEvents, EachEventSaysWhatItIsAbout) {
  AsyncEvents events;
  events.queue_pair_fatal(QpNumber(3));
  events.port_changed(PortNumber(2), PortState::kActive);
  EXPECT_FALSE(events.empty());
  EXPECT_EQ(events.poll()->queue_pair, QpNumber(3));
  EXPECT_EQ(events.poll()->port, PortNumber(2));
  EXPECT_TRUE(events.empty());
  EXPECT_FALSE(events.poll());
  // What was told may be told again.
  events.receive_limit();
  EXPECT_EQ(events.poll()->kind, AsyncEvent::Kind::kReceiveLimit);
  events.receive_limit();
  EXPECT_EQ(events.poll()->kind, AsyncEvent::Kind::kReceiveLimit);
}

}  // namespace
}  // namespace fairlead::rdma::shm
