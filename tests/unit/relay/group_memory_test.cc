// The registered memory of a group: elements that stay taken, keys that the peer is told or
// refuses, and slabs that are given back.

#include "relay/group/group_memory.h"

#include "driver_parts.h"
#include "smc/connection/cursor.h"

namespace fairlead::relay {
namespace {

using Announcement = GroupMemory::Announcement;

constexpr BufferSizes kSizes{0, 0};
constexpr unsigned kPerSlab = smc::kSlabBytesFirst / smc::element_bytes(0);

class GroupMemoryTest : public DriverTest {
 protected:
  explicit GroupMemoryTest(std::uint8_t links_max = 1) : DriverTest(links_max) {}

  // All elements of the first slab, and one of the second.
  template <class Take>
  std::vector<smc::ElementId> take_two_slabs(Take take) {
    std::vector<smc::ElementId> elements;
    for (unsigned i = 0; i <= kPerSlab; ++i) {
      const Result<smc::ElementId> element = take();
      EXPECT_TRUE(element);
      if (element) elements.push_back(*element);
    }
    EXPECT_EQ(elements.front().slab, 0);
    EXPECT_EQ(elements.back().slab, 1);
    return elements;
  }
  std::vector<smc::ElementId> take_two_slabs() {
    return take_two_slabs([&] { return memory.take_element(kSizes); });
  }
  // It is idle long enough, but writes may be under way up to the last request.
  static constexpr std::uint64_t kLast = 7;
  void release_send_ring_of_second_slab() {
    confirm_first_link();
    const auto rings = take_two_slabs([&] { return memory.take_send_ring(kSizes); });
    memory.release_send_ring(rings.back(), 0, kLast, clock.at);
    clock.at += shared.slab_idle;
  }
  // The peer answers CONFIRM_RKEY.
  void answer_key(std::uint16_t slab) {
    wire::ConfirmRkey answer;
    answer.kind = wire::LlcKind::kResponse;
    answer.rkey = memory.rmb_key(slab, 0).rkey;
    receive(answer);
  }
  // The peer knows the key of each slab.
  void tell_slabs() {
    const Result<bool> news = memory.list_slabs(0);
    ASSERT_TRUE(news && *news);
    protocol.start_next_flow(clock.at);
    for (std::uint16_t slab = 0; slab < memory.rmbs().slab_numbers(); ++slab) answer_key(slab);
  }
  void release_all(const std::vector<smc::ElementId>& elements) {
    for (const smc::ElementId& element : elements) memory.release_element(element, false, clock.at);
  }
  // How many of these messages are to be sent.
  template <class Message>
  int sent() {
    int count = 0;
    while (const std::optional<smc::LlcToSend> message = protocol.output().poll_llc()) {
      const auto decoded = wire::decode_llc(message->bytes);
      count += decoded && std::holds_alternative<Message>(decoded->body) ? 1 : 0;
    }
    return count;
  }
};

TEST_F(GroupMemoryTest, TheFirstSlabNeedsNoAnnouncement) {
  ASSERT_TRUE(create(0, one.at()));
  const auto element = memory.take_element(kSizes);
  ASSERT_TRUE(element);
  EXPECT_FALSE(memory.list_slabs(0).value());
  EXPECT_EQ(memory.announcement(*element), Announcement::kDone);
}

TEST_F(GroupMemoryTest, ALaterSlabIsNamedWhenThePeerKnowsItsKey) {
  confirm_first_link();
  const auto elements = take_two_slabs();
  EXPECT_TRUE(memory.list_slabs(0).value());
  EXPECT_FALSE(memory.list_slabs(0).value()) << "they are listed already";
  protocol.start_next_flow(clock.at);
  EXPECT_EQ(memory.announcement(elements.front()), Announcement::kUnderWay);
  answer_key(0);
  EXPECT_EQ(memory.announcement(elements.front()), Announcement::kDone);
  EXPECT_EQ(memory.announcement(elements.back()), Announcement::kUnderWay);
  answer_key(1);
  EXPECT_EQ(memory.announcement(elements.back()), Announcement::kDone);
}

TEST_F(GroupMemoryTest, AnEmptySlabGoesBackWhenThePeerHasDeletedItsKey) {
  confirm_first_link();
  const auto elements = take_two_slabs();
  tell_slabs();
  const std::size_t used = budget.used_bytes(MemoryUse::kRings);
  EXPECT_EQ(memory.next_deadline(), std::nullopt);
  release_all(elements);
  const TimePoint due = clock.at + shared.slab_idle;
  EXPECT_EQ(memory.next_deadline(), due);
  clock.at = due - Duration(1);
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(sent<wire::DeleteRkey>(), 0);
  clock.at = due;
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(sent<wire::DeleteRkey>(), 1);
  EXPECT_EQ(memory.rmbs().slab_count(), 2U) << "the peer may still write there";
  wire::DeleteRkey answer;
  answer.kind = wire::LlcKind::kResponse;
  receive(answer);
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(memory.rmbs().slab_count(), 1U);
  EXPECT_EQ(budget.used_bytes(MemoryUse::kRings), used - smc::kSlabBytesFirst);
  EXPECT_EQ(memory.next_deadline(), std::nullopt);
  clock.at += std::chrono::hours(1);
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(sent<wire::DeleteRkey>(), 0) << "the last one stays";
}

TEST_F(GroupMemoryTest, ASlabThatThePeerWasNotToldGoesBackAtOnce) {
  confirm_first_link();
  release_all(take_two_slabs());
  clock.at += shared.slab_idle;
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(memory.rmbs().slab_count(), 1U);
  EXPECT_EQ(sent<wire::DeleteRkey>(), 0);
}

TEST_F(GroupMemoryTest, ASlabWithAnElementInQuarantineStays) {
  confirm_first_link();
  const auto elements = take_two_slabs();
  memory.release_element(elements.back(), true, clock.at);
  clock.at += shared.slab_idle;
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(memory.rmbs().slab_count(), 2U);
  EXPECT_EQ(memory.next_deadline(), std::nullopt);
}

TEST_F(GroupMemoryTest, NothingGoesBackBeforeTheGroupIsUsable) {
  ASSERT_TRUE(create(0, one.at()));
  release_all(take_two_slabs());
  clock.at += shared.slab_idle;
  EXPECT_EQ(memory.next_deadline(), std::nullopt);
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(memory.rmbs().slab_count(), 2U);
}

TEST_F(GroupMemoryTest, SendRingsGoBackWhenTheirWritesAreOver) {
  release_send_ring_of_second_slab();
  EXPECT_EQ(memory.next_deadline(), clock.at);
  memory.return_slabs({kLast - 1}, clock.at);
  EXPECT_EQ(memory.send_rings().slab_count(), 2U);
  EXPECT_EQ(memory.next_deadline(), clock.at + kSlabRecheck);
  memory.return_slabs({kLast}, clock.at);
  EXPECT_EQ(memory.send_rings().slab_count(), 1U);
  EXPECT_EQ(memory.next_deadline(), std::nullopt);
}

TEST_F(GroupMemoryTest, WritesOfAFailedLinkHoldNoSendRing) {
  release_send_ring_of_second_slab();
  memory.return_slabs({}, clock.at);
  EXPECT_EQ(memory.send_rings().slab_count(), 1U);
}

TEST_F(GroupMemoryTest, ASecondDeviceHasTheSameBytesUnderOtherKeys) {
  ASSERT_TRUE(create(0, one.at()));
  const auto ring = memory.take_send_ring(kSizes);
  ASSERT_TRUE(ring && memory.take_element(kSizes));
  ASSERT_TRUE(create(1, two.at()));
  const smc::RmbKey key = memory.rmb_key(0, 1);
  EXPECT_EQ(key.address, memory.rmb_key(0, 0).address);
  EXPECT_EQ(key.rkey, memory.rmbs().buffer({0, RmbIndex{1}}, 1).rkey());
  EXPECT_EQ(memory.send_rings().buffer(*ring, 1).bytes().data(),
            memory.send_rings().buffer(*ring, 0).bytes().data());
}

TEST_F(GroupMemoryTest, ADeviceGetsAllMemoryOrNone) {
  ASSERT_TRUE(create(0, one.at()));
  ASSERT_TRUE(memory.take_send_ring(kSizes) && memory.take_element(kSizes));
  two.device.share_error = Error{Errc::kUnsupported, "memory of another device"};
  two.device.shares_before_error = 1;
  EXPECT_EQ(error_of(create(1, two.at())), *two.device.share_error);
  EXPECT_FALSE(transport.uses(two.link));
  EXPECT_TRUE(two.device.buffers.empty());
  two.device.share_error.reset();
  ASSERT_TRUE(create(1, two.at()));
  EXPECT_EQ(memory.rmb_key(0, 1).address, memory.rmb_key(0, 0).address);
}

class GroupMemoryOfTwoLinks : public GroupMemoryTest {
 protected:
  GroupMemoryOfTwoLinks() : GroupMemoryTest(2) {}
};

TEST_F(GroupMemoryOfTwoLinks, ASlabIsListedWithItsKeysOnAllLinks) {
  confirm_first_link();
  add_second_link();
  const auto element = memory.take_element(kSizes);
  ASSERT_TRUE(element);
  EXPECT_TRUE(memory.list_slabs(0).value());
  EXPECT_EQ(protocol.local_rmbs().keys().key(0, 0), memory.rmb_key(0, 0));
  EXPECT_EQ(protocol.local_rmbs().keys().key(0, 1), memory.rmb_key(0, 1));
}

TEST_F(GroupMemoryOfTwoLinks, AnAddedLinkGetsTheKeysOfListedSlabs) {
  ASSERT_TRUE(create(0, one.at()));
  ASSERT_TRUE(memory.take_element(kSizes) && memory.list_slabs(0));
  confirm_first_link();
  EXPECT_EQ(protocol.local_rmbs().keys().key(0, 1), std::nullopt);
  add_second_link();
  EXPECT_EQ(protocol.local_rmbs().keys().key(0, 1), memory.rmb_key(0, 1));
}

}  // namespace
}  // namespace fairlead::relay
