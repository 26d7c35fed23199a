// The registered memory of one link group: when a slab is registered and how large it is, on which
// devices, what is refused, and what the budget and the counters say of it.

#include "relay/group/buffer_slabs.h"

#include <vector>

#include "fake_device.h"
#include "smc/connection/cursor.h"

namespace fairlead::relay {
namespace {

constexpr BufferSizes kSmall{0, 0};
constexpr std::size_t kElement = smc::element_bytes(0);
constexpr unsigned kPerSlab = smc::kSlabBytesFirst / kElement;
constexpr TimePoint kNow{std::chrono::hours(1)};
constexpr Error kNoMemory{Errc::kExhausted, "the device has no more"};

class BufferSlabsTest : public testing::Test {
 protected:
  smc::ElementId take(const BufferSizes& sizes = kSmall) {
    const Result<smc::ElementId> element = slabs.take(sizes);
    EXPECT_TRUE(element);
    return element.value_or(smc::ElementId{});
  }
  std::vector<smc::ElementId> take(unsigned count) {
    std::vector<smc::ElementId> elements;
    while (count-- != 0) elements.push_back(take());
    return elements;
  }
  void release(const std::vector<smc::ElementId>& elements) {
    for (const smc::ElementId& element : elements) slabs.release(element, kNow);
  }
  // Two slabs, of which the second has been freed again.
  void free_second_slab() {
    release(take(kPerSlab + 1));
    ASSERT_EQ(slabs.retire(kNow), 1);
    slabs.free(1);
  }
  void expect_refused(const BufferSizes& sizes, const char* what, Errc code = Errc::kExhausted) {
    const std::size_t buffers = one.buffers.size();
    const Error element = error_of(slabs.take(sizes));
    EXPECT_EQ(element.code, code);
    EXPECT_STREQ(element.what, what);
    EXPECT_EQ(one.buffers.size(), buffers);
  }
  // So much is left for rings.
  void leave(std::size_t bytes) {
    ASSERT_TRUE(budget.take(MemoryUse::kPeerRings, budget.rings_left_bytes() - bytes));
  }
  void add_second_device() { ASSERT_TRUE(slabs.add_device(two, domain_of_two)); }

  WorkerStats stats;
  MemoryBudget budget{std::size_t{64} << 20, 0, stats};
  FakeDevice one{"one"}, two{"two"};
  rdma::ProtectionDomain domain_of_one, domain_of_two;
  BufferSlabs slabs{rdma::BufferUse::kRmb, one, domain_of_one, budget, stats};
};

TEST_F(BufferSlabsTest, TheFirstElementRegistersASlab) {
  take();
  ASSERT_EQ(one.buffers.size(), 1U);
  EXPECT_EQ(one.buffers[0]->bytes().size(), smc::kSlabBytesFirst);
  EXPECT_EQ(one.buffers[0]->use, rdma::BufferUse::kRmb);
  EXPECT_EQ(one.buffers[0]->domain, &domain_of_one);
  EXPECT_TRUE(slabs.has(0));
  EXPECT_EQ(slabs.slab_count(), 1U);
  EXPECT_EQ(slabs.total_bytes(), smc::kSlabBytesFirst);
  EXPECT_EQ(slabs.used_bytes(), kElement);
}

TEST_F(BufferSlabsTest, SendRingsAreRegisteredAsSuch) {
  BufferSlabs rings(rdma::BufferUse::kSendRing, one, domain_of_one, budget, stats);
  ASSERT_TRUE(rings.add_device(two, domain_of_two) && rings.take(kSmall));
  EXPECT_EQ(one.buffers.at(0)->use, rdma::BufferUse::kSendRing);
  EXPECT_EQ(two.buffers.at(0)->use, rdma::BufferUse::kSendRing);
}

TEST_F(BufferSlabsTest, ElementsOfASlabLieOneBehindTheOther) {
  for (unsigned i = 0; i < kPerSlab; ++i) {
    const smc::ElementId element = take();
    EXPECT_EQ(slabs.offset_bytes(element), i * kElement);
    EXPECT_EQ(slabs.bytes(element).data(), one.buffers[0]->bytes().data() + i * kElement);
    EXPECT_EQ(slabs.bytes(element).size(), kElement);
  }
  EXPECT_EQ(one.buffers.size(), 1U);
  const smc::ElementId next = take();
  ASSERT_EQ(one.buffers.size(), 2U);
  EXPECT_EQ(slabs.bytes(next).data(), one.buffers[1]->bytes().data());
}

TEST_F(BufferSlabsTest, AReleasedElementNeedsNoOtherSlab) {
  const std::vector<smc::ElementId> elements = take(kPerSlab);
  slabs.release(elements[2], kNow);
  EXPECT_EQ(take(), elements[2]);
  EXPECT_EQ(one.buffers.size(), 1U);
}

TEST_F(BufferSlabsTest, WhatIsUsedAndFreeIsCounted) {
  const std::vector<smc::ElementId> elements = take(2);
  EXPECT_EQ(budget.used_bytes(MemoryUse::kRings), smc::kSlabBytesFirst);
  EXPECT_EQ(stats.pinned_bytes.get(), smc::kSlabBytesFirst);
  EXPECT_EQ(stats.rmb_used_bytes.get(), 2 * kElement);
  EXPECT_EQ(stats.rmb_free_bytes.get(), smc::kSlabBytesFirst - 2 * kElement);
  release(elements);
  EXPECT_EQ(stats.rmb_used_bytes.get(), 0U);
  EXPECT_EQ(stats.rmb_free_bytes.get(), smc::kSlabBytesFirst);
  EXPECT_EQ(stats.pinned_bytes.get(), smc::kSlabBytesFirst);
}

TEST_F(BufferSlabsTest, AtTheEndEverythingIsGivenBack) {
  {
    BufferSlabs others(rdma::BufferUse::kRmb, one, domain_of_one, budget, stats);
    ASSERT_TRUE(others.take(kSmall));
  }
  EXPECT_TRUE(one.buffers.empty());
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
  EXPECT_EQ(stats.pinned_bytes.get(), 0U);
  EXPECT_EQ(stats.rmb_used_bytes.get(), 0U);
  EXPECT_EQ(stats.rmb_free_bytes.get(), 0U);
}

TEST_F(BufferSlabsTest, ALateElementIsSmallerThanWanted) {
  EXPECT_EQ(slabs.size_code(take({1, 0})), 1);
  EXPECT_EQ(stats.buffer_downgrade.get(), 0U);
  leave(kElement);
  EXPECT_EQ(slabs.size_code(take({2, 0})), 1) << "one that is free";
  EXPECT_EQ(slabs.size_code(take({2, 0})), 0);
  EXPECT_EQ(stats.buffer_downgrade.get(), 2U);
}

TEST_F(BufferSlabsTest, AFreeElementGoesBeforeASlabThatIsNoLarger) {
  take();
  leave(8 * kElement);
  EXPECT_EQ(slabs.size_code(take({2, 0})), 0);
  EXPECT_EQ(one.buffers.size(), 1U);
}

TEST_F(BufferSlabsTest, ASlabOfTheWantedSizeGoesBeforeASmallerFreeElement) {
  take();
  EXPECT_EQ(slabs.size_code(take({1, 0})), 1);
  EXPECT_EQ(one.buffers.size(), 2U);
}

TEST_F(BufferSlabsTest, WithoutBudgetForTheLeastSizeThereIsNone) {
  leave(2 * kElement - 1);
  expect_refused({2, 1}, kBudgetSpent, Errc::kMemoryLimit);
  EXPECT_EQ(slabs.slab_numbers(), 0U);
  EXPECT_EQ(slabs.size_code(take({2, 0})), 0);
}

TEST_F(BufferSlabsTest, WhereTheDeviceHasLessThanTheBudgetItsMemoryIsTheReason) {
  one.registrable = kElement - 1;
  expect_refused(kSmall, "locked memory");
  one.registrable = kElement;
  take();
}

TEST_F(BufferSlabsTest, EachDeviceLocksTheMemoryOfTheFirstOnceMore) {
  add_second_device();
  one.registrable = 2 * kElement - 1;
  expect_refused(kSmall, "locked memory");
  one.registrable = 2 * kElement;
  take();
}

// The share of an element shrinks with the free part of all there is.
TEST_F(BufferSlabsTest, ElementsAreLargeWhileALittleDeviceIsFree) {
  one.registrable = smc::kElementShare * smc::element_bytes(1);
  EXPECT_EQ(slabs.size_code(take({1, 0})), 0) << "most of the budget seems to be taken";
  one.able.registered_bytes_max = one.registrable;
  EXPECT_EQ(slabs.size_code(take({1, 0})), 1);
}

TEST_F(BufferSlabsTest, TheMostOfADeviceIsForAllRegistrations) {
  add_second_device();
  one.registrable = one.able.registered_bytes_max = 2 * smc::kElementShare * smc::element_bytes(1);
  EXPECT_EQ(slabs.size_code(take({1, 0})), 1);
}

TEST_F(BufferSlabsTest, ASlabThatIsTooLargeForTheDeviceGetsFewerElements) {
  one.buffer_error = kNoMemory;
  one.allocated_despite_error = 2 * kElement;
  take();
  EXPECT_EQ(slabs.total_bytes(), 2 * kElement);
  EXPECT_EQ(budget.used_bytes(MemoryUse::kRings), 2 * kElement);
}

TEST_F(BufferSlabsTest, OneElementThatIsTooLargeForTheDeviceBecomesSmaller) {
  one.buffer_error = kNoMemory;
  one.allocated_despite_error = smc::element_bytes(1);
  EXPECT_EQ(slabs.size_code(take({3, 0})), 1);
  EXPECT_EQ(stats.buffer_downgrade.get(), 1U);
}

TEST_F(BufferSlabsTest, ADeviceWithoutTheLeastSizeHasTheLastWord) {
  one.buffer_error = kNoMemory;
  one.allocated_despite_error = smc::element_bytes(1) - 1;
  expect_refused({3, 1}, kNoMemory.what);
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
  EXPECT_EQ(stats.pinned_bytes.get(), 0U);
  EXPECT_EQ(stats.rmb_free_bytes.get(), 0U);
  EXPECT_EQ(slabs.slab_count(), 0U);
}

TEST_F(BufferSlabsTest, BesideABarredSlabThereIsNoOther) {
  const smc::ElementId element = take();
  slabs.bar(0);
  expect_refused(kSmall, kKeysRefused, Errc::kPeerRefused);
  slabs.release(element, kNow);
  ASSERT_EQ(slabs.retire(kNow), 0);
  take();  // the peer has deleted the key, so it may take another
}

TEST_F(BufferSlabsTest, OtherSlabsAreUsedBesideABarredOne) {
  take(kPerSlab - 1);
  const smc::ElementId other = take({1, 0});
  slabs.bar(other.slab);
  EXPECT_EQ(slabs.size_code(take({1, 0})), 0);
  expect_refused({1, 0}, kKeysRefused, Errc::kPeerRefused);
}

TEST_F(BufferSlabsTest, TheNumberOfSlabsIsLimited) {
  one.registrable = kElement;  // so each has one element
  take(smc::kSlabsMax);
  ASSERT_EQ(slabs.slab_count(), smc::kSlabsMax);
  expect_refused(kSmall, "slabs of the link group");
}

TEST_F(BufferSlabsTest, AFreedSlabIsGivenBack) {
  add_second_device();
  free_second_slab();
  EXPECT_TRUE(slabs.has(0));
  EXPECT_FALSE(slabs.has(1));
  EXPECT_EQ(one.buffers.size(), 1U);
  EXPECT_EQ(two.buffers.size(), 1U);
  EXPECT_EQ(slabs.total_bytes(), smc::kSlabBytesFirst);
  EXPECT_EQ(budget.used_bytes(MemoryUse::kRings), smc::kSlabBytesFirst);
  EXPECT_EQ(stats.pinned_bytes.get(), smc::kSlabBytesFirst);
  EXPECT_EQ(stats.rmb_free_bytes.get(), smc::kSlabBytesFirst);
  EXPECT_EQ(stats.slabs_returned.get(), 1U);
}

TEST_F(BufferSlabsTest, TheNumberOfAFreedSlabIsUsedAgain) {
  free_second_slab();
  EXPECT_EQ(take(kPerSlab + 1).back().slab, 1);
  EXPECT_TRUE(slabs.has(1));
  EXPECT_EQ(slabs.slab_numbers(), 2U);
}

TEST_F(BufferSlabsTest, AFurtherDeviceHasTheSameBytesOfSlabsBeforeAndAfter) {
  std::vector<smc::ElementId> elements = take(kPerSlab);
  add_second_device();
  elements.push_back(take());
  ASSERT_EQ(two.buffers.size(), 2U);
  for (const smc::ElementId& element : {elements.front(), elements.back()}) {
    const rdma::RegisteredBuffer& there = slabs.buffer(element, 1);
    EXPECT_EQ(&there, two.buffers[element.slab]);
    EXPECT_EQ(two.buffers[element.slab]->domain, &domain_of_two);
    EXPECT_EQ(two.buffers[element.slab]->use, rdma::BufferUse::kRmb);
    EXPECT_EQ(there.bytes().data(), slabs.buffer(element).bytes().data());
  }
  EXPECT_EQ(stats.pinned_bytes.get(), 2 * smc::kSlabBytesFirst) << "the same bytes";
}

TEST_F(BufferSlabsTest, ADeviceThatCannotShareAllSlabsSharesNone) {
  take(kPerSlab + 1);
  two.share_error = kNoMemory;
  two.shares_before_error = 1;
  const Result<void> added = slabs.add_device(two, domain_of_two);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error(), kNoMemory);
  EXPECT_TRUE(two.buffers.empty());
  two.share_error.reset();
  take(kPerSlab);
  EXPECT_EQ(one.buffers.size(), 3U);
  EXPECT_TRUE(two.buffers.empty()) << "it was not added";
}

TEST_F(BufferSlabsTest, ASlabThatAFurtherDeviceRefusesIsNotRegistered) {
  add_second_device();
  two.share_error = kNoMemory;
  expect_refused(kSmall, kNoMemory.what);
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(BufferSlabsTest, TheDeviceAddedLastIsRemovedFirst) {
  FakeDevice three("three");
  add_second_device();
  ASSERT_TRUE(slabs.add_device(three, domain_of_two));
  take();
  slabs.remove_device();
  EXPECT_EQ(two.buffers.size(), 1U);
  EXPECT_TRUE(three.buffers.empty());
  take(kPerSlab);
  EXPECT_EQ(two.buffers.size(), 2U);
  EXPECT_TRUE(three.buffers.empty());
}

TEST_F(BufferSlabsTest, DevicesComeAndGoWhereASlabWasFreed) {
  free_second_slab();
  add_second_device();
  EXPECT_EQ(two.buffers.size(), 1U);
  slabs.remove_device();
  EXPECT_TRUE(two.buffers.empty());
  EXPECT_EQ(one.buffers.size(), 1U);
}

}  // namespace
}  // namespace fairlead::relay
