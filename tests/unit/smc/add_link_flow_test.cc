// Goal: each step, refusal and deadline of adding a link, in both roles and versions. Method: the
// flow alone; the test is the peer and the owner that makes queue pairs.
#include "smc/add_link_flow.h"

#include <gtest/gtest.h>

#include "group_parts.h"

namespace fairlead::smc {
namespace {

constexpr TimePoint kNow = TimePoint{} + std::chrono::hours(1);
constexpr LinkIndex kCarrier = 0;
const LinkOffer kOffer{at_port(2), PacketSeq{7}, Mtu::k2048};

wire::AddLink request(std::uint8_t number = 9) {
  wire::AddLink message;
  message.kind = wire::LlcKind::kRequest;
  message.gid.bytes[15] = 2;
  message.queue_pair = QpNumber{102};
  message.link = LinkNumber{number};
  message.mtu_code = static_cast<std::uint8_t>(Mtu::k1024);
  return message;
}

wire::AddLink answer_to(const wire::AddLink& asked, bool rejected = false) {
  wire::AddLink message = asked;
  message.kind = wire::LlcKind::kResponse;
  message.rejected = rejected;
  message.mtu_code = static_cast<std::uint8_t>(Mtu::k1024);
  message.rkeys.count = 0;
  return message;
}

class AddLink : public testing::TestWithParam<std::uint8_t> {
 protected:
  PartsForTest server{GroupRole::kServer, GetParam()};
  PartsForTest client{GroupRole::kClient, GetParam()};

  void SetUp() override {
    for (PartsForTest* parts : {&server, &client}) {
      parts->add_link(1);
      ASSERT_TRUE(parts->local_rmbs.add(kCarrier, rmb_key(10)));
      parts->peer_rmbs.add_first(kCarrier, rmb_key(30));
    }
  }
  static LinkTask::Kind task(PartsForTest& parts) {
    const auto task = parts.out.poll_task();
    EXPECT_TRUE(task);
    return task ? task->kind : LinkTask::Kind::kMove;
  }
  static void prepare(AddLinkFlow& flow, PartsForTest& parts) {
    parts.local_rmbs.set_key(0, flow.link(), rmb_key(20));
    flow.handle_prepared(parts, kOffer, kNow);
  }
  // Server, until the queue pair is connected.
  AddLinkFlow connected_server() {
    AddLinkFlow flow = AddLinkFlow::begin(server, kCarrier, kNow);
    EXPECT_EQ(task(server), LinkTask::Kind::kPrepare);
    prepare(flow, server);
    const auto asked = server.sent<wire::AddLink>(kCarrier);
    EXPECT_EQ(flow.take(server, kCarrier, answer_to(asked)).step, FlowStep::kRuns);
    EXPECT_EQ(task(server), LinkTask::Kind::kConnect);
    flow.handle_connected(server, kNow);
    return flow;
  }
  AddLinkFlow connected_client() {
    AddLinkFlow flow = AddLinkFlow::begin(client, kCarrier, request(), kNow);
    EXPECT_EQ(task(client), LinkTask::Kind::kPrepare);
    prepare(flow, client);
    EXPECT_EQ(task(client), LinkTask::Kind::kConnect);
    flow.handle_connected(client, kNow);
    return flow;
  }
  static const char* failure(PartsForTest& parts) {
    while (const auto event = parts.out.poll_event())
      if (event->kind == GroupEvent::Kind::kLinkNotAdded) return event->why;
    return "";
  }
  bool version_1() const { return GetParam() == 1; }
};

TEST_P(AddLink, AServerListsItsKeysAndAsksForConfirmation) {
  AddLinkFlow flow = connected_server();
  if (version_1()) {
    EXPECT_TRUE(flow.exchanges_keys());
    const auto keys = server.sent<wire::AddLinkCont>(kCarrier);
    EXPECT_EQ(keys.rkeys.view().size(), 1U);
    wire::AddLinkCont last = keys;
    last.kind = wire::LlcKind::kResponse;
    last.rkeys.count = 0;
    last.rkeys_left = 0;
    EXPECT_EQ(flow.take(server, kCarrier, last, kNow).step, FlowStep::kRuns);
  }
  EXPECT_TRUE(flow.awaits_confirm());
  EXPECT_EQ(flow.deadline(), kNow + kAddedLinkWait);
  EXPECT_EQ(server.sent<wire::ConfirmLink>(flow.link()).kind, wire::LlcKind::kRequest);
  EXPECT_EQ(server.links[flow.link()]->confirm_again(), kNow + kConfirmLinkRepeat);
  EXPECT_TRUE(server.local_rmbs.entry(0, flow.link(), kCarrier));  // announced there
}

TEST_P(AddLink, AClientAnswersWithItsKeysAndAwaitsConfirmation) {
  AddLinkFlow flow = connected_client();
  const auto answer = client.sent<wire::AddLink>(kCarrier);
  EXPECT_EQ(answer.kind, wire::LlcKind::kResponse);
  EXPECT_EQ(answer.link, LinkNumber{9});
  EXPECT_EQ(answer.mtu_code, static_cast<std::uint8_t>(Mtu::k1024));  // the smaller
  EXPECT_EQ(answer.rkeys.view().size(), version_1() ? 0U : 1U);
  EXPECT_EQ(flow.deadline(), kNow + kAddedLinkWait);
  EXPECT_EQ(flow.awaits_confirm(), !version_1());
  if (!version_1()) return;
  wire::AddLinkCont keys;
  keys.kind = wire::LlcKind::kRequest;
  keys.link = LinkNumber{9};
  keys.rkeys.push({RemoteKey{30}, RemoteKey{40}, RemoteAddress{4096}});
  keys.rkeys_left = 1;
  EXPECT_EQ(flow.take(client, kCarrier, keys, kNow).step, FlowStep::kRuns);
  EXPECT_EQ(client.sent<wire::AddLinkCont>(kCarrier).rkeys.view().size(), 1U);
  EXPECT_TRUE(flow.awaits_confirm());
  EXPECT_TRUE(client.peer_rmbs.keys().find(flow.link(), RemoteKey{40}));
}

TEST_P(AddLink, ARejectedServerHasNothingToTakeBack) {
  AddLinkFlow flow = AddLinkFlow::begin(server, kCarrier, kNow);
  flow.handle_prepared(server, kOffer, kNow);
  const auto asked = server.sent<wire::AddLink>(kCarrier);
  const auto outcome = flow.take(server, kCarrier, answer_to(asked, true));
  EXPECT_EQ(outcome.step, FlowStep::kFailed);
  flow.fail(server, outcome.why);
  EXPECT_STREQ(failure(server), "the peer rejects another link");
  EXPECT_TRUE(server.silent());
}

TEST_P(AddLink, AnMtuThatWasNotOfferedFails) {
  for (const std::uint8_t code : {std::uint8_t{0}, std::uint8_t{5}}) {
    AddLinkFlow flow = AddLinkFlow::begin(server, kCarrier, kNow);
    flow.handle_prepared(server, kOffer, kNow);
    auto answer = answer_to(server.sent<wire::AddLink>(kCarrier));
    answer.mtu_code = code;
    const auto outcome = flow.take(server, kCarrier, answer);
    EXPECT_EQ(outcome.step, FlowStep::kFailed);
    flow.fail(server, outcome.why);
    EXPECT_STREQ(failure(server), "the peer's MTU is out of range");
    // The client may wait for the link.
    EXPECT_EQ(server.sent<wire::DeleteLink>(kCarrier).reason, wire::DeleteLinkReason::kPathLost);
    while (const auto task = server.out.poll_task())
      if (task->kind == LinkTask::Kind::kRelease) server.links.remove(task->link);
  }
}

TEST_P(AddLink, AnswersOfAnotherLinkOrCarrierAreIgnored) {
  AddLinkFlow flow = AddLinkFlow::begin(server, kCarrier, kNow);
  EXPECT_EQ(flow.deadline(), kNow + kLlcAnswerWait);
  EXPECT_EQ(flow.take(server, kCarrier, answer_to(request())).step, FlowStep::kRuns);  // too early
  flow.handle_prepared(server, kOffer, kNow);
  auto answer = answer_to(server.sent<wire::AddLink>(kCarrier));
  EXPECT_EQ(flow.take(server, 3, answer).step, FlowStep::kRuns);
  answer.link.value = static_cast<std::uint8_t>(answer.link.value + 1);
  EXPECT_EQ(flow.take(server, kCarrier, answer).step, FlowStep::kRuns);
  flow.handle_connected(server, kNow);  // nobody asked for it
  EXPECT_TRUE(server.silent());
}

TEST_P(AddLink, AFailedClientRejectsOrTakesBackWhatItPromised) {
  AddLinkFlow early = AddLinkFlow::begin(client, kCarrier, request(), kNow);
  EXPECT_EQ(task(client), LinkTask::Kind::kPrepare);
  early.fail(client, "no port");
  EXPECT_TRUE(client.sent<wire::AddLink>(kCarrier).rejected);
  EXPECT_STREQ(failure(client), "no port");
  AddLinkFlow late = connected_client();
  (void)client.sent<wire::AddLink>(kCarrier);
  late.fail(client, "late");
  EXPECT_EQ(client.sent<wire::DeleteLink>(kCarrier).link, LinkNumber{9});
  EXPECT_EQ(task(client), LinkTask::Kind::kRelease);
}

// The peer does not know a key of the new link only because it knew one of the old.
TEST_P(AddLink, NothingOfTheOldLinkIsLeftAtAReusedIndex) {
  for (const std::uint8_t port : {std::uint8_t{2}, std::uint8_t{3}, std::uint8_t{4}})
    server.add_link(port);
  for (LinkIndex i = 1; i < kLinksMax; ++i) {
    server.local_rmbs.set_key(0, i, rmb_key(10U + i));
    server.local_rmbs.set_announced(0, bit(i));
  }
  ASSERT_TRUE(server.local_rmbs.announced(0, server.links));
  server.links.remove(2);
  const AddLinkFlow flow = AddLinkFlow::begin(server, kCarrier, kNow);
  ASSERT_EQ(flow.link(), 2);
  EXPECT_FALSE(server.local_rmbs.keys().key(0, 2));
  server.add_link(3);
  EXPECT_FALSE(server.local_rmbs.announced(0, server.links));
}

TEST_P(AddLink, WhatAClientDoesNotAccept) {
  EXPECT_TRUE(is_acceptable(request(), client));
  wire::AddLink bad = request();
  bad.mtu_code = 0;
  EXPECT_FALSE(is_acceptable(bad, client));
  bad.mtu_code = 6;
  EXPECT_FALSE(is_acceptable(bad, client));
  EXPECT_FALSE(is_acceptable(request(0), client));
  EXPECT_FALSE(is_acceptable(request(1), client));  // in use
  client.add_link(2);
  client.add_link(3);
  EXPECT_FALSE(is_acceptable(request(), client));  // three links
}

TEST(AddLinkOfVersion1, APeerWhoseKeysNeverEndIsGivenUp) {
  PartsForTest client{GroupRole::kClient, 1};
  client.add_link(1);
  AddLinkFlow flow = AddLinkFlow::begin(client, kCarrier, request(), kNow);
  flow.handle_prepared(client, kOffer, kNow);
  flow.handle_connected(client, kNow);
  wire::AddLinkCont keys;
  keys.kind = wire::LlcKind::kRequest;
  keys.link = LinkNumber{9};
  keys.rkeys_left = 200;
  std::size_t rounds = 0;
  AddLinkFlow::Outcome outcome;
  while (outcome.step == FlowStep::kRuns && rounds++ < 1000) {
    while (client.out.poll_llc()) continue;
    outcome = flow.take(client, kCarrier, keys, kNow);
  }
  EXPECT_EQ(rounds, kRmbsMax + 1);
  EXPECT_STREQ(outcome.why, "the peer does not come to an end of its keys");
}

INSTANTIATE_TEST_SUITE_P(Versions, AddLink, testing::Values(std::uint8_t{1}, std::uint8_t{2}));

}  // namespace
}  // namespace fairlead::smc
