#include "smc/group/rmb_keys.h"

#include <gtest/gtest.h>

#include <vector>

namespace fairlead::smc {
namespace {

RmbKey key_of(std::uint32_t number) { return {RemoteKey{number}, RemoteAddress{number << 12}}; }

class RmbKeysTest : public testing::Test {
 protected:
  // One RMB that stays on link 0, under key 1 there, while index 1 has one link after the other.
  // Returns the key on the last of these links.
  RmbKey replace_links(std::size_t count) {
    const RmbRow row = *keys.add(0, key_of(1));
    for (std::size_t i = 0; i < count; ++i) {
      keys.remove_link(1);
      keys.set(row, 1, key_on_link(i));
    }
    return key_on_link(count - 1);
  }
  static RmbKey key_on_link(std::size_t i) { return key_of(static_cast<std::uint32_t>(100 + i)); }

  RmbKeys keys;
};

TEST_F(RmbKeysTest, FindsTheSameRmbOnAnotherLink) {
  const RmbKey there = replace_links(1);
  EXPECT_EQ(keys.translate(0, key_of(1), 1), there);
  EXPECT_EQ(keys.translate(1, there, 0), key_of(1));
  EXPECT_EQ(keys.translate(1, key_of(2), 0), std::nullopt);
}

// A Confirm may arrive after its link and several successors in the same slot are deleted.
TEST_F(RmbKeysTest, KeepsTheKeysOfDeletedLinks) {
  replace_links(kPreviousKeysMax + 1);
  for (std::size_t i = 0; i < kPreviousKeysMax; ++i) {
    EXPECT_TRUE(keys.known(key_on_link(i))) << i;
    EXPECT_EQ(keys.translate(std::nullopt, key_on_link(i), 0), key_of(1)) << i;
  }
}

TEST_F(RmbKeysTest, ForgetsTheOldestKeyAtTheLimit) {
  const RmbKey last = replace_links(kPreviousKeysMax + 2);
  EXPECT_FALSE(keys.known(key_on_link(0)));
  EXPECT_TRUE(keys.known(key_on_link(1)));
  EXPECT_EQ(keys.translate(std::nullopt, key_on_link(0), 0), std::nullopt);
  EXPECT_EQ(keys.translate(std::nullopt, last, 0), key_of(1));
}

// A device may give the key of a deleted link to another RMB.
TEST_F(RmbKeysTest, PrefersAKeyInUseToAKeyOfADeletedLink) {
  replace_links(2);
  const RmbRow other = *keys.add(0, key_of(2));
  keys.set(other, 1, key_on_link(0));
  EXPECT_EQ(keys.translate(std::nullopt, key_on_link(0), 0), key_of(2));
}

TEST_F(RmbKeysTest, AnRmbGoesWithItsLastLink) {
  const RmbKey there = replace_links(2);
  keys.remove_link(0);
  EXPECT_EQ(keys.count(), 1U);
  keys.remove_link(1);
  EXPECT_EQ(keys.count(), 0U);
  EXPECT_FALSE(keys.known(there));
  EXPECT_FALSE(keys.known(key_on_link(0)));
}

TEST_F(RmbKeysTest, FindsByKeyAfterEveryChange) {
  const RmbKey first{RemoteKey(7), RemoteAddress(0x1000)};
  const RmbKey second{RemoteKey(9), RemoteAddress(0x2000)};
  const RmbKey same{RemoteKey(9), RemoteAddress(0x3000)};
  const RmbRow one = keys.add(0, first).value();
  const RmbRow two = keys.add(0, second).value();
  const RmbRow three = keys.add(0, same).value();
  EXPECT_EQ(keys.find(0, RemoteKey(7)), one);
  EXPECT_EQ(keys.find(0, RemoteKey(9)), two);
  EXPECT_EQ(keys.find(0, RemoteKey(8)), std::nullopt);
  keys.remove(two);
  EXPECT_EQ(keys.find(0, RemoteKey(9)), three);
  EXPECT_EQ(keys.find(1, RemoteKey(9)), std::nullopt);
  keys.set(three, 1, second);
  EXPECT_EQ(keys.find(1, RemoteKey(9)), three);
  keys.remove_link(0);
  EXPECT_EQ(keys.find(0, RemoteKey(7)), std::nullopt);
  EXPECT_EQ(keys.find(0, RemoteKey(9)), std::nullopt);
  EXPECT_EQ(keys.find(1, RemoteKey(9)), three);
}

TEST_F(RmbKeysTest, FindsKeysInWhateverOrderTheyCame) {
  std::vector<RmbRow> rows;
  for (const std::uint32_t number : {9U, 3U, 7U, 1U}) rows.push_back(*keys.add(0, key_of(number)));
  EXPECT_EQ(keys.find(0, RemoteKey{9}), rows[0]);
  EXPECT_EQ(keys.find(0, RemoteKey{3}), rows[1]);
  EXPECT_EQ(keys.find(0, RemoteKey{7}), rows[2]);
  EXPECT_EQ(keys.find(0, RemoteKey{1}), rows[3]);
  EXPECT_EQ(keys.find(0, RemoteKey{10}), std::nullopt);
}

TEST_F(RmbKeysTest, UsesAFreeRowBeforeAnother) {
  const RmbRow first = *keys.add(0, key_of(1));
  const RmbRow second = *keys.add(0, key_of(2));
  EXPECT_EQ(keys.add(0, key_of(2)), second);  // it has one already
  EXPECT_EQ(keys.count(), 2U);
  keys.remove(first);
  keys.remove(first);
  EXPECT_EQ(keys.count(), 1U);
  EXPECT_EQ(keys.find(0, RemoteKey{1}), std::nullopt);
  EXPECT_EQ(keys.add(0, key_of(3)), first);
  EXPECT_EQ(keys.rows(), 2U);
}

}  // namespace
}  // namespace fairlead::smc
