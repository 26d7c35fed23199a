// Goal: a set of links gives numbers and indices, tells which link is asymmetric and which carries
// the next connection. Method: links between named ports, no messages.
#include "smc/group/link_set.h"

#include <gtest/gtest.h>

#include "group_parts.h"

namespace fairlead::smc {
namespace {

class Links : public testing::Test {
 protected:
  // A link between two ports, each named by a digit.
  LinkIndex add(std::uint8_t local, std::uint8_t peer, LinkState state = LinkState::kActive) {
    const LinkIndex at = set.free_index().value();
    set[at].emplace(set.next_number(), at_port(local), TimePoint{});
    set[at]->set_peer(at_port(peer));
    set[at]->set_state(state);
    return at;
  }
  unsigned number(LinkIndex link) const { return set[link]->number().value; }
  LinkSet set{2, 2, TimePoint{}};
};

TEST_F(Links, NumbersSkipZeroAndThoseInUse) {
  const LinkIndex first = add(1, 1);
  EXPECT_EQ(number(first), 1U);
  for (int i = 2; i < 256; ++i) EXPECT_EQ(set.next_number().value, i);
  EXPECT_EQ(set.next_number().value, 2);
  set.remove(first);
  EXPECT_EQ(set.find(LinkNumber{1}), std::nullopt);
}

TEST_F(Links, TheIndexThatIsFreeForLongestIsUsedFirst) {
  for (std::uint8_t i = 0; i < kLinksMax; ++i) EXPECT_EQ(add(i, i), i);
  EXPECT_EQ(set.free_index(), std::nullopt);
  set.remove(2);
  set.remove(0);
  EXPECT_EQ(set.free_index(), LinkIndex{2});
  EXPECT_EQ(set.count(), kLinksMax - 2);
}

TEST_F(Links, ALinkThatIsDownHasNoNumberAndCarriesNothing) {
  const LinkIndex only = add(1, 1, LinkState::kDown);
  EXPECT_EQ(set.find(LinkNumber{1}), std::nullopt);
  EXPECT_EQ(set.any(), std::nullopt);
  EXPECT_EQ(set.oldest_active(), std::nullopt);
  EXPECT_EQ(set.type(), GroupType::kNone);
  set[only]->set_state(LinkState::kActivating);
  EXPECT_EQ(set.any(), only);
  EXPECT_EQ(set.oldest_active(), std::nullopt);
}

TEST_F(Links, BothSidesChooseTheOldestOfThoseThatAreLeft) {
  const LinkIndex first = add(1, 1);
  const LinkIndex second = add(2, 2);
  const LinkIndex third = add(3, 3);
  EXPECT_EQ(set.oldest_active(), first);
  EXPECT_EQ(set.oldest_active(first), second);
  set[second]->set_state(LinkState::kDown);
  EXPECT_EQ(set.oldest_active(first), third);
}

// The link that it shares a port with is one that goes itself.
TEST_F(Links, OneThatSharesAPortWithAnAsymmetricLinkIsNone) {
  add(1, 1);
  const LinkIndex asymmetric = add(1, 2);
  const LinkIndex third = add(2, 2);
  EXPECT_TRUE(set.is_asymmetric(asymmetric));
  EXPECT_FALSE(set.is_asymmetric(third));
}

TEST_F(Links, TheNextConnectionUsesTheLinkWithTheFewest) {
  const LinkIndex first = add(1, 1);
  const LinkIndex second = add(2, 2);
  EXPECT_EQ(set.least_used(), first);
  set.connection_added(first);
  EXPECT_EQ(set.least_used(), second);
  // A disowned link carries none unless it is the only one.
  set[second]->doubt(Doubt::kDisowned, TimePoint{});
  EXPECT_EQ(set.least_used(), first);
  set[first]->set_state(LinkState::kDown);
  EXPECT_EQ(set.least_used(), second);
}

TEST_F(Links, ConnectionsMoveWithTheirCounts) {
  const LinkIndex first = add(1, 1);
  const LinkIndex second = add(2, 2);
  set.connection_added(first);
  set.connection_added(first);
  set.connection_added(second);
  set.move_connections(first, second);
  EXPECT_EQ(set.connections(first), 0U);
  EXPECT_EQ(set.connections(second), 3U);
  set.connection_removed(second, TimePoint{});
  EXPECT_EQ(set.connections(), 2U);
}

TEST_F(Links, RoomForConnectionsEndsAtTheLimitAndWithTheGroup) {
  EXPECT_FALSE(set.has_room_for_connection());  // no link
  const LinkIndex link = add(1, 1);
  set.connection_added(link);
  EXPECT_TRUE(set.has_room_for_connection());
  set.connection_added(link);
  EXPECT_FALSE(set.has_room_for_connection());
  set.connection_removed(link, TimePoint{});
  set[link]->doubt(Doubt::kDisowned, TimePoint{});
  EXPECT_FALSE(set.has_room_for_connection());
}

TEST_F(Links, AClosedSetHasNoTypeAndNoRoom) {
  add(1, 1);
  set.close();
  EXPECT_EQ(set.type(), GroupType::kNone);
  EXPECT_FALSE(set.has_room_for_connection());
  EXPECT_TRUE(set.any());  // the last message still needs a link
}

TEST_F(Links, OneMoreLinkMayReplaceTheAsymmetricOne) {
  add(1, 1);
  EXPECT_TRUE(set.has_room());
  const LinkIndex second = add(1, 2);
  EXPECT_TRUE(set.has_room());
  EXPECT_FALSE(set.is_symmetric());
  set.remove(second);
  add(2, 2);
  EXPECT_FALSE(set.has_room());
  EXPECT_TRUE(set.is_symmetric());
}

TEST_F(Links, ThereIsNoRoomWithoutAFreeIndex) {
  set = LinkSet{kLinksMax, 2, TimePoint{}};
  for (std::uint8_t i = 1; i < kLinksMax; ++i) add(i, i);
  EXPECT_TRUE(set.has_room());
  const LinkIndex last = add(1, kLinksMax);
  ASSERT_TRUE(set.is_asymmetric(last));
  EXPECT_FALSE(set.free_index());
  EXPECT_FALSE(set.has_room());
}

}  // namespace
}  // namespace fairlead::smc
