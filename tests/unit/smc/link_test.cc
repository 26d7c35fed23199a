// Goal: a link is tested when it is silent or doubted, and only an answer or other traffic ends the
// test. Method: one link and a clock.
#include "smc/group/link.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

using Step = Link::TestStep;

constexpr TimePoint kNow = TimePoint{} + std::chrono::hours(1);
constexpr Duration kInterval = std::chrono::seconds(30);
constexpr Duration kSecond = std::chrono::seconds(1);

class LinkTest : public testing::Test {
 protected:
  LinkTest() { link.set_state(LinkState::kActive); }
  Link link{LinkNumber{1}, LinkIdentity{}, kNow};
};

TEST_F(LinkTest, IsTestedAfterTheIntervalFromTheLastMessage) {
  EXPECT_EQ(link.test_deadline(kInterval), kNow + kInterval);
  link.handle_received(kNow + kSecond);
  EXPECT_EQ(link.test_deadline(kInterval), kNow + kSecond + kInterval);
  EXPECT_EQ(link.test_deadline(Duration::zero()), std::nullopt);
  link.set_state(LinkState::kDown);
  EXPECT_EQ(link.test_deadline(kInterval), std::nullopt);
}

TEST_F(LinkTest, OnlyTheDataOfTheTestAnswersIt) {
  const TimePoint asked = kNow + kInterval;
  EXPECT_EQ(link.handle_test_deadline(asked - Duration(1), kInterval), Step::kNothing);
  EXPECT_EQ(link.handle_test_deadline(asked, kInterval), Step::kSend);
  EXPECT_EQ(link.test_deadline(kInterval), asked + kLlcAnswerWait);
  auto other = link.test_data();
  other[15] = std::byte{1};
  EXPECT_EQ(link.handle_test_response(other, asked + kSecond), std::nullopt);
  EXPECT_EQ(link.handle_test_response(link.test_data(), asked + kSecond), kSecond);
  EXPECT_EQ(link.handle_test_response(link.test_data(), asked + kSecond), std::nullopt);
}

TEST_F(LinkTest, EachTestHasItsOwnData) {
  ASSERT_EQ(link.handle_test_deadline(kNow + kInterval, kInterval), Step::kSend);
  const auto first = link.test_data();
  EXPECT_EQ(first[0], std::byte{1});
  EXPECT_EQ(first[8], std::byte{0});
  ASSERT_TRUE(link.handle_test_response(first, kNow + kInterval));
  ASSERT_EQ(link.handle_test_deadline(kNow + 2 * kInterval, kInterval), Step::kSend);
  EXPECT_NE(link.test_data(), first);
}

TEST_F(LinkTest, ADoubtIsOverWithItsAnswer) {
  link.doubt(Doubt::kDisowned, kNow + kSecond);
  EXPECT_TRUE(link.disowned());
  EXPECT_EQ(link.test_deadline(Duration::zero()), kNow + kSecond);
  ASSERT_EQ(link.handle_test_deadline(kNow + kSecond, kInterval), Step::kSend);
  link.handle_received(kNow + 2 * kSecond);
  ASSERT_TRUE(link.handle_test_response(link.test_data(), kNow + 2 * kSecond));
  EXPECT_FALSE(link.disowned());
  EXPECT_EQ(link.test_deadline(kInterval), kNow + 2 * kSecond + kInterval);
}

TEST_F(LinkTest, OtherTrafficIsAsGoodAsAnAnswer) {
  link.doubt(Doubt::kDisowned, kNow);
  ASSERT_EQ(link.handle_test_deadline(kNow, kInterval), Step::kSend);
  link.handle_received(kNow + kSecond);
  EXPECT_TRUE(link.disowned());  // until the time of the answer
  EXPECT_EQ(link.handle_test_deadline(kNow + kLlcAnswerWait, kInterval), Step::kNothing);
  EXPECT_FALSE(link.disowned());
  EXPECT_EQ(link.test_deadline(kInterval), kNow + kSecond + kInterval);
}

TEST_F(LinkTest, ADoubtDuringATestAddsNone) {
  link.doubt(Doubt::kPeerGone, kNow);
  EXPECT_FALSE(link.disowned());
  ASSERT_EQ(link.handle_test_deadline(kNow, kInterval), Step::kSend);
  link.doubt(Doubt::kPeerGone, kNow);
  ASSERT_TRUE(link.handle_test_response(link.test_data(), kNow));
  EXPECT_EQ(link.test_deadline(kInterval), kNow + kInterval);
}

}  // namespace
}  // namespace fairlead::smc
