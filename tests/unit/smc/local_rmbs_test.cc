// Goal: what is announced, listed and deleted of this side's RMBs. Method: rows and links without
// messages.
#include "smc/group/local_rmbs.h"

#include <gtest/gtest.h>

#include "group_parts.h"

namespace fairlead::smc {
namespace {

wire::DeleteRkey answer(std::uint32_t rkey = 0) {
  wire::DeleteRkey message{.kind = wire::LlcKind::kResponse};
  if (rkey != 0) message.rkeys.push(RemoteKey{rkey});
  return message;
}

class Rmbs : public testing::Test {
 protected:
  Rmbs() {
    for (LinkIndex i = 0; i < 2; ++i) {
      links[i].emplace(links.next_number(), at_port(i), TimePoint{});
      links[i]->set_state(LinkState::kActive);
    }
  }
  // One with keys on both links.
  RmbRow add(std::uint32_t rkey) {
    const RmbRow rmb = *rmbs.add(0, rmb_key(rkey));
    rmbs.set_key(rmb, 1, rmb_key(rkey + 1));
    return rmb;
  }
  void request(RmbRow rmb) {
    rmbs.want_deleted(rmb);
    rmbs.set_deletion_requested(*rmbs.next_to_delete(links));
  }
  LinkSet links{2, 255, TimePoint{}};
  LocalRmbs rmbs;
};

TEST_F(Rmbs, TheFirstContactNamesItsOwnOnItsLink) {
  const RmbRow first = add(10);
  EXPECT_FALSE(rmbs.announced(first, links));  // not on the other
  links[1]->set_state(LinkState::kDown);
  EXPECT_TRUE(rmbs.announced(first, links));
  rmbs.end_first_contact();
  const RmbRow later = add(20);
  EXPECT_FALSE(rmbs.announced(later, links));
  EXPECT_EQ(rmbs.next_to_announce(links), later);
}

TEST_F(Rmbs, AnnouncedOnAllActiveLinksOrNotAtAll) {
  rmbs.end_first_contact();
  const RmbRow rmb = add(10);
  rmbs.set_announced(rmb, bit(0));
  EXPECT_FALSE(rmbs.announced(rmb, links));
  rmbs.set_announced(rmb, bit(1));
  EXPECT_TRUE(rmbs.announced(rmb, links));
  rmbs.forget_link(1);
  EXPECT_FALSE(rmbs.announced(rmb, links));
}

TEST_F(Rmbs, RefusedOnlyIfThePeerKnowsItNowhere) {
  rmbs.end_first_contact();
  const RmbRow unknown = add(10);
  const RmbRow known = add(20);
  rmbs.set_announced(known, bit(0));
  rmbs.set_refused(unknown);
  rmbs.set_refused(known);
  EXPECT_TRUE(rmbs.refused(unknown));
  EXPECT_FALSE(rmbs.refused(known));
}

TEST_F(Rmbs, AddLinkListsWhatThePeerKnowsOnTheCarrier) {
  rmbs.end_first_contact();
  const RmbRow rmb = add(10);
  EXPECT_FALSE(rmbs.entry(rmb, 0, 1));
  rmbs.set_announced(rmb, bit(0));
  const auto entry = rmbs.entry(rmb, 0, 1);
  ASSERT_TRUE(entry);
  EXPECT_EQ(*entry, (wire::RkeyEntry{RemoteKey{10}, RemoteKey{11}, rmb_key(11).address}));
  EXPECT_FALSE(rmbs.entry(rmb, 0, 2));  // no key there
  request(rmb);
  EXPECT_FALSE(rmbs.entry(rmb, 0, 1));  // it is being deleted
}

TEST_F(Rmbs, OneDeletionALink) {
  const RmbRow first = add(10);
  const RmbRow second = add(20);
  const RmbRow third = add(30);
  request(first);
  request(second);
  rmbs.want_deleted(third);
  EXPECT_FALSE(rmbs.next_to_delete(links));
  EXPECT_TRUE(rmbs.take_answer(0, answer(10)));
  EXPECT_TRUE(rmbs.deleted(first));
  const auto next = rmbs.next_to_delete(links);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->rmb, third);
  EXPECT_EQ(next->carrier, 0);
}

TEST_F(Rmbs, AnAnswerNamesTheKeyOrNone) {
  const RmbRow rmb = add(10);
  request(rmb);
  EXPECT_FALSE(rmbs.take_answer(1, answer(11)));  // nothing was requested there
  EXPECT_FALSE(rmbs.take_answer(0, answer(99)));
  EXPECT_FALSE(rmbs.deleted(rmb));
  EXPECT_TRUE(rmbs.take_answer(0, answer()));
  EXPECT_TRUE(rmbs.deleted(rmb));
  rmbs.remove(rmb);
  EXPECT_EQ(rmbs.keys().count(), 0U);
}

TEST_F(Rmbs, RowsHaveALimit) {
  for (std::uint32_t i = 0; i < kRmbsMax; ++i) ASSERT_TRUE(rmbs.add(0, rmb_key(100 + i)));
  const auto refused = rmbs.add(0, rmb_key(5000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
  EXPECT_FALSE(rmbs.next_to_delete(links));
}

TEST_F(Rmbs, AFreeRowIsNotAnnounced) {
  rmbs.end_first_contact();
  const RmbRow rmb = add(10);
  rmbs.set_announced(rmb, 3);
  request(rmb);
  ASSERT_TRUE(rmbs.take_answer(0, answer()));
  rmbs.remove(rmb);
  EXPECT_FALSE(rmbs.next_to_announce(links));
  EXPECT_FALSE(rmbs.deleted(rmb));
  EXPECT_FALSE(rmbs.next_to_delete(links));
}

TEST_F(Rmbs, ARefusedOneIsAnnouncedAgainWhenAnotherLinkComes) {
  rmbs.end_first_contact();
  links[1]->set_state(LinkState::kActivating);
  const RmbRow rmb = add(10);
  rmbs.set_refused(rmb);
  rmbs.set_announced(rmb, bit(0));
  EXPECT_FALSE(rmbs.next_to_announce(links));
  links[1]->set_state(LinkState::kActive);
  EXPECT_EQ(rmbs.next_to_announce(links), rmb);
}

TEST_F(Rmbs, OneToBeDeletedIsListedUntilThePeerIsAsked) {
  const RmbRow rmb = add(10);
  rmbs.want_deleted(rmb);
  EXPECT_TRUE(rmbs.entry(rmb, 0, 1));
  EXPECT_FALSE(rmbs.next_to_announce(links));
  rmbs.set_deletion_requested(*rmbs.next_to_delete(links));
  EXPECT_FALSE(rmbs.entry(rmb, 0, 1));
}

TEST_F(Rmbs, OneWithoutAKeyOnTheCarrierIsNotListed) {
  const RmbRow rmb = *rmbs.add(1, rmb_key(10));
  EXPECT_FALSE(rmbs.entry(rmb, 0, 1));
  rmbs.set_announced(rmb, bit(0));
  EXPECT_FALSE(rmbs.entry(rmb, 0, 1));
}

TEST_F(Rmbs, ADeletionUsesTheOldestLinkThatHasAKey) {
  const RmbRow rmb = *rmbs.add(1, rmb_key(10));
  rmbs.want_deleted(rmb);
  EXPECT_EQ(rmbs.next_to_delete(links)->carrier, 1);
  const RmbRow both = add(20);
  rmbs.want_deleted(both);
  rmbs.set_deletion_requested({rmb, 1});
  links[0]->set_state(LinkState::kDown);
  EXPECT_FALSE(rmbs.next_to_delete(links));
  links[0]->set_state(LinkState::kActive);
  EXPECT_EQ(rmbs.next_to_delete(links)->carrier, 0);
}

TEST_F(Rmbs, TheNextLinkAtAnIndexOwesNoAnswer) {
  const RmbRow rmb = add(10);
  request(rmb);
  rmbs.handle_link_gone(0);
  EXPECT_FALSE(rmbs.take_answer(0, answer(10)));
  EXPECT_FALSE(rmbs.deleted(rmb));
  EXPECT_EQ(rmbs.next_to_delete(links)->carrier, 0);
}

TEST(RmbsDeathTest, OneThatThePeerMayWriteToIsNotRemoved) {
  LocalRmbs rmbs;
  const RmbRow rmb = *rmbs.add(0, rmb_key(10));
  EXPECT_DEATH(rmbs.remove(rmb), "assertion failed");
}

}  // namespace
}  // namespace fairlead::smc
