// Owners of peer ids, and request limits of pods.
#include "cni/node/broker/broker_book.h"

#include <gtest/gtest.h>

#include "cni/node/broker/broker_file.h"

namespace fairlead::cni::node {
namespace {

using broker::Refusal;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

PeerId peer(int number) {
  return {{0x10, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(number >> 8),
           static_cast<std::uint8_t>(number)}};
}

class BrokerBookTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(book_.add_pod("a", {}));
    ASSERT_TRUE(book_.add_pod("b", {}));
  }
  BrokerPod& pod(const std::string& name) { return *book_.find_pod(name); }
  Refusal come(const std::string& name, int member, PeerId id) {
    EXPECT_EQ(book_.connect(pod(name), member), std::nullopt);
    return book_.enroll(member, id);
  }
  BrokerShares shares_{1024, [] { return 0.0; }};
  BrokerUnread unread_;
  BrokerBook book_{shares_, unread_};
};

TEST_F(BrokerBookTest, FindsADeviceByItsIdUntilItLeaves) {
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  EXPECT_EQ(book_.find(peer(1)), 1);
  EXPECT_EQ(book_.peer_of(1), peer(1));
  EXPECT_TRUE(book_.enrolled(1));
  book_.disconnect(1);
  EXPECT_EQ(book_.find(peer(1)), std::nullopt);
  EXPECT_FALSE(book_.enrolled(1));
  EXPECT_EQ(book_.device_count(), 0u);
}

TEST_F(BrokerBookTest, AnIdInUseIsTakenAndBelongsToItsPodForAsLongAsThePodLives) {
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  EXPECT_EQ(come("a", 11, peer(1)), Refusal::kTaken);
  EXPECT_EQ(come("b", 12, peer(1)), Refusal::kTaken);
  EXPECT_EQ(come("b", 13, PeerId{}), Refusal::kTaken);
  for (const int member : {1, 11, 12, 13}) book_.disconnect(member);
  EXPECT_EQ(come("b", 2, peer(1)), Refusal::kTaken);
  EXPECT_EQ(come("a", 3, peer(1)), Refusal::kNone);
  EXPECT_EQ(book_.remove_pod(pod("a")), std::vector<int>{3});
  book_.disconnect(2);
  EXPECT_EQ(come("b", 4, peer(1)), Refusal::kNone);
}

TEST_F(BrokerBookTest, OwnershipOutlivesTheBookInItsFile) {
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  EXPECT_EQ(come("b", 2, peer(2)), Refusal::kNone);
  const BrokerRecord record{FabricId{{1, 2, 3, 4, 5}}, book_.ownerships()};
  const auto read = parse_broker_record(to_json_text(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
  BrokerBook next(shares_, unread_);
  next.restore(read->owners);
  BrokerPod* const other = next.add_pod("b", {});
  ASSERT_TRUE(other);
  (void)next.connect(*other, 1);
  EXPECT_EQ(next.enroll(1, peer(1)), Refusal::kTaken);
  next.forget_strangers();  // "a" has not come back
  EXPECT_EQ(next.enroll(1, peer(1)), Refusal::kNone);
}

TEST_F(BrokerBookTest, DamagedRecordsSayWhatIsWrong) {
  for (const auto* text : {"", "[]", "{}", R"({"fabric":"0000000000"})", R"({"fabric":"01020304"})",
                           R"({"fabric":"010203040g"})", R"({"fabric":1})",
                           R"({"fabric":"0102030405","owners":{"x":"a"}})",
                           R"({"fabric":"0102030405","owners":{"0000000000000001":1}})",
                           R"({"fabric":"0102030405","owners":[1]})"}) {
    const auto read = parse_broker_record(text);
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().message.find("broker.json: "), std::string::npos);
  }
}

TEST_F(BrokerBookTest, APodHasSoManyDevices) {
  for (int i = 1; i <= static_cast<int>(kDevicesPerPodMax); ++i)
    EXPECT_EQ(come("a", i, peer(i)), Refusal::kNone);
  EXPECT_EQ(come("a", 1000, peer(1000)), Refusal::kLimit);
  EXPECT_EQ(come("b", 1001, peer(1000)), Refusal::kNone);
}

TEST_F(BrokerBookTest, OfTooManyIdsTheOldestThatIsNotInUseIsFree) {
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);  // stays
  for (int i = 2; i <= static_cast<int>(kPeerIdsPerPodMax) + 1; ++i) {
    EXPECT_EQ(come("a", 2, peer(i)), Refusal::kNone);
    book_.disconnect(2);
  }
  EXPECT_EQ(book_.ownerships().size(), kPeerIdsPerPodMax);
  EXPECT_EQ(come("b", 3, peer(2)), Refusal::kNone);
  EXPECT_EQ(come("b", 4, peer(3)), Refusal::kTaken);
  EXPECT_EQ(book_.find(peer(1)), 1);
}

TEST_F(BrokerBookTest, SilentGuestsMakeRoomForNewOnes) {
  for (int i = 1; i <= static_cast<int>(kGuestsPerPodMax); ++i)
    EXPECT_EQ(book_.connect(pod("a"), i), std::nullopt);
  EXPECT_EQ(book_.enroll(1, peer(1)), Refusal::kNone);
  EXPECT_EQ(book_.connect(pod("a"), 100), std::nullopt);
  EXPECT_EQ(book_.connect(pod("a"), 101), 2);
  EXPECT_EQ(book_.connect(pod("b"), 102), std::nullopt);
  EXPECT_TRUE(book_.enrolled(1));
}

TEST_F(BrokerBookTest, AGreedyPodWaitsAloneAndNotForLong) {
  for (int i = 0; i < static_cast<int>(kRequestsBurst); ++i)
    ASSERT_EQ(pod("a").credits().spend(kStart), std::nullopt);
  const auto wait = pod("a").credits().spend(kStart).value();
  EXPECT_LE(wait, milliseconds(4));
  EXPECT_GT(wait, Duration::zero());
  EXPECT_EQ(pod("b").credits().spend(kStart), std::nullopt);
  EXPECT_EQ(pod("a").credits().spend(kStart + wait), std::nullopt);
  EXPECT_TRUE(pod("a").credits().spend(kStart + wait));
  // Unused credits have a limit.
  for (int i = 0; i < static_cast<int>(kRequestsBurst); ++i)
    ASSERT_EQ(pod("a").credits().spend(kStart + seconds(3600)), std::nullopt);
  EXPECT_TRUE(pod("a").credits().spend(kStart + seconds(3600)));
}

// Requests alone cannot cause this; the cost of system calls on its sockets can.
TEST_F(BrokerBookTest, APodThatTakesVeryLongIsShunnedForAWhile) {
  auto& credits = pod("a").credits();
  EXPECT_FALSE(credits.spend(kStart));
  EXPECT_FALSE(credits.shunned());
  credits.charge(kRequestsBurst + kRequestsDebtMax + 1);
  EXPECT_TRUE(credits.shunned());
  EXPECT_TRUE(credits.spend(kStart + milliseconds(100)));
  EXPECT_FALSE(credits.shunned());
  EXPECT_FALSE(credits.spend(kStart + seconds(2)));
}

TEST_F(BrokerBookTest, NewIdsCostMoreThanKnownOnes) {
  const auto count = [&](TimePoint now) {
    int requests = 0;
    while (!pod("a").credits().spend(now)) ++requests;
    return requests;
  };
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  book_.disconnect(1);
  EXPECT_EQ(count(kStart), static_cast<int>(kRequestsBurst - kRequestsPerPeerId));
  EXPECT_EQ(pod("a").credits().spend(kStart + seconds(3600)), std::nullopt);
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  EXPECT_EQ(count(kStart + seconds(3600)), static_cast<int>(kRequestsBurst) - 1);
  // Debts delay the next request.
  EXPECT_EQ(come("a", 2, peer(2)), Refusal::kNone);
  EXPECT_GT(*pod("a").credits().spend(kStart + seconds(3600)), milliseconds(50));
}

TEST_F(BrokerBookTest, PodsHaveALimit) {
  for (std::size_t i = 2; i < kBrokeredPodsMax; ++i)
    ASSERT_TRUE(book_.add_pod("pod" + std::to_string(i), {}));
  EXPECT_FALSE(book_.add_pod("one more", {}));
  (void)book_.remove_pod(pod("a"));
  EXPECT_TRUE(book_.add_pod("one more", {}));
}

TEST_F(BrokerBookTest, GrantsAreHeldUntilTheDeviceComesOrTheirOwnerLeaves) {
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  EXPECT_EQ(come("a", 2, peer(2)), Refusal::kNone);
  for (std::uint64_t i = 0; i < kHeldGrantsPerPeerMax; ++i)
    ASSERT_TRUE(book_.hold_grant(peer(9), {i % 2 == 0 ? 1 : 2, {5, i}}));
  EXPECT_FALSE(book_.hold_grant(peer(9), {1, {5, 100}}));
  EXPECT_TRUE(book_.hold_grant(peer(8), {1, {5, 100}}));
  EXPECT_EQ(come("b", 3, peer(3)), Refusal::kNone);
  EXPECT_TRUE(book_.hold_grant(peer(9), {3, {6, 1}}));
  book_.disconnect(1);
  EXPECT_TRUE(book_.take_grants(peer(8)).empty());
  EXPECT_EQ(book_.take_grants(peer(9)).size(), kHeldGrantsPerPeerMax / 2 + 1u);
  EXPECT_TRUE(book_.take_grants(peer(9)).empty());
}

TEST_F(BrokerBookTest, OnlyWhatIsRememberedIsAChange) {
  const auto before = book_.changes();
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  const auto first = book_.changes();
  EXPECT_NE(first, before);
  book_.disconnect(1);
  EXPECT_EQ(come("a", 1, peer(1)), Refusal::kNone);
  EXPECT_EQ(book_.changes(), first);
  (void)book_.remove_pod(pod("a"));
  EXPECT_NE(book_.changes(), first);
}

// The next broker can read a file with the maximum number of pods and ids.
TEST(BrokerFile, TheLargestRecordIsReadBackWhole) {
  BrokerRecord record;
  record.fabric.bytes = {1, 2, 3, 4, 5};
  for (std::size_t pod = 0; pod < kBrokeredPodsMax; ++pod) {
    std::string name = std::to_string(pod);
    name.insert(0, 64 - name.size(), 'c');
    for (std::size_t id = 0; id < kPeerIdsPerPodMax; ++id) {
      PeerId peer;
      peer.bytes = {1, static_cast<std::uint8_t>(pod >> 8), static_cast<std::uint8_t>(pod),
                    static_cast<std::uint8_t>(id)};
      record.owners.push_back({peer, name});
    }
  }
  const auto read = parse_broker_record(to_json_text(record));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
}

}  // namespace
}  // namespace fairlead::cni::node
