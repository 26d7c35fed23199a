// Goal: each step, refusal and deadline of adding a link, in both roles and versions. Method: the
// flow alone; the test is the peer and the owner that makes queue pairs.
#include "smc/group/add_link_flow.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "group_parts.h"

namespace fairlead::smc {
namespace {

constexpr TimePoint kNow = TimePoint{} + std::chrono::hours(1);
constexpr LinkIndex kCarrier = 0;
const LinkOffer kOffer{at_port(2), PacketSeq{7}, Mtu::k2048};

wire::AddLink request(std::uint8_t number = 9) {
  wire::AddLink message{.kind = wire::LlcKind::kRequest};
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
  AddLinkFlow connected_client() {
    AddLinkFlow flow = AddLinkFlow::begin(client, kCarrier, request(), kNow);
    EXPECT_EQ(task(client), LinkTask::Kind::kPrepare);
    prepare(flow, client);
    EXPECT_EQ(task(client), LinkTask::Kind::kConnect);
    flow.handle_connected(client, kNow);
    return flow;
  }
  void add_three_links() {
    for (std::uint8_t port = 2; port <= 4; ++port) server.add_link(port);
  }
  // The server's request, as it is before the answer.
  wire::AddLink asked_by_server(AddLinkFlow& flow) {
    flow.handle_prepared(server, kOffer, kNow);
    return server.sent<wire::AddLink>(kCarrier);
  }
  static const char* failure(PartsForTest& parts) {
    while (const auto event = parts.out.poll_event())
      if (event->kind == GroupEvent::Kind::kLinkNotAdded) return event->why;
    return "";
  }
  bool version_1() const { return GetParam() == 1; }
};

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
  wire::AddLinkCont keys{.kind = wire::LlcKind::kRequest, .link = LinkNumber{9}};
  keys.rkeys.push({RemoteKey{30}, RemoteKey{40}, RemoteAddress{4096}});
  keys.rkeys_left = 1;
  EXPECT_EQ(flow.take(client, kCarrier, keys, kNow).step, FlowStep::kRuns);
  EXPECT_EQ(client.sent<wire::AddLinkCont>(kCarrier).rkeys.view().size(), 1U);
  EXPECT_TRUE(flow.awaits_confirm());
  EXPECT_TRUE(client.peer_rmbs.keys().find(flow.link(), RemoteKey{40}));
}

TEST_P(AddLink, ARejectedServerHasNothingToTakeBack) {
  AddLinkFlow flow = AddLinkFlow::begin(server, kCarrier, kNow);
  const auto outcome = flow.take(server, kCarrier, answer_to(asked_by_server(flow), true));
  EXPECT_EQ(outcome.step, FlowStep::kFailed);
  flow.fail(server, outcome.why);
  EXPECT_STREQ(failure(server), "the peer rejects another link");
  EXPECT_TRUE(server.silent());
}

TEST_P(AddLink, AnMtuThatWasNotOfferedFails) {
  for (const std::uint8_t code : {std::uint8_t{0}, std::uint8_t{5}}) {
    AddLinkFlow flow = AddLinkFlow::begin(server, kCarrier, kNow);
    auto answer = answer_to(asked_by_server(flow));
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
  auto answer = answer_to(asked_by_server(flow));
  EXPECT_EQ(flow.take(server, 3, answer).step, FlowStep::kRuns);
  answer.link.value = static_cast<std::uint8_t>(answer.link.value + 1);
  EXPECT_EQ(flow.take(server, kCarrier, answer).step, FlowStep::kRuns);
  flow.handle_connected(server, kNow);  // nobody asked for it
  EXPECT_TRUE(server.silent());
}

TEST_P(AddLink, AClientWithoutAPortRejectsAndSaysWhy) {
  AddLinkFlow flow = AddLinkFlow::begin(client, kCarrier, request(), kNow);
  EXPECT_EQ(task(client), LinkTask::Kind::kPrepare);
  flow.fail(client, "no port");
  EXPECT_TRUE(client.sent<wire::AddLink>(kCarrier).rejected);
  EXPECT_STREQ(failure(client), "no port");
}

// The peer does not know a key of the new link only because it knew one of the old.
TEST_P(AddLink, NothingOfTheOldLinkIsLeftAtAReusedIndex) {
  add_three_links();
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

TEST_P(AddLink, AClientAcceptsEveryMtuOfTheProtocolWhereThereIsRoomForTheLink) {
  for (std::uint8_t code = 0; code <= 15; ++code) {
    wire::AddLink asked = request();
    asked.mtu_code = code;
    EXPECT_EQ(is_acceptable(asked, client), code >= 1 && code <= 5) << int{code};
  }
  EXPECT_FALSE(is_acceptable(request(0), client));
  EXPECT_FALSE(is_acceptable(request(1), client));  // in use
  client.add_link(2);
  client.add_link(3);
  EXPECT_FALSE(is_acceptable(request(), client));  // three links
}

TEST_P(AddLink, ARejectionRepeatsTheRequestWithoutItsKeys) {
  wire::AddLink asked = request();
  asked.rkeys.push({RemoteKey{30}, RemoteKey{40}, RemoteAddress{4096}});
  reject_add_link(kCarrier, asked, client.out);
  const auto message = client.out.poll_llc();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->link, kCarrier);
  EXPECT_EQ(message->bytes.size(), wire::kLlcBytes);
  const auto answer = std::get<wire::AddLink>(wire::decode_llc(message->bytes)->body);
  EXPECT_EQ(answer.kind, wire::LlcKind::kResponse);
  EXPECT_TRUE(answer.rejected);
  EXPECT_EQ(answer.reject_reason, version_1() ? 1 : 0);  // no other port
  EXPECT_EQ(answer.link, asked.link);
  EXPECT_EQ(answer.gid, asked.gid);
}

TEST_P(AddLink, AnswersWithTheSmallestAndTheOfferedMtuAreTaken) {
  for (const Mtu mtu : {Mtu::k256, kOffer.mtu}) {
    PartsForTest parts{GroupRole::kServer, GetParam()};
    parts.add_link(1);
    AddLinkFlow flow = AddLinkFlow::begin(parts, kCarrier, kNow);
    (void)task(parts);
    flow.handle_prepared(parts, kOffer, kNow);
    auto answer = answer_to(parts.sent<wire::AddLink>(kCarrier));
    answer.mtu_code = static_cast<std::uint8_t>(mtu);
    EXPECT_EQ(flow.take(parts, kCarrier, answer).step, FlowStep::kRuns);
    const auto connect = parts.out.poll_task();
    ASSERT_TRUE(connect);
    EXPECT_EQ(connect->kind, LinkTask::Kind::kConnect);
    EXPECT_EQ(connect->peer.mtu, mtu);
    EXPECT_EQ(connect->peer.identity.queue_pair, answer.queue_pair);
  }
}

TEST_P(AddLink, EachStepHasItsTimeFromItsBeginning) {
  constexpr TimePoint kLater = kNow + std::chrono::seconds(1);
  constexpr TimePoint kLatest = kLater + std::chrono::seconds(1);
  AddLinkFlow asks = AddLinkFlow::begin(server, kCarrier, kNow);
  EXPECT_EQ(asks.deadline(), kNow + kLlcAnswerWait);
  asks.handle_prepared(server, kOffer, kLater);
  EXPECT_EQ(asks.deadline(), kLater + kLlcAnswerWait);
  (void)asks.take(server, kCarrier, answer_to(server.sent<wire::AddLink>(kCarrier)));
  asks.handle_connected(server, kLatest);
  EXPECT_EQ(asks.deadline(), kLatest + (version_1() ? kLlcAnswerWait : kAddedLinkWait));
  EXPECT_EQ(asks.exchanges_keys(), version_1());
  if (!version_1()) {
    EXPECT_EQ(server.links[asks.link()]->confirm_again(), kLatest + kConfirmLinkRepeat);
  }
  AddLinkFlow answers = AddLinkFlow::begin(client, kCarrier, request(), kNow);
  EXPECT_EQ(answers.deadline(), kNow + kAddedLinkWait);
  answers.handle_prepared(client, kOffer, kLater);
  answers.handle_connected(client, kLatest);
  EXPECT_EQ(answers.deadline(), kLatest + kAddedLinkWait);
}

TEST_P(AddLink, KeysOfThePeerAreForgottenWithTheLinkThatHadTheIndex) {
  add_three_links();
  server.peer_rmbs.learn(kCarrier, 2,
                         std::array{wire::RkeyEntry{RemoteKey{30}, RemoteKey{40}, {}}});
  ASSERT_TRUE(server.peer_rmbs.keys().find(2, RemoteKey{40}));
  server.links.remove(2);
  (void)AddLinkFlow::begin(server, kCarrier, kNow);
  EXPECT_FALSE(server.peer_rmbs.keys().find(2, RemoteKey{40}));
  EXPECT_TRUE(server.peer_rmbs.keys().find(kCarrier, RemoteKey{30}));
}

class KeysOfVersion1 : public testing::Test {
 protected:
  // Until the first keys have been sent. The client knows the first `known` of four RMBs.
  void begin(RmbRow known) {
    server.add_link(1);
    server.local_rmbs.end_first_contact();
    for (RmbRow row = 0; row < 4; ++row)
      ASSERT_EQ(server.local_rmbs.add(kCarrier, rmb_key(10U + row)), row);
    flow.emplace(AddLinkFlow::begin(server, kCarrier, kNow));
    for (RmbRow row = 0; row < 4; ++row) {
      server.local_rmbs.set_key(row, flow->link(), rmb_key(20U + row));
      if (row < known) server.local_rmbs.set_announced(row, bit(kCarrier));
    }
    flow->handle_prepared(server, kOffer, kNow);
    (void)flow->take(server, kCarrier, answer_to(server.sent<wire::AddLink>(kCarrier)));
    flow->handle_connected(server, kNow);
  }
  static wire::AddLinkCont keys(const wire::AddLinkCont& asked, std::uint8_t left) {
    wire::AddLinkCont message = asked;
    message.kind = wire::LlcKind::kResponse;
    message.rkeys.count = 0;
    message.rkeys_left = left;
    return message;
  }
  void take(const wire::AddLinkCont& message, TimePoint at = kNow, LinkIndex link = kCarrier) {
    EXPECT_EQ(flow->take(server, link, message, at).step, FlowStep::kRuns);
  }

  PartsForTest server{GroupRole::kServer, 1};
  std::optional<AddLinkFlow> flow;
};

class UnknownKeysOfVersion1 : public KeysOfVersion1, public testing::WithParamInterface<RmbRow> {};
INSTANTIATE_TEST_SUITE_P(Known, UnknownKeysOfVersion1, testing::Values(0, 1, 2));

TEST_P(UnknownKeysOfVersion1, AreNeitherListedNorAwaited) {
  begin(GetParam());
  const auto asked = server.sent<wire::AddLinkCont>(kCarrier);
  EXPECT_EQ(asked.rkeys.view().size(), GetParam());
  EXPECT_EQ(asked.rkeys_left, GetParam());
  take(keys(asked, 0));
  EXPECT_TRUE(flow->awaits_confirm());
}

TEST_F(KeysOfVersion1, TheServerListsAllOfItsOwn) {
  begin(3);
  auto asked = server.sent<wire::AddLinkCont>(kCarrier);
  EXPECT_EQ(asked.rkeys_left, 3);
  EXPECT_EQ(asked.rkeys.view().size(), 2U);
  take(keys(asked, 0));
  EXPECT_TRUE(flow->exchanges_keys());
  asked = server.sent<wire::AddLinkCont>(kCarrier);
  EXPECT_EQ(asked.kind, wire::LlcKind::kRequest);
  EXPECT_EQ(asked.rkeys_left, 1);
  ASSERT_EQ(asked.rkeys.view().size(), 1U);
  EXPECT_EQ(asked.rkeys.items[0].new_rkey, RemoteKey{22});
  take(keys(asked, 2));  // the last two of the client
  EXPECT_TRUE(flow->awaits_confirm());
}

TEST_F(KeysOfVersion1, TheServerAsksUntilTheClientHasListedAll) {
  constexpr TimePoint kLater = kNow + std::chrono::seconds(1);
  begin(1);
  const auto asked = server.sent<wire::AddLinkCont>(kCarrier);
  take(keys(asked, 3), kLater);
  EXPECT_TRUE(flow->exchanges_keys());
  EXPECT_EQ(flow->deadline(), kLater + kLlcAnswerWait);
  EXPECT_EQ(server.sent<wire::AddLinkCont>(kCarrier).rkeys_left, 0);
  take(keys(asked, 2), kLater);
  EXPECT_TRUE(flow->awaits_confirm());
}

TEST_F(KeysOfVersion1, OthersAreIgnored) {
  begin(1);
  const auto asked = server.sent<wire::AddLinkCont>(kCarrier);
  wire::AddLinkCont other = keys(asked, 0);
  take(other, kNow, 1);  // on another link
  other.link = LinkNumber{77};
  take(other);
  take(asked);  // a request, and this side asks
  EXPECT_TRUE(flow->exchanges_keys());
  EXPECT_TRUE(server.silent());
  take(keys(asked, 0));
  ASSERT_TRUE(flow->awaits_confirm());
  (void)server.sent<wire::ConfirmLink>(flow->link());
  take(keys(asked, 0));  // once more
  EXPECT_TRUE(server.silent());
}

// The peer always has more.
void expect_given_up(AddLinkFlow& flow, PartsForTest& parts, const wire::AddLinkCont& keys) {
  std::size_t rounds = 0;
  AddLinkFlow::Outcome outcome;
  while (outcome.step == FlowStep::kRuns && rounds++ < 1000) {
    while (parts.out.poll_llc()) continue;
    outcome = flow.take(parts, kCarrier, keys, kNow);
  }
  EXPECT_EQ(outcome.step, FlowStep::kFailed);
  EXPECT_EQ(rounds, kRmbsMax + 1);
  EXPECT_STREQ(outcome.why, "the peer does not come to an end of its keys");
}

TEST_F(KeysOfVersion1, AClientWhoseKeysNeverEndIsGivenUp) {
  begin(1);
  expect_given_up(*flow, server, keys(server.sent<wire::AddLinkCont>(kCarrier), 200));
}

// Awaits the keys of the server.
AddLinkFlow connected_client_of_version_1(PartsForTest& client) {
  client.add_link(1);
  AddLinkFlow flow = AddLinkFlow::begin(client, kCarrier, request(), kNow);
  flow.handle_prepared(client, kOffer, kNow);
  flow.handle_connected(client, kNow);
  return flow;
}

TEST(KeysOfVersion1AtTheClient, AreAnsweredWithinTheWaitForALink) {
  constexpr TimePoint kLater = kNow + std::chrono::seconds(1);
  PartsForTest client{GroupRole::kClient, 1};
  AddLinkFlow flow = connected_client_of_version_1(client);
  (void)client.sent<wire::AddLink>(kCarrier);
  wire::AddLinkCont keys{.link = LinkNumber{9}, .rkeys_left = 3};
  EXPECT_EQ(flow.take(client, kCarrier, keys, kLater).step, FlowStep::kRuns);
  EXPECT_EQ(flow.deadline(), kLater + kAddedLinkWait);
  EXPECT_TRUE(flow.exchanges_keys());
  EXPECT_EQ(client.sent<wire::AddLinkCont>(kCarrier).kind, wire::LlcKind::kResponse);
  keys.rkeys_left = 2;
  EXPECT_EQ(flow.take(client, kCarrier, keys, kLater).step, FlowStep::kRuns);
  EXPECT_TRUE(flow.awaits_confirm());
}

TEST(KeysOfVersion1AtTheClient, AServerWhoseKeysNeverEndIsGivenUp) {
  PartsForTest client{GroupRole::kClient, 1};
  AddLinkFlow flow = connected_client_of_version_1(client);
  wire::AddLinkCont keys{.kind = wire::LlcKind::kRequest, .link = LinkNumber{9}, .rkeys_left = 200};
  expect_given_up(flow, client, keys);
}

INSTANTIATE_TEST_SUITE_P(Versions, AddLink, testing::Values(std::uint8_t{1}, std::uint8_t{2}));

}  // namespace
}  // namespace fairlead::smc
