// Goal: what is remembered of the peer's RMBs, and each answer to it. Method: requests as the peer
// sends them, without a group.
#include "smc/group/peer_rmbs.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

wire::ConfirmRkey announcement(std::uint32_t rkey) {
  wire::ConfirmRkey message;
  message.kind = wire::LlcKind::kRequest;
  message.rkey = RemoteKey{rkey};
  message.address = RemoteAddress{4096};
  return message;
}

class Peer : public testing::Test {
 protected:
  Peer() {
    for (LinkIndex i = 0; i < kLinksMax; ++i) {
      links[i].emplace(links.next_number(), LinkIdentity{}, TimePoint{});
      links[i]->set_state(LinkState::kActive);
    }
  }
  wire::RkeyOnLink on(LinkIndex link, std::uint32_t rkey) const {
    return {links[link]->number(), RemoteKey{rkey}, RemoteAddress{4096}};
  }
  LinkSet links{kLinksMax, 255, TimePoint{}};
  PeerRmbs rmbs;
  LinkGroupOutput out{wire::LlcVersion::k2};
};

TEST_F(Peer, AnAnnouncementIsKnownOnAllLinksThatItNames) {
  wire::ConfirmRkey request = announcement(10);
  request.others.push(on(1, 11));
  const auto answer = rmbs.answer(0, request, links, std::nullopt);
  EXPECT_EQ(answer.kind, wire::LlcKind::kResponse);
  EXPECT_FALSE(answer.refused);
  const auto row = rmbs.keys().find(0, RemoteKey{10});
  ASSERT_TRUE(row);
  EXPECT_EQ(rmbs.keys().find(1, RemoteKey{11}), row);
}

TEST_F(Peer, ARepetitionAddsALinkToTheSameRow) {
  rmbs.add_first(1, {RemoteKey{11}, RemoteAddress{4096}});
  wire::ConfirmRkey request = announcement(10);
  request.others.push(on(1, 11));
  (void)rmbs.answer(0, request, links, std::nullopt);
  EXPECT_EQ(rmbs.keys().count(), 1U);
}

TEST_F(Peer, OneThatLacksTheLinkBeingAddedIsToBeAnnouncedAgain) {
  const auto answer = rmbs.answer(0, announcement(10), links, LinkIndex{2});
  EXPECT_TRUE(answer.refused);
  EXPECT_TRUE(answer.retry);
}

TEST_F(Peer, RowsHaveALimit) {
  for (std::uint32_t i = 0; i < kRmbsMax; ++i)
    ASSERT_FALSE(rmbs.answer(0, announcement(100 + i), links, std::nullopt).refused);
  const auto answer = rmbs.answer(0, announcement(5000), links, std::nullopt);
  EXPECT_TRUE(answer.refused);
  EXPECT_FALSE(answer.retry);
}

TEST_F(Peer, ContinuationsFollowTheirCount) {
  wire::ConfirmRkey request = announcement(10);
  request.to_follow = 2;
  EXPECT_FALSE(rmbs.answer(0, request, links, std::nullopt).refused);
  wire::ConfirmRkeyCont more;
  more.kind = wire::LlcKind::kRequest;
  more.others.push(on(1, 11));
  more.to_follow = 1;
  const auto first = rmbs.answer(0, more, links, std::nullopt);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->refused);
  more.others.items[0] = on(2, 12);
  more.to_follow = 0;
  ASSERT_TRUE(rmbs.answer(0, more, links, std::nullopt));
  EXPECT_TRUE(rmbs.keys().find(2, RemoteKey{12}));
  EXPECT_FALSE(rmbs.answer(0, more, links, std::nullopt));  // one too many
}

TEST_F(Peer, AContinuationWithAnotherCountIsAViolation) {
  wire::ConfirmRkey request = announcement(10);
  request.to_follow = 1;
  (void)rmbs.answer(0, request, links, std::nullopt);
  wire::ConfirmRkeyCont more;
  more.others.push(on(1, 11));
  more.to_follow = 1;
  const auto answer = rmbs.answer(0, more, links, std::nullopt);
  ASSERT_FALSE(answer);
  EXPECT_STREQ(answer.error().what,
               "the peer's CONFIRM_RKEY_CONT does not have the announced count of links");
}

TEST_F(Peer, ARefusedOneOrALostLinkHasNoContinuation) {
  wire::ConfirmRkey request = announcement(10);
  request.to_follow = 1;
  wire::ConfirmRkeyCont more;
  more.others.push(on(1, 11));
  (void)rmbs.answer(0, request, links, std::nullopt);
  EXPECT_TRUE(rmbs.refuse(0, request).refused);
  EXPECT_FALSE(rmbs.answer(0, more, links, std::nullopt));
  (void)rmbs.answer(0, request, links, std::nullopt);
  rmbs.handle_link_gone(0);
  EXPECT_FALSE(rmbs.answer(0, more, links, std::nullopt));
}

TEST_F(Peer, ADeletedOneGoesWithTheKeysOfAllLinks) {
  wire::ConfirmRkey request = announcement(10);
  request.others.push(on(1, 11));
  (void)rmbs.answer(0, request, links, std::nullopt);
  wire::DeleteRkey deletion;
  deletion.rkeys.push(RemoteKey{10});
  const auto answer = rmbs.answer(0, deletion, false, out);
  EXPECT_FALSE(answer.some_unknown);
  EXPECT_EQ(out.poll_event()->rkey, RemoteKey{10});
  const auto other = out.poll_event();
  ASSERT_TRUE(other);
  EXPECT_EQ(other->link, 1);
  EXPECT_EQ(other->rkey, RemoteKey{11});
  EXPECT_FALSE(out.poll_event());
  EXPECT_EQ(rmbs.keys().count(), 0U);
}

TEST_F(Peer, UnknownKeysAreCountedInVersion2AndMaskedInVersion1) {
  (void)rmbs.answer(0, announcement(10), links, std::nullopt);
  wire::DeleteRkey deletion;
  deletion.rkeys.push(RemoteKey{10});
  deletion.rkeys.push(RemoteKey{98});
  deletion.rkeys.push(RemoteKey{99});
  const auto counted = rmbs.answer(0, deletion, false, out);
  EXPECT_TRUE(counted.some_unknown);
  EXPECT_EQ(counted.error_mask, 2);
  EXPECT_EQ(counted.rkeys.view().size(), 1U);
  const auto masked = rmbs.answer(0, deletion, true, out);
  EXPECT_EQ(masked.error_mask, 0xe0);  // the first is gone by now
  EXPECT_EQ(masked.rkeys.view().size(), 3U);
}

TEST_F(Peer, LinksLearnOnlyWhatIsKnownOnTheCarrier) {
  rmbs.add_first(0, {RemoteKey{10}, RemoteAddress{4096}});
  const std::array entries{wire::RkeyEntry{RemoteKey{10}, RemoteKey{20}, RemoteAddress{8192}},
                           wire::RkeyEntry{RemoteKey{77}, RemoteKey{78}, RemoteAddress{8192}}};
  rmbs.learn(0, 1, entries);
  EXPECT_TRUE(rmbs.keys().find(1, RemoteKey{20}));
  EXPECT_FALSE(rmbs.keys().find(1, RemoteKey{78}));
  rmbs.forget_link(1);
  EXPECT_FALSE(rmbs.keys().find(1, RemoteKey{20}));
}

TEST_F(Peer, NoAnswerRepeatsTheRefusalOfARequest) {
  wire::ConfirmRkey request = announcement(10);
  request.refused = request.retry = true;
  request.to_follow = 1;
  const auto begun = rmbs.answer(0, request, links, std::nullopt);
  EXPECT_FALSE(begun.refused);
  EXPECT_FALSE(begun.retry);
  wire::ConfirmRkeyCont more;
  more.refused = more.retry = true;
  more.others.push(on(1, 11));
  const auto rest = rmbs.answer(0, more, links, std::nullopt);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->kind, wire::LlcKind::kResponse);
  EXPECT_FALSE(rest->refused);
  EXPECT_FALSE(rest->retry);
  const auto refusal = rmbs.refuse(0, request);
  EXPECT_EQ(refusal.kind, wire::LlcKind::kResponse);
  EXPECT_TRUE(refusal.refused);
  EXPECT_FALSE(refusal.retry);
}

TEST_F(Peer, AContinuationInsideTheOthersIsNotRefusedForGood) {
  wire::ConfirmRkey request = announcement(10);
  request.to_follow = 2;
  (void)rmbs.answer(0, request, links, LinkIndex{3});
  wire::ConfirmRkeyCont more;
  more.others.push(on(1, 11));
  more.to_follow = 1;
  more.retry = true;
  const auto between = rmbs.answer(0, more, links, LinkIndex{3});
  ASSERT_TRUE(between);
  EXPECT_FALSE(between->refused);  // what follows may name the link
  EXPECT_FALSE(between->retry);
  more.others.items[0] = on(2, 12);
  more.to_follow = 0;
  const auto last = rmbs.answer(0, more, links, LinkIndex{3});
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->refused);
  EXPECT_TRUE(last->retry);
}

TEST_F(Peer, AnAnnouncementEndsTheOneBeforeIt) {
  wire::ConfirmRkey request = announcement(10);
  request.to_follow = 1;
  (void)rmbs.answer(0, request, links, std::nullopt);
  (void)rmbs.answer(0, announcement(20), links, std::nullopt);
  wire::ConfirmRkeyCont more;
  more.others.push(on(1, 11));
  EXPECT_FALSE(rmbs.answer(0, more, links, std::nullopt));
}

TEST_F(Peer, ADeletionConcernsNoOtherRmb) {
  wire::ConfirmRkey request = announcement(10);
  request.to_follow = 1;
  (void)rmbs.answer(0, request, links, std::nullopt);
  (void)rmbs.answer(1, announcement(20), links, std::nullopt);
  wire::DeleteRkey deletion;
  deletion.rkeys.push(RemoteKey{20});
  const auto answer = rmbs.answer(1, deletion, false, out);
  EXPECT_EQ(answer.kind, wire::LlcKind::kResponse);
  EXPECT_EQ(answer.error_mask, 0);
  EXPECT_EQ(out.poll_event()->link, 1);
  EXPECT_FALSE(out.poll_event());
  wire::ConfirmRkeyCont more;
  more.others.push(on(2, 12));
  const auto rest = rmbs.answer(0, more, links, std::nullopt);
  ASSERT_TRUE(rest);
  EXPECT_FALSE(rest->refused);
}

TEST_F(Peer, ADeletionOfNothingIsAnsweredAlike) {
  const auto answer = rmbs.answer(0, wire::DeleteRkey{}, false, out);
  EXPECT_FALSE(answer.some_unknown);
  EXPECT_TRUE(answer.rkeys.view().empty());
  EXPECT_FALSE(out.poll_event());
}

// The peer may list links in any order; the first key that is known names the RMB.
TEST_F(Peer, TheFirstKnownKeyNamesTheRmb) {
  rmbs.add_first(1, {RemoteKey{11}, RemoteAddress{4096}});
  rmbs.add_first(2, {RemoteKey{22}, RemoteAddress{4096}});
  wire::ConfirmRkey request = announcement(10);
  request.others.push(on(1, 11));
  request.others.push(on(2, 22));
  (void)rmbs.answer(0, request, links, std::nullopt);
  EXPECT_EQ(rmbs.keys().find(0, RemoteKey{10}), rmbs.keys().find(1, RemoteKey{11}));
}

}  // namespace
}  // namespace fairlead::smc
