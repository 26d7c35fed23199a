// Goal: what is remembered of the peer's RMBs, and each answer to it. Method: requests as the peer
// sends them, without a group.
#include "smc/group/peer_rmbs.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

wire::ConfirmRkey announcement(std::uint32_t rkey,
                               std::initializer_list<wire::RkeyOnLink> others = {},
                               std::uint8_t to_follow = 0) {
  wire::ConfirmRkey message{
      .rkey = RemoteKey{rkey}, .address = RemoteAddress{4096}, .to_follow = to_follow};
  for (const wire::RkeyOnLink& other : others) message.others.push(other);
  return message;
}

wire::ConfirmRkeyCont continuation(const wire::RkeyOnLink& other, std::uint8_t to_follow = 0) {
  wire::ConfirmRkeyCont message{.to_follow = to_follow};
  message.others.push(other);
  return message;
}

wire::DeleteRkey deletion_of(std::initializer_list<std::uint32_t> rkeys) {
  wire::DeleteRkey message;
  for (const std::uint32_t rkey : rkeys) message.rkeys.push(RemoteKey{rkey});
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
  template <class Message>
  auto answer(LinkIndex link, const Message& message,
              std::optional<LinkIndex> adding = std::nullopt) {
    return rmbs.answer(link, message, links, adding);
  }
  LinkSet links{kLinksMax, 255, TimePoint{}};
  PeerRmbs rmbs;
  LinkGroupOutput out{wire::LlcVersion::k2};
};

TEST_F(Peer, AnAnnouncementIsKnownOnAllLinksThatItNames) {
  const wire::RkeyOnLink unknown{LinkNumber{99}, RemoteKey{1}, RemoteAddress{1}};
  const auto answered = answer(0, announcement(10, {on(1, 11), unknown}));
  EXPECT_EQ(answered.kind, wire::LlcKind::kResponse);
  EXPECT_FALSE(answered.refused);
  const auto row = rmbs.keys().find(0, RemoteKey{10});
  ASSERT_TRUE(row);
  EXPECT_EQ(rmbs.keys().find(1, RemoteKey{11}), row);
}

TEST_F(Peer, ARepetitionAddsALinkToTheSameRow) {
  rmbs.add_first(1, {RemoteKey{11}, RemoteAddress{4096}});
  (void)answer(0, announcement(10, {on(1, 11)}));
  EXPECT_EQ(rmbs.keys().count(), 1U);
}

TEST_F(Peer, OneThatLacksTheLinkBeingAddedIsToBeAnnouncedAgain) {
  const auto answered = answer(0, announcement(10), LinkIndex{2});
  EXPECT_TRUE(answered.refused && answered.retry);
  EXPECT_FALSE(answer(0, announcement(10, {on(2, 12)}), LinkIndex{2}).refused);
}

TEST_F(Peer, RowsHaveALimit) {
  for (std::uint32_t i = 0; i < kRmbsMax; ++i)
    ASSERT_FALSE(answer(0, announcement(100 + i)).refused);
  const auto answered = answer(0, announcement(5000));
  EXPECT_TRUE(answered.refused);
  EXPECT_FALSE(answered.retry);
}

TEST_F(Peer, ContinuationsFollowTheirCount) {
  EXPECT_FALSE(answer(0, announcement(10, {}, 2)).refused);
  const auto first = answer(0, continuation(on(1, 11), 1));
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->refused);
  ASSERT_TRUE(answer(0, continuation(on(2, 12))));
  EXPECT_TRUE(rmbs.keys().find(2, RemoteKey{12}));
  EXPECT_FALSE(answer(0, continuation(on(2, 12))));  // one too many
}

TEST_F(Peer, AContinuationWithAnotherCountIsAViolation) {
  (void)answer(0, announcement(10, {}, 1));
  const auto answered = answer(0, continuation(on(1, 11), 1));
  ASSERT_FALSE(answered);
  EXPECT_STREQ(answered.error().what,
               "the peer's CONFIRM_RKEY_CONT does not have the announced count of links");
}

TEST_F(Peer, ARefusedOneOrALostLinkHasNoContinuation) {
  const wire::ConfirmRkey request = announcement(10, {}, 1);
  const wire::ConfirmRkeyCont more = continuation(on(1, 11));
  (void)answer(0, request);
  EXPECT_TRUE(rmbs.refuse(0, request).refused);
  EXPECT_FALSE(answer(0, more));
  (void)answer(0, request);
  rmbs.handle_link_gone(0);
  EXPECT_FALSE(answer(0, more));
}

TEST_F(Peer, ADeletedOneGoesWithTheKeysOfAllLinks) {
  (void)answer(0, announcement(10, {on(1, 11)}));
  const auto answered = rmbs.answer(0, deletion_of({10}), false, out);
  EXPECT_FALSE(answered.some_unknown);
  EXPECT_EQ(out.poll_event()->rkey, RemoteKey{10});
  const auto other = out.poll_event();
  ASSERT_TRUE(other);
  EXPECT_EQ(other->link, 1);
  EXPECT_EQ(other->rkey, RemoteKey{11});
  EXPECT_FALSE(out.poll_event());
  EXPECT_EQ(rmbs.keys().count(), 0U);
}

TEST_F(Peer, UnknownKeysAreCountedInVersion2AndMaskedInVersion1) {
  (void)answer(0, announcement(10));
  const wire::DeleteRkey deletion = deletion_of({10, 98, 99});
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
  const auto begun = answer(0, request);
  EXPECT_FALSE(begun.refused || begun.retry);
  wire::ConfirmRkeyCont more;
  more.refused = more.retry = true;
  more.others.push(on(1, 11));
  const auto rest = answer(0, more);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->kind, wire::LlcKind::kResponse);
  EXPECT_FALSE(rest->refused || rest->retry);
  const auto refusal = rmbs.refuse(0, request);
  EXPECT_EQ(refusal.kind, wire::LlcKind::kResponse);
  EXPECT_TRUE(refusal.refused);
  EXPECT_FALSE(refusal.retry);
}

TEST_F(Peer, AContinuationInsideTheOthersIsNotRefusedForGood) {
  (void)answer(0, announcement(10, {}, 2), LinkIndex{3});
  wire::ConfirmRkeyCont more = continuation(on(1, 11), 1);
  more.retry = true;
  const auto between = answer(0, more, LinkIndex{3});
  ASSERT_TRUE(between);
  EXPECT_FALSE(between->refused);  // what follows may name the link
  EXPECT_FALSE(between->retry);
  more.others.items[0] = on(2, 12);
  more.to_follow = 0;
  const auto last = answer(0, more, LinkIndex{3});
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->refused && last->retry);
  (void)answer(0, announcement(10, {}, 1), LinkIndex{3});
  EXPECT_FALSE(answer(0, continuation(on(3, 13)), LinkIndex{3})->refused);  // it names the link
}

TEST_F(Peer, AnAnnouncementEndsTheOneBeforeIt) {
  (void)answer(0, announcement(10, {}, 1));
  (void)answer(0, announcement(20));
  EXPECT_FALSE(answer(0, continuation(on(1, 11))));
}

TEST_F(Peer, ADeletionConcernsNoOtherRmb) {
  (void)answer(0, announcement(10, {}, 1));
  (void)answer(1, announcement(20));
  const auto answered = rmbs.answer(1, deletion_of({20}), false, out);
  EXPECT_EQ(answered.kind, wire::LlcKind::kResponse);
  EXPECT_EQ(answered.error_mask, 0);
  EXPECT_EQ(out.poll_event()->link, 1);
  EXPECT_FALSE(out.poll_event());
  const auto rest = answer(0, continuation(on(2, 12)));
  ASSERT_TRUE(rest);
  EXPECT_FALSE(rest->refused);
}

TEST_F(Peer, ADeletionOfNothingIsAnsweredAlike) {
  const auto answered = rmbs.answer(0, wire::DeleteRkey{}, false, out);
  EXPECT_FALSE(answered.some_unknown);
  EXPECT_TRUE(answered.rkeys.view().empty());
  EXPECT_FALSE(out.poll_event());
}

// The peer may list links in any order; the first key that is known names the RMB.
TEST_F(Peer, TheFirstKnownKeyNamesTheRmb) {
  rmbs.add_first(1, {RemoteKey{11}, RemoteAddress{4096}});
  rmbs.add_first(2, {RemoteKey{22}, RemoteAddress{4096}});
  (void)answer(0, announcement(10, {on(1, 11), on(2, 22)}));
  EXPECT_EQ(rmbs.keys().find(0, RemoteKey{10}), rmbs.keys().find(1, RemoteKey{11}));
}

}  // namespace
}  // namespace fairlead::smc
