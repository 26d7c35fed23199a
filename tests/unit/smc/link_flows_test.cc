// Goal: links are added and deleted as in the reference, between two of Fairlead's groups. Method:
// link_hosts.h. This file is long because it has a case for every way in which a link is added or
// deleted.
#include "unit/smc/link_hosts.h"

namespace fairlead::smc {
namespace {

using Kind = GroupEvent::Kind;
using wire::DeleteLinkReason;
using wire::LlcKind;

class LinkFlow : public LinkHosts {};

class LinkFlowVersions : public LinkHosts, public testing::WithParamInterface<std::uint8_t> {};
INSTANTIATE_TEST_SUITE_P(Versions, LinkFlowVersions, testing::Values(1, 2));

TEST_P(LinkFlowVersions, ASecondPortOnBothSidesMakesASymmetricGroup) {
  connect(2, 2, 2, GetParam());
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
  EXPECT_EQ(numbers(*server), (std::vector<unsigned>{1, 2}));
  EXPECT_TRUE(server->saw(Kind::kLinkAdded));
  EXPECT_TRUE(client->saw(Kind::kLinkAdded));
  // The keys of the first RMB were announced during the flow.
  EXPECT_EQ(server->group.peer_rmbs().translate(0, client->key(0, 0), 1), client->key(0, 1));
  EXPECT_EQ(client->group.peer_rmbs().translate(0, server->key(0, 0), 1), server->key(0, 1));
  EXPECT_TRUE(server->announced(0));
  EXPECT_TRUE(client->announced(0));
}

TEST_P(LinkFlowVersions, ManyKeysAreAllTold) {
  set_up(2, 2, 2, GetParam());
  for (int i = 1; i < 9; ++i) {
    server->add_rmb();
    server->group.peer_rmb_named(0, client->key(static_cast<std::size_t>(i), 0));
    if (i >= 6) continue;
    client->add_rmb();
  }
  for (int i = 1; i < 9; ++i)
    client->group.peer_rmb_named(0, server->key(static_cast<std::size_t>(i), 0));
  settle();
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
  for (std::size_t row = 0; row < 9; ++row)
    EXPECT_EQ(client->group.peer_rmbs().translate(0, server->key(row, 0), 1), server->key(row, 1))
        << row;
  for (std::size_t row = 0; row < 6; ++row)
    EXPECT_EQ(server->group.peer_rmbs().translate(0, client->key(row, 0), 1), client->key(row, 1))
        << row;
  EXPECT_EQ(server->group.peer_rmbs().translate(0, client->key(7, 0), 1), std::nullopt);
}

TEST_P(LinkFlowVersions, AnotherPortOfTheClientIsAskedForWhenItComesBack) {
  connect(2, 2, 2, GetParam());
  cut(*client, 1);
  expect_types(GroupType::kAsymmetricPeer, GroupType::kAsymmetricLocal);
  restore(*client, 1);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
  EXPECT_EQ(numbers(*server), (std::vector<unsigned>{1, 4}));
  const auto deleted = sent<wire::DeleteLink>(true);
  ASSERT_FALSE(deleted.empty());
  EXPECT_EQ(deleted.back().reason, DeleteLinkReason::kAsymmetricNotNeeded);
  EXPECT_EQ(deleted.back().link, LinkNumber{3});
}

TEST_F(LinkFlow, OnePortOnBothSidesStaysASingleLink) {
  connect(1, 1);
  expect_types(GroupType::kSingle, GroupType::kSingle);
  ASSERT_EQ(sent<wire::AddLink>(false).size(), 1U);
  EXPECT_TRUE(sent<wire::AddLink>(false)[0].rejected);
  EXPECT_TRUE(server->saw(Kind::kLinkNotAdded));
  // Its number is not used again.
  server->up.push_back(true);
  client->up.push_back(true);
  restore(*server, 1);
  EXPECT_EQ(numbers(*server), (std::vector<unsigned>{1, 3}));
}

TEST_F(LinkFlow, OnePortAtOneSideMakesAnAsymmetricGroup) {
  connect(1, 2);
  expect_types(GroupType::kAsymmetricLocal, GroupType::kAsymmetricPeer);
  connect(2, 1);
  expect_types(GroupType::kAsymmetricPeer, GroupType::kAsymmetricLocal);
  // A link that shares a port is a reserve: connections use the other one.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(server->group.links().least_used(), 0);
    server->group.connection_added(0);
  }
}

TEST_F(LinkFlow, ThreePortsCarryThreeLinksWhereAgreed) {
  connect(3, 3, 3);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
  EXPECT_EQ(numbers(*client), (std::vector<unsigned>{1, 2, 3}));
  for (int i = 0; i < 6; ++i) server->group.connection_added(server->group.links().least_used());
  for (LinkIndex i = 0; i < 3; ++i) EXPECT_EQ(server->group.links().connections(i), 2U);
}

TEST_F(LinkFlow, MorePortsThanLinksAgreedMakeNoMoreLinks) {
  connect(3, 3, 2);
  EXPECT_EQ(numbers(*server), (std::vector<unsigned>{1, 2}));
  restore(*server, 2);
  restore(*client, 2);
  EXPECT_EQ(numbers(*server), (std::vector<unsigned>{1, 2}));
}

TEST_F(LinkFlow, ALostLinkMovesItsConnectionsAndIsReplaced) {
  connect(2, 2);
  server->group.connection_added(0);
  server->group.connection_added(1);
  server->events();
  cut(*server, 0);
  ASSERT_EQ(server->moves.size(), 1U);
  EXPECT_EQ(server->moves[0], (std::pair<LinkIndex, LinkIndex>{0, 1}));
  EXPECT_EQ(client->moves.size(), 1U);
  EXPECT_EQ(server->group.links().connections(1), 2U);
  EXPECT_TRUE(server->saw(Kind::kLinkLost));
  // The server's only port left carries a second link to the client's free port.
  expect_types(GroupType::kAsymmetricLocal, GroupType::kAsymmetricPeer);
  restore(*server, 0);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
}

TEST_F(LinkFlow, TheOtherSideLearnsOfTheLossByDeleteLink) {
  connect(2, 2);
  only_one_notices = true;
  cut(*client, 1);
  EXPECT_EQ(server->moves.size(), 1U);
  expect_types(GroupType::kAsymmetricPeer, GroupType::kAsymmetricLocal);
  trace.clear();
  cut(*server, 1);
  EXPECT_EQ(client->moves.size(), 2U);
  EXPECT_TRUE(server->group.usable() && client->group.usable());
}

// A port that flaps faster than links are made is not forgotten.
TEST_F(LinkFlow, APortThatReturnsAfterAnyNumberOfMessagesEndsInASymmetricGroup) {
  for (int messages = 0; messages < 14; ++messages)
    for (const bool of_server : {false, true}) {
      SCOPED_TRACE(messages);
      connect(2, 2);
      Host& host = of_server ? *server : *client;
      host.up[1] = false;
      for (Host* end : {&host, &other(host)}) end->lose_link(1, now);
      for (int i = 0; i < messages; ++i) (void)(carry(*server) || carry(*client));
      restore(host, 1);
      for (int i = 0; i < 4; ++i) advance(std::chrono::seconds(2));
      expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
    }
}

TEST_F(LinkFlow, ALossIsToldInTheOrderOfTheReference) {
  connect(2, 2);
  only_one_notices = true;
  trace.clear();
  cut(*client, 1);
  std::string order;
  for (const auto& [from_server, body] : trace) {
    order += from_server ? 's' : 'c';
    order += std::to_string(body.index());
    order += ' ';
  }
  // DELETE_LINK (3) from the client, sent back, answered; ADD_LINK (1) twice; CONFIRM_LINK (0).
  EXPECT_EQ(order, "c3 s3 c3 s1 c1 s0 c0 ");
  const auto from_client = sent<wire::DeleteLink>(false);
  EXPECT_EQ(from_client[0].reason, DeleteLinkReason::kPathLost);
  EXPECT_EQ(from_client[1].kind, LlcKind::kResponse);
  EXPECT_EQ(from_client[1].reason, DeleteLinkReason::kUnknownLink);
}

TEST_F(LinkFlow, TheLastLinkEndsTheGroup) {
  connect(2, 2);
  cut(*server, 1);
  cut(*server, 0);
  EXPECT_TRUE(server->group.terminated() && client->group.terminated());
  EXPECT_EQ(server->group.links().type(), GroupType::kNone);
}

TEST_F(LinkFlow, BothPortsDownAtOnceEndTheGroup) {
  connect(2, 2);
  for (LinkIndex i = 0; i < 2; ++i) client->group.handle_link_down(i, now, "cut");
  EXPECT_TRUE(client->group.terminated());
  EXPECT_EQ(client->group.poll_task(now)->kind, LinkTask::Kind::kMove);
}

TEST_F(LinkFlow, TheLastWordIsNotSaidOnALinkThatIsJustBeingAdded) {
  connect(2, 2);
  cut(*server, 0);
  restore(*server, 0);
  // The replacement uses the index of the first link, which is checked first.
  server->group.handle_link_down(3, now, "the cable was cut");
  while (!server->group.links()[0]) ASSERT_TRUE(carry(*server) || carry(*client));
  ASSERT_EQ(server->group.links()[0]->state(), LinkState::kActivating);
  server->group.terminate(DeleteLinkReason::kOperator, true, "the end");
  std::optional<LinkIndex> carrier;
  while (const auto out = server->group.output().poll_llc()) carrier = out->link;
  ASSERT_TRUE(carrier.has_value());
  EXPECT_TRUE(server->group.links().active(*carrier));
}

// A Confirm may arrive after its link is deleted. Another link with the same index then has another
// key.
TEST_F(LinkFlow, AKeyOfADeletedLinkIsNotAddedToTheLinkInItsSlot) {
  connect(2, 2);
  const RmbKey unknown = client->key(9, 1);
  server->group.peer_rmb_named(std::nullopt, unknown);
  EXPECT_EQ(server->group.peer_rmbs().translate(1, unknown, 0), std::nullopt);
  EXPECT_EQ(server->group.peer_rmbs().translate(std::nullopt, unknown, 1), std::nullopt);
  EXPECT_EQ(server->group.peer_rmbs().translate(std::nullopt, client->key(0, 0), 1),
            client->key(0, 1));
}

// Only the queue pair of the peer can announce a key. An Accept or Confirm comes over TCP, from any
// host that claims to be the peer.
TEST_F(LinkFlow, AKeyThatWasNotToldOverALinkIsNotUsed) {
  for (const unsigned links : {1U, 2U}) {
    connect(links, links);
    const RmbKey invented = client->key(9, 0);
    server->group.peer_rmb_named(LinkIndex{0}, invented);
    EXPECT_EQ(server->group.peer_rmbs().translate(0, invented, 0), std::nullopt) << links;
    const RmbRow row = client->add_rmb();
    EXPECT_FALSE(client->announced(row)) << links;
    client->group.start_next_flow(now);
    settle();
    EXPECT_TRUE(client->announced(row)) << links;
    EXPECT_EQ(server->group.peer_rmbs().translate(0, client->key(row, 0), 0), client->key(row, 0))
        << links;
  }
}

TEST_F(LinkFlow, AnRmbMadeWhileALinkIsAddedIsToldAfterwards) {
  set_up(2, 2);
  while (sent<wire::AddLink>(false).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  const RmbRow row = client->add_rmb();
  settle();
  EXPECT_TRUE(client->announced(row));
  EXPECT_EQ(server->group.peer_rmbs().translate(0, client->key(row, 0), 1), client->key(row, 1));
}

TEST_F(LinkFlow, AnOperatorDeletesALinkInGoodOrder) {
  connect(2, 2);
  server->up[1] = false;  // so that it is not added again at once
  server->group.delete_link(1, DeleteLinkReason::kOperator, now);
  const auto asked = server->group.output().poll_llc();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->link, 0);  // not over the link that goes
  inject(*client, 0, std::get<wire::DeleteLink>(wire::decode_llc(asked->bytes)->body));
  settle();
  EXPECT_EQ(numbers(*client), (std::vector<unsigned>{1}));
  EXPECT_EQ(numbers(*server), (std::vector<unsigned>{1}));
  EXPECT_TRUE(server->saw(Kind::kLinkDeleted));
}

// The deletion waits for the flow that runs, and would end the group if it were still carried out.
TEST_F(LinkFlow, ALinkToBeDeletedIsKeptWhenTheOthersDieFirst) {
  connect(2, 2);
  begin_to_tell_rmb(*client);
  answer<wire::ConfirmRkey>(*client);  // which stays unanswered
  client->group.delete_link(1, DeleteLinkReason::kOperator, now);
  EXPECT_TRUE(client->group.links()[1]->deletion());
  client->lose_link(0, now);
  EXPECT_FALSE(client->group.links()[1]->deletion());
  EXPECT_EQ(answer<wire::DeleteLink>(*client).reason, DeleteLinkReason::kPathLost);
  answer<wire::ConfirmRkey>(*client);  // again, over the link that is left
  EXPECT_TRUE(silent(*client));
  EXPECT_EQ(numbers(*client), (std::vector<unsigned>{2}));
  EXPECT_TRUE(client->group.usable());
}

// Without another request it is unknown whether the client received it.
TEST_F(LinkFlow, ALinkToBeDeletedIsAskedForAgainWhenTheCarrierDies) {
  for (const bool heard : {false, true}) {
    connect(3, 3, 3);
    trace.clear();
    server->group.delete_link(2, DeleteLinkReason::kOperator, now);
    const auto out = server->group.output().poll_llc().value();
    const auto message = wire::decode_llc(out.bytes);
    const LinkNumber number = std::get<wire::DeleteLink>(message->body).link;
    if (heard) inject(*client, out.link, std::get<wire::DeleteLink>(message->body));
    EXPECT_TRUE(server->group.links()[2]->deletion());
    cut(*server, server->port_of[out.link]);
    for (int i = 0; i < 3; ++i) advance(kLlcAnswerWait);
    const auto asked = sent<wire::DeleteLink>(true);
    EXPECT_EQ(std::count_if(asked.begin(), asked.end(),
                            [&](const wire::DeleteLink& one) {
                              return one.link == number &&
                                     one.reason == DeleteLinkReason::kOperator;
                            }),
              1);
    EXPECT_FALSE(server->group.links()[2]);
    EXPECT_EQ(numbers(*server), numbers(*client));
    const auto left = numbers(*server);
    EXPECT_EQ(std::count(left.begin(), left.end(), number.value), 0);
    EXPECT_GE(left.size(), 2U);
  }
}

TEST_F(LinkFlow, AClientThatCannotConnectRejects) {
  set_up(2, 2);
  client->refuse_to_connect = true;
  settle();
  expect_types(GroupType::kSingle, GroupType::kSingle);
  EXPECT_TRUE(sent<wire::AddLink>(false).back().rejected);
  EXPECT_TRUE(client->saw(Kind::kLinkNotAdded));
  // That was its answer, and another would be the same.
  for (int i = 0; i < 10; ++i) advance(std::chrono::seconds(5));
  EXPECT_EQ(sent<wire::AddLink>(true).size(), 1U);
}

TEST_F(LinkFlow, AServerThatCannotConnectDeletesTheNewLink) {
  set_up(2, 2);
  server->refuse_to_connect = true;
  settle();
  expect_types(GroupType::kSingle, GroupType::kSingle);
  EXPECT_EQ(sent<wire::DeleteLink>(true).back().link, LinkNumber{2});
  EXPECT_EQ(client->released, (std::vector<LinkIndex>{1}));
}

TEST_F(LinkFlow, TheCarrierMayDieWhileALinkIsAdded) {
  connect(3, 3, 3);
  cut(*client, 2);
  trace.clear();
  client->up[2] = true;
  client->group.handle_ports_changed(std::vector{client->gid(0), client->gid(2)}, now);
  while (sent<wire::AddLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  cut(*server, 0);
  for (int i = 0; i < 8; ++i) advance(std::chrono::seconds(2));
  EXPECT_EQ(numbers(*server), numbers(*client));
  EXPECT_GE(server->group.links().active_count(), 2U);
}

class LossyLinkFlow : public LinkHosts {};

TEST_F(LossyLinkFlow, AnUnansweredAddLinkIsTriedAgain) {
  drop<wire::AddLink>();
  connect(2, 2);
  advance(kLlcAnswerWait);
  EXPECT_EQ(server->group.next_deadline(), now + kAddLinkRetryWait);
  dropped.clear();
  advance(kAddLinkRetryWait);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
}

TEST_F(LossyLinkFlow, APeerThatNeverAnswersIsAskedSoOftenAndNoMore) {
  drop<wire::AddLink>();
  connect(2, 2);
  for (int i = 0; i < 100; ++i) advance(kLlcAnswerWait);
  EXPECT_EQ(sent<wire::AddLink>(true).size(), 1 + kAddLinkRetriesMax);
  // A new reason starts another attempt.
  restore(*server, 1);
  for (int i = 0; i < 100; ++i) advance(kLlcAnswerWait);
  EXPECT_EQ(sent<wire::AddLink>(true).size(), 2 * (1 + kAddLinkRetriesMax));
}

TEST_F(LossyLinkFlow, AnUnansweredAddLinkIsGivenUpAndNotRepeatedWhereAnotherReasonHasCome) {
  drop<wire::AddLink>();
  connect(2, 2);
  EXPECT_EQ(server->group.next_deadline(), now + kLlcAnswerWait);
  advance(kLlcAnswerWait);
  expect_types(GroupType::kSingle, GroupType::kSingle);
  dropped.clear();
  restore(*server, 1);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
  EXPECT_EQ(numbers(*server), (std::vector<unsigned>{1, 3}));
  const std::size_t asked = sent<wire::AddLink>(true).size();
  for (int i = 0; i < 100; ++i) advance(kLlcAnswerWait);
  EXPECT_EQ(sent<wire::AddLink>(true).size(), asked);
}

TEST_F(LossyLinkFlow, AnUnansweredKeyIsReportedAndBlocksNothing) {
  connect(2, 2);
  drop<wire::ConfirmRkey>();
  const RmbRow row = tell_rmb(*server);
  advance(kLlcAnswerWait);
  EXPECT_TRUE(server->saw(Kind::kRmbRefused));
  EXPECT_TRUE(server->announced(row));
  dropped.clear();
  cut(*client, 1);
  expect_types(GroupType::kAsymmetricPeer, GroupType::kAsymmetricLocal);
}

// A flow of the client's runs when the request comes, and ends after the server has given it up.
TEST_F(LossyLinkFlow, ARequestForALinkThatWasGivenUpIsNotAnsweredLate) {
  drop<wire::AddLink>();
  connect(2, 2);
  advance(kLlcAnswerWait);
  expect_types(GroupType::kSingle, GroupType::kSingle);
  trace.clear();
  server->group.handle_ports_changed(std::vector{server->gid(0), server->gid(1)}, now);
  server->perform(now);  // ADD_LINK waits to be carried
  now += kLlcAnswerWait - std::chrono::milliseconds(500);
  drop<wire::ConfirmRkey>();
  tell_rmb(*client);
  ASSERT_EQ(sent<wire::AddLink>(true).size(), 1U);
  advance(std::chrono::milliseconds(500));
  ASSERT_EQ(sent<wire::DeleteLink>(true).size(), 1U);
  dropped.clear();
  advance(kLlcAnswerWait);
  EXPECT_TRUE(sent<wire::AddLink>(false).empty());
  advance(kAddLinkRetryWait);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
}

TEST_F(LossyLinkFlow, AnUnconfirmedLinkIsDeletedOnBothSides) {
  set_up(2, 2);
  while (sent<wire::ConfirmLink>(false).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  drop<wire::ConfirmLink>();
  settle();
  EXPECT_EQ(server->group.links().active_count(), 1U);
  for (int i = 0; i < 4; ++i) advance(std::chrono::seconds(2));
  expect_types(GroupType::kSingle, GroupType::kSingle);
  EXPECT_EQ(server->released, (std::vector<LinkIndex>{1}));
  EXPECT_EQ(client->released, (std::vector<LinkIndex>{1}));
  // Both are ready for the next try.
  dropped.clear();
  advance(kAddLinkRetryWait);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
}

TEST_F(LossyLinkFlow, AConfirmationIsNotRepeatedOnALinkThatWasReleasedWithItsCarrier) {
  connect(3, 3, 3);
  cut(*client, 2);
  trace.clear();
  drop<wire::ConfirmLink>();
  client->up[2] = true;
  client->group.handle_ports_changed(std::vector{client->gid(0), client->gid(2)}, now);
  while (sent<wire::ConfirmLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  server->released.clear();
  server->lose_link(0, now);
  ASSERT_EQ(server->released.size(), 2U);  // the carrier, and the new link
  drop_output(*server);
  now += kConfirmLinkRepeat;
  server->group.handle_deadline(now);
  while (const auto out = server->group.output().poll_llc())
    EXPECT_TRUE(server->group.links()[out->link]) << int{out->link};
}

TEST_F(LossyLinkFlow, ALostLinkIsReplacedAlsoWhenItsDeletionIsNotAnswered) {
  connect(2, 2);
  drop<wire::DeleteLink>();
  cut(*client, 1);
  advance(kLlcAnswerWait);
  dropped.clear();
  settle();
  EXPECT_EQ(server->group.links().active_count(), 2U);
}

// The client has already answered, and would reject the next one while it waits for the first.
TEST_F(LinkFlow, AnAddedLinkWhosePortGoesDownIsTakenBackBeforeTheNextIsTried) {
  set_up(2, 2, 2, 2);
  while (sent<wire::AddLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  ASSERT_TRUE(server->group.links()[1]);
  server->group.handle_link_down(1, now, "its port went down");
  settle();
  EXPECT_EQ(client->group.links().active_count(), 1U);
  ASSERT_FALSE(sent<wire::DeleteLink>(true).empty());
  restore(*server, 1);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
}

class SilentPeer : public LinkHosts {};

TEST_F(SilentPeer, OnOneLinkIsAskedAtOnceOnTheOthers) {
  connect(2, 2, 2);
  drops_all = true;
  server->group.doubt(0, Doubt::kPeerGone, now);
  advance(Duration::zero());
  advance(kLlcAnswerWait);
  EXPECT_EQ(server->group.links().active_count(), 1U);
  advance(kLlcAnswerWait);
  EXPECT_TRUE(server->group.terminated());
}

}  // namespace
}  // namespace fairlead::smc
