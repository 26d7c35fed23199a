// Goal: each answer and deadline of announcing and deleting an RMB. Method: the flow alone; the
// test is the peer.
#include "smc/group/rkey_flows.h"

#include <gtest/gtest.h>

#include "group_parts.h"

namespace fairlead::smc {
namespace {

constexpr TimePoint kNow = TimePoint{} + std::chrono::hours(1);

class RkeyFlows : public testing::Test {
 protected:
  // An RMB with a key on each of `links` links.
  RmbRow add(std::uint8_t links) {
    for (std::uint8_t i = 0; i < links; ++i) parts.add_link(i);
    parts.local_rmbs.end_first_contact();
    const RmbRow rmb = *parts.local_rmbs.add(0, rmb_key(10));
    for (LinkIndex i = 1; i < links; ++i) parts.local_rmbs.set_key(rmb, i, rmb_key(10U + i));
    return rmb;
  }
  static wire::ConfirmRkey answer(const wire::ConfirmRkey& asked, bool refused = false,
                                  bool retry = false) {
    wire::ConfirmRkey message = asked;
    message.kind = wire::LlcKind::kResponse;
    message.refused = refused;
    message.retry = retry;
    return message;
  }
  GroupEvent::Kind event() {
    const auto event = parts.out.poll_event();
    EXPECT_TRUE(event);
    return event ? event->kind : GroupEvent::Kind::kTerminated;
  }
  PartsForTest parts{GroupRole::kClient};
};

TEST_F(RkeyFlows, WithoutTheFirstLinkAnotherCarriesTheAnnouncement) {
  const RmbRow rmb = add(2);
  parts.links[0]->set_state(LinkState::kDown);
  ConfirmRkeyFlow flow = ConfirmRkeyFlow::begin(parts, rmb, kNow);
  EXPECT_EQ(flow.carrier(), 1);
  const auto asked = parts.sent<wire::ConfirmRkey>(1);
  EXPECT_EQ(asked.rkey, RemoteKey{11});
  EXPECT_EQ(flow.take(parts, 1, answer(asked), kNow), FlowStep::kDone);
}

TEST_F(RkeyFlows, OneWithoutAnAnswerIsRefused) {
  const RmbRow rmb = add(1);
  ConfirmRkeyFlow::begin(parts, rmb, kNow).finish(parts);
  EXPECT_EQ(event(), GroupEvent::Kind::kRmbRefused);
  EXPECT_TRUE(parts.local_rmbs.refused(rmb));
}

TEST_F(RkeyFlows, OtherAnswersAreIgnored) {
  ConfirmRkeyFlow flow = ConfirmRkeyFlow::begin(parts, add(2), kNow);
  auto asked = parts.sent<wire::ConfirmRkey>(0);
  EXPECT_EQ(flow.take(parts, 1, answer(asked), kNow), FlowStep::kRuns);
  asked.rkey = RemoteKey{99};
  EXPECT_EQ(flow.take(parts, 0, answer(asked), kNow), FlowStep::kRuns);
  wire::ConfirmRkeyCont cont{.kind = wire::LlcKind::kResponse};
  EXPECT_EQ(flow.take(parts, 0, cont, kNow), FlowStep::kRuns);
}

TEST_F(RkeyFlows, AContinuationIsAnsweredOnItsCarrierWithItsLinks) {
  ConfirmRkeyFlow flow = ConfirmRkeyFlow::begin(parts, add(4), kNow);
  const auto asked = parts.sent<wire::ConfirmRkey>(0);
  EXPECT_EQ(asked.to_follow, 1);
  constexpr TimePoint kLater = kNow + std::chrono::seconds(1);
  ASSERT_EQ(flow.take(parts, 0, answer(asked), kLater), FlowStep::kRuns);
  EXPECT_EQ(flow.deadline(), kLater + kLlcAnswerWait);
  auto cont = parts.sent<wire::ConfirmRkeyCont>(0);
  EXPECT_EQ(cont.to_follow, 0);
  EXPECT_EQ(cont.others.items[0].rkey, RemoteKey{13});
  cont.kind = wire::LlcKind::kResponse;
  EXPECT_EQ(flow.take(parts, 0, answer(asked), kNow), FlowStep::kRuns);  // the first once more
  EXPECT_EQ(flow.take(parts, 1, cont, kNow), FlowStep::kRuns);
  auto other = cont;
  other.others.items[0].rkey = RemoteKey{99};
  EXPECT_EQ(flow.take(parts, 0, other, kNow), FlowStep::kRuns);
  EXPECT_TRUE(parts.silent());
  cont.refused = true;
  EXPECT_EQ(flow.take(parts, 0, cont, kNow), FlowStep::kDone);
}

TEST_F(RkeyFlows, ARefusalOfTheFirstPartEndsIt) {
  ConfirmRkeyFlow flow = ConfirmRkeyFlow::begin(parts, add(4), kNow);
  const auto asked = parts.sent<wire::ConfirmRkey>(0);
  EXPECT_EQ(flow.take(parts, 0, answer(asked, true), kNow), FlowStep::kDone);
  EXPECT_TRUE(parts.silent());
}

TEST_F(RkeyFlows, TheResultNamesTheRmbAndTheLinksThatWereActive) {
  (void)add(2);
  const RmbRow second = *parts.local_rmbs.add(0, rmb_key(50));
  parts.local_rmbs.set_key(second, 1, rmb_key(51));
  parts.links[1]->set_state(LinkState::kActivating);
  ConfirmRkeyFlow flow = ConfirmRkeyFlow::begin(parts, second, kNow);
  const auto asked = parts.sent<wire::ConfirmRkey>(0);
  EXPECT_EQ(asked.rkey, RemoteKey{50});
  EXPECT_EQ(asked.address, rmb_key(50).address);
  EXPECT_EQ(asked.others.count, 0U);
  EXPECT_EQ(flow.take(parts, 0, answer(asked), kNow), FlowStep::kDone);
  flow.finish(parts);
  EXPECT_EQ(parts.out.poll_event()->rmb, second);
  EXPECT_TRUE(parts.local_rmbs.announced(second, parts.links));
  parts.links[1]->set_state(LinkState::kActive);
  EXPECT_FALSE(parts.local_rmbs.announced(second, parts.links));
}

TEST_F(RkeyFlows, ADeletionNamesTheKeyOfItsCarrier) {
  const RmbRow rmb = add(2);
  parts.local_rmbs.want_deleted(rmb);
  const auto what = parts.local_rmbs.next_to_delete(parts.links);
  ASSERT_TRUE(what);
  const DeleteRkeyFlow flow = DeleteRkeyFlow::begin(parts, *what, kNow);
  EXPECT_EQ(flow.deadline(), kNow + kLlcAnswerWait);
  EXPECT_EQ(parts.sent<wire::DeleteRkey>(0).rkeys.items[0], RemoteKey{10});
  EXPECT_FALSE(parts.local_rmbs.next_to_delete(parts.links));
}

}  // namespace
}  // namespace fairlead::smc
