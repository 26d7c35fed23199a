// Goal: whatever comes while the links of a group change, late, twice or for another link, disturbs
// nothing. Method: link_hosts.h, with messages and reports that the test makes.
#include "unit/smc/link_hosts.h"

namespace fairlead::smc {
namespace {

using Kind = GroupEvent::Kind;
using wire::DeleteLinkReason;
using wire::LlcKind;

class LinkChanges : public LinkHosts {
 protected:
  static wire::DeleteLink deleted(LinkNumber number, LlcKind kind = LlcKind::kRequest) {
    return {.kind = kind, .link = number};
  }
  LinkNumber number(Host& host, LinkIndex link) { return host.group.links()[link]->number(); }
  // The reasons that the events of a kind name.
  static std::vector<std::string> reasons(Host& host, Kind kind) {
    std::vector<std::string> found;
    while (const auto event = host.group.output().poll_event())
      if (event->kind == kind) found.emplace_back(event->why);
    return found;
  }
  // The client has two ports and is asked for a second link, which it makes and connects.
  void until_added_at_the_client() {
    connect(1, 1);
    client->up.push_back(true);
    inject(*client, 0, add_link_request(7));
    ASSERT_FALSE(answer<wire::AddLink>(*client).rejected);
    ASSERT_EQ(client->group.links()[1]->state(), LinkState::kActivating);
  }
};

TEST_F(LinkChanges, AnAnswerAboutAnotherLinkDoesNotEndADeletion) {
  connect(3, 3, 3);
  server->up[2] = false;
  server->group.delete_link(2, DeleteLinkReason::kOperator, now);
  const auto request = answer<wire::DeleteLink>(*server);
  EXPECT_TRUE(request.orderly);
  EXPECT_EQ(request.link, number(*server, 2));
  inject(*server, 0, deleted(number(*server, 1), LlcKind::kResponse));
  EXPECT_TRUE(server->group.links().active(2));
  inject(*server, 0, deleted(request.link, LlcKind::kResponse));
  EXPECT_FALSE(server->group.links()[2]);
  EXPECT_TRUE(server->group.links().active(1));
}

TEST_F(LinkChanges, ALinkThatFailsWhileItIsDeletedIsLostAndTheNextDeletionBegins) {
  connect(3, 3, 3);
  server->events();
  server->group.delete_link(2, DeleteLinkReason::kOperator, now);
  drop_output(*server);
  server->group.delete_link(1, DeleteLinkReason::kOperator, now);
  EXPECT_TRUE(silent(*server));  // one at a time
  server->lose_link(2, now);
  EXPECT_EQ(answer<wire::DeleteLink>(*server).reason, DeleteLinkReason::kPathLost);
  const auto next = ask(*server, 0, deleted(LinkNumber{3}, LlcKind::kResponse));
  EXPECT_EQ(next.reason, DeleteLinkReason::kOperator);
  EXPECT_EQ(next.link, number(*server, 1));
  EXPECT_TRUE(server->saw(Kind::kLinkLost));
}

TEST_F(LinkChanges, OnlyAnActiveLinkBesideAnotherIsDeletedOnDemand) {
  until_added_at_the_client();
  for (const LinkIndex link : {LinkIndex{0}, LinkIndex{1}, LinkIndex{2}}) {
    client->group.delete_link(link, DeleteLinkReason::kOperator, now);
    EXPECT_TRUE(silent(*client)) << int{link};
  }
  EXPECT_FALSE(client->group.links()[0]->deletion());
  EXPECT_FALSE(client->group.links()[1]->deletion());
  inject(*client, 1, wire::ConfirmLink{.link = LinkNumber{7}});
  EXPECT_EQ(numbers(*client), (std::vector<unsigned>{1, 7}));
  client->group.terminate(DeleteLinkReason::kOperator, true, "the end");
  drop_output(*client);
  client->group.delete_link(1, DeleteLinkReason::kOperator, now);
  EXPECT_FALSE(client->group.links()[1]->deletion());
  EXPECT_TRUE(silent(*client));
}

TEST_F(LinkChanges, APortChangesNothingBeforeTheFirstContactAfterTheEndOrForOneLink) {
  const std::vector<Gid> ports{Gid{}, Gid{}};
  set_up(2, 2);
  drop_output(*server);
  for (Host* host : {&*server, &*client}) {
    host->group.handle_ports_changed(ports, now);
    EXPECT_TRUE(silent(*host));
  }
  connect(2, 2);
  for (Host* host : {&*server, &*client}) {
    host->group.terminate(DeleteLinkReason::kOperator, true, "the end");
    drop_output(*host);
    host->group.handle_ports_changed(ports, now);
    EXPECT_FALSE(host->group.poll_task(now));
    EXPECT_TRUE(silent(*host));
  }
  connect(2, 2, 1);
  for (Host* host : {&*server, &*client}) {
    host->group.handle_ports_changed(ports, now);
    EXPECT_FALSE(host->group.poll_task(now));
    EXPECT_TRUE(silent(*host));
  }
}

TEST_F(LinkChanges, AClientNamesAsManyOfItsPortsAsAMessageHolds) {
  connect(1, 1);
  std::vector<Gid> ports(wire::kConfirmGidsMax + 3);
  for (std::size_t i = 0; i < ports.size(); ++i) ports[i] = client->gid(i);
  client->group.handle_ports_changed(ports, now);
  const auto wish = answer<wire::ReqAddLink>(*client);
  EXPECT_FALSE(wish.rejected);
  ASSERT_EQ(wish.gids.count, wire::kConfirmGidsMax);
  EXPECT_EQ(wish.gids.items[0], ports[0]);
  client->group.handle_ports_changed({}, now);
  EXPECT_TRUE(silent(*client));
}

TEST_F(LinkChanges, OnlyAClientOfVersion1AsksWithAnAddLink) {
  connect(2, 1);
  EXPECT_TRUE(ask(*server, 0, add_link_request(9)).rejected);
  EXPECT_FALSE(server->group.poll_task(now));
  connect(1, 1, 1, 1);
  EXPECT_TRUE(ask(*server, 0, add_link_request(0)).rejected);
}

TEST_F(LinkChanges, ARequestThatCannotBeAcceptedDoesNotWaitForAFlow) {
  connect(1, 1);
  begin_to_tell_rmb(*client);
  answer<wire::ConfirmRkey>(*client);       // which stays unanswered
  inject(*client, 0, add_link_request(1));  // in use
  EXPECT_TRUE(answer<wire::AddLink>(*client).rejected);
  inject(*client, 0, add_link_request(7));
  EXPECT_TRUE(silent(*client));                                         // it waits
  EXPECT_EQ(ask(*client, 0, add_link_request(8)).link, LinkNumber{8});  // only one does
  EXPECT_TRUE(silent(*client));
}

TEST_F(LinkChanges, ARequestIsForgottenWithTheLinkThatCarriedIt) {
  connect(2, 2, 3);
  drop<wire::ConfirmRkey>();
  tell_rmb(*client);
  inject(*client, 1, add_link_request(7));  // it waits for the announcement
  EXPECT_TRUE(silent(*client));
  client->lose_link(1, now);
  drop_output(*client);
  now += kLlcAnswerWait;
  client->wake(now);
  EXPECT_FALSE(client->group.links().find(LinkNumber{7}));
  inject(*client, 0, add_link_request(8));
  EXPECT_EQ(client->group.links().oldest_active(), LinkIndex{0});
}

TEST_F(LinkChanges, AReportThatComesTwiceOrTooLateIsIgnored) {
  connect(1, 1);
  client->up.push_back(true);
  client->group.handle_llc(0, {wire::LlcVersion::k2, add_link_request(8)}, now);
  const auto prepare = client->group.poll_task(now);
  ASSERT_TRUE(prepare);
  ASSERT_EQ(prepare->kind, LinkTask::Kind::kPrepare);
  const LinkOffer offer{client->make(prepare->link, 1), PacketSeq{7}, Mtu::k2048};
  client->group.task_done(*prepare, now, offer);
  client->group.task_done(*prepare, now, offer);
  client->group.task_done(*prepare, now);  // and no port for it
  const auto connect_task = client->group.poll_task(now);
  ASSERT_TRUE(connect_task);
  EXPECT_EQ(connect_task->kind, LinkTask::Kind::kConnect);
  EXPECT_FALSE(client->group.poll_task(now));
  client->group.terminate(DeleteLinkReason::kOperator, true, "the end");
  drop_output(*client);
  client->group.task_done(*connect_task, now);
  EXPECT_TRUE(silent(*client));
  EXPECT_EQ(client->group.next_deadline(), std::nullopt);
}

TEST_F(LinkChanges, AFlowThatWaitsBeginsWhenALinkCouldNotBeAdded) {
  set_up(2, 2);
  client->refuse_to_connect = true;
  while (sent<wire::AddLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  const RmbRow row = begin_to_tell_rmb(*server);
  EXPECT_FALSE(server->announced(row));
  settle();
  expect_types(GroupType::kSingle, GroupType::kSingle);
  EXPECT_TRUE(server->announced(row));
  // A server without another port has made no queue pair.
  server->up.resize(1);
  const RmbRow next = server->add_rmb();
  server->group.handle_ports_changed(std::vector{server->gid(0)}, now);
  server->group.start_next_flow(now);
  settle();
  EXPECT_TRUE(server->announced(next));
}

TEST_F(LinkChanges, AFlowThatWaitsBeginsWhenTheServerHasNoPortForAnotherLink) {
  connect(2, 2, 3);
  server->group.handle_ports_changed(std::vector{server->gid(0), server->gid(1)}, now);
  const RmbRow row = server->add_rmb();
  server->perform(now);
  EXPECT_EQ(answer<wire::ConfirmRkey>(*server).rkey, server->key(row, 0).rkey);
}

TEST_F(LinkChanges, AWishIsRefusedWhereTheServerHasNoPortForIt) {
  connect(2, 2, 3);
  wire::ReqAddLink wish;
  wish.gids.push(Gid{});
  inject(*server, 1, wish);
  const auto refusal = server->group.output().poll_llc();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->link, 1);
  EXPECT_TRUE(std::get<wire::ReqAddLink>(wire::decode_llc(refusal->bytes)->body).rejected);
  EXPECT_TRUE(silent(*server));
}

TEST_F(LinkChanges, ALossIsWaitedForUntilItIsAnswered) {
  connect(2, 2);
  server->lose_link(1, now);
  EXPECT_EQ(server->group.next_deadline(), now + kLlcAnswerWait);
  drop_output(*server);
  server->group.handle_deadline(now + kLlcAnswerWait - Duration(1));
  EXPECT_FALSE(server->group.poll_task(now));
  server->group.handle_deadline(now + kLlcAnswerWait);
  EXPECT_EQ(server->group.poll_task(now)->kind, LinkTask::Kind::kPrepare);  // another one
}

TEST_F(LinkChanges, ALinkIsAddedThoughAThirdOneIsLost) {
  set_up(3, 3, 3);
  while (sent<wire::AddLink>(true).size() < 2) ASSERT_TRUE(carry(*server) || carry(*client));
  ASSERT_EQ(server->group.links()[2]->state(), LinkState::kActivating);
  for (Host* host : {&*server, &*client}) host->lose_link(1, now);
  EXPECT_EQ(server->released, (std::vector<LinkIndex>{1}));
  settle();
  EXPECT_TRUE(server->group.links().active(2));
}

TEST_F(LinkChanges, ALinkIsNotConfirmedBeforeItIsConnected) {
  set_up(2, 2);
  while (sent<wire::AddLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  inject(*server, 1, wire::ConfirmLink{.kind = LlcKind::kResponse, .link = number(*server, 1)});
  EXPECT_EQ(server->group.links()[1]->state(), LinkState::kActivating);
}

TEST_F(LinkChanges, SeveralRmbsAreAnnouncedOneAfterTheOther) {
  connect(1, 1);
  const RmbRow first = server->add_rmb();
  const RmbRow second = tell_rmb(*server);
  for (const RmbRow row : {first, second}) EXPECT_TRUE(server->announced(row)) << int{row};
}

TEST_F(LinkChanges, AnRmbIsAcceptedWhileALinkIsBeingPrepared) {
  connect(1, 1);
  client->up.push_back(true);
  client->group.handle_llc(0, {wire::LlcVersion::k2, add_link_request(7)}, now);
  wire::ConfirmRkey request{.rkey = RemoteKey{0x777}};
  client->group.handle_llc(0, {wire::LlcVersion::k2, request}, now);
  const auto accepted = answer<wire::ConfirmRkey>(*client);
  EXPECT_FALSE(accepted.refused || accepted.retry);
  client->perform(now);
  drop_output(*client);
  inject(*client, 0, request);  // the server has listed its keys by now
  EXPECT_TRUE(answer<wire::ConfirmRkey>(*client).retry);
}

TEST_F(LinkChanges, AConfirmationOfAnotherNumberOrKindConfirmsNothing) {
  set_up(1, 1);
  drop_output(*server);
  wire::ConfirmLink other{.kind = LlcKind::kResponse, .link = LinkNumber{3}};
  inject(*server, 0, other);
  EXPECT_FALSE(server->group.usable());
  EXPECT_EQ(number(*server, 0), LinkNumber{1});
  other.link = LinkNumber{1};
  inject(*client, 0, other);  // an answer, and this side asks nothing
  EXPECT_FALSE(client->group.usable());
  EXPECT_TRUE(silent(*client));
  other.kind = LlcKind::kRequest;
  inject(*server, 0, other);
  EXPECT_FALSE(server->group.usable());
  EXPECT_TRUE(silent(*server));
}

TEST_F(LinkChanges, ALinkKeepsItsNumberWhateverIsConfirmed) {
  until_added_at_the_client();
  inject(*client, 1, wire::ConfirmLink{.link = LinkNumber{9}});
  EXPECT_TRUE(silent(*client));
  EXPECT_EQ(number(*client, 1), LinkNumber{7});
  EXPECT_EQ(client->group.links().active_count(), 1U);
}

TEST_F(LinkChanges, ALinkThatIsDownIsNotConfirmed) {
  connect(2, 2);
  client->group.handle_link_down(1, now, "the cable was cut");
  drop_output(*client);
  wire::ConfirmLink request{.link = LinkNumber{2}};
  client->group.handle_llc(1, {wire::LlcVersion::k2, request}, now);
  EXPECT_TRUE(silent(*client));
  EXPECT_FALSE(client->group.links().active(1));
  client->group.handle_link_down(1, now, "again");
  EXPECT_TRUE(silent(*client));
}

// The peer began it on a link that has gone.
TEST_F(LinkChanges, AContinuationIsNotTakenOverByTheNextLinkAtItsIndex) {
  connect(2, 2);
  wire::ConfirmRkey begun{.rkey = RemoteKey{0x999}};
  for (int i = 0; i < 2; ++i) begun.others.push({LinkNumber{99}, {}, {}});
  begun.to_follow = 1;
  ask(*server, 1, begun);
  const LinkNumber gone = number(*server, 1);
  for (int i = 0; i < 8 && (!server->group.links().active(1) || number(*server, 1) == gone); ++i) {
    cut(*client, 1);
    restore(*client, 1);
  }
  ASSERT_TRUE(server->group.links().active(1));
  ASSERT_NE(number(*server, 1), gone);
  wire::ConfirmRkeyCont rest;
  rest.others.push({LinkNumber{1}, RemoteKey{0x998}, {}});
  inject(*server, 1, rest);
  EXPECT_TRUE(server->group.terminated());
}

TEST_F(LinkChanges, ALateAnswerOfOneLinkDoesNotEndADeletionOnAnother) {
  connect(2, 2);
  drop<wire::DeleteRkey>();
  const RmbRow first = server->add_rmb();
  const RmbRow second = server->add_rmb();
  for (const RmbRow row : {first, second}) {
    delete_rmb(*server, row);
    if (row == first) advance(kLlcAnswerWait);
  }
  const RmbRow third = server->add_rmb();
  wire::DeleteRkey late{.kind = LlcKind::kResponse};
  inject(*server, 0, late);
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(first));
  EXPECT_FALSE(server->announced(third));
  inject(*server, 1, late);
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(second));
  EXPECT_TRUE(server->announced(third));
}

TEST_F(LinkChanges, AFirstContactThatFailsBeforeThereIsALinkEndsTheGroup) {
  RecordedGroup group(GroupRole::kClient, terms, GroupTimes{}, now, 2);
  group.handle_link_down(0, now, "no device");
  EXPECT_TRUE(group.terminated());
  EXPECT_STREQ(group.output().poll_event()->why, "no device");
  connect(1, 1);
  client->group.handle_link_down(2, now, "which does not exist");
  EXPECT_TRUE(client->group.usable());
  EXPECT_TRUE(silent(*client));
}

TEST_F(LinkChanges, ALinkThatThePeerTakesBackHadNoConnectionsToMove) {
  until_added_at_the_client();
  client->events();
  inject(*client, 0, deleted(LinkNumber{7}));
  EXPECT_EQ(client->events(), std::vector{Kind::kLinkNotAdded});
  EXPECT_TRUE(client->moves.empty());
  EXPECT_EQ(client->released, (std::vector<LinkIndex>{1}));
  EXPECT_EQ(answer<wire::DeleteLink>(*client).link, LinkNumber{7});
  inject(*client, 0, add_link_request(8));  // it waits for nothing
  EXPECT_FALSE(answer<wire::AddLink>(*client).rejected);
}

TEST_F(LinkChanges, AServerWhoseNewLinkIsTakenBackGoesOnAtOnce) {
  set_up(2, 2);
  while (sent<wire::AddLink>(false).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  ASSERT_EQ(server->group.links()[1]->state(), LinkState::kActivating);
  drop_output(*server);
  inject(*server, 0, deleted(number(*server, 1)));
  EXPECT_TRUE(server->moves.empty());
  EXPECT_EQ(server->released, (std::vector<LinkIndex>{1}));
  drop_output(*server);
  const RmbRow row = begin_to_tell_rmb(*server);
  EXPECT_EQ(answer<wire::ConfirmRkey>(*server).rkey, server->key(row, 0).rkey);
}

TEST_F(LinkChanges, AWishIsAnsweredByTheLinkOrByARefusalAndNotByBoth) {
  connect(1, 2);
  server->up.push_back(true);
  trace.clear();
  restore(*client, 1);
  EXPECT_EQ(numbers(*server).size(), 2U);
  server->up.pop_back();
  const auto answered = sent<wire::ReqAddLink>(true).size();
  cut(*client, 1);
  settle();
  EXPECT_EQ(sent<wire::ReqAddLink>(true).size(), answered);
}

TEST_F(LinkChanges, EventsNameTheirLinkAndReason) {
  connect(2, 2);
  server->events();
  wire::ConfirmLink request{
      .kind = LlcKind::kResponse, .eyecatcher_flags = 0, .link = number(*server, 1)};
  inject(*server, 1, request);
  const GroupEvent refused = next_event(*server);
  EXPECT_EQ(refused.kind, Kind::kLinkRefused);
  EXPECT_EQ(refused.link, 1);
  EXPECT_STREQ(refused.why, "CONFIRM_LINK: peer keeps eyecatchers in its buffers");
  server->group.doubt(1, Doubt::kPeerGone, now);
  server->group.handle_deadline(now);
  settle();
  const GroupEvent tested = next_event(*server);
  EXPECT_EQ(tested.kind, Kind::kLinkTested);
  EXPECT_EQ(tested.link, 1);
}

TEST_F(LinkChanges, TheEndOfALinkSaysWhoseFaultItWas) {
  for (const bool lost_by_peer : {false, true}) {
    connect(2, 2);
    client->events();
    wire::DeleteLink message = deleted(number(*client, 1));
    if (lost_by_peer) message.reason = DeleteLinkReason::kPathLost;
    inject(*client, 0, message);
    EXPECT_EQ(
        reasons(*client, Kind::kLinkDeleted),
        std::vector<std::string>{lost_by_peer ? "the peer lost it" : "the peer does not need it"});
  }
  for (const bool violation : {false, true}) {
    connect(1, 1);
    wire::DeleteLink message = deleted({});
    message.all = true;
    if (violation) message.reason = DeleteLinkReason::kProtocolViolation;
    inject(*client, 0, message);
    EXPECT_EQ(reasons(*client, Kind::kTerminated),
              std::vector<std::string>{
                  violation ? "the peer deleted the link group: it saw a protocol violation"
                            : "the peer deleted the link group"});
  }
}

TEST_F(LinkChanges, WithTheLastLinkNothingIsActive) {
  connect(1, 1);
  client->group.handle_link_down(0, now, "the cable was cut");
  EXPECT_TRUE(client->group.terminated());
  EXPECT_EQ(client->group.links().active_count(), 0U);
  EXPECT_EQ(client->group.links()[0]->state(), LinkState::kDown);
  EXPECT_EQ(client->group.next_deadline(), std::nullopt);
  EXPECT_EQ(reasons(*client, Kind::kTerminated), std::vector<std::string>{"the cable was cut"});
}

TEST_F(LinkChanges, TheNextDeadlineIsTheEarliest) {
  connect(2, 2);
  const GroupTimes times;
  EXPECT_EQ(server->group.next_deadline(), now + times.test_link_interval);
  server->group.handle_received(0, now + std::chrono::seconds(1));
  EXPECT_EQ(server->group.next_deadline(), now + times.test_link_interval);  // of the other link
  client->group.connection_added(0);
  const RmbRow row = begin_to_tell_rmb(*server);
  EXPECT_EQ(server->group.next_deadline(), now + kLlcAnswerWait);
  settle();
  EXPECT_TRUE(server->announced(row));
  server->group.doubt(1, Doubt::kPeerGone, now + std::chrono::seconds(1));
  EXPECT_EQ(server->group.next_deadline(), now + std::chrono::seconds(1));
}

TEST(LinkGroupDeadline, IsTheRepetitionOfConfirmLinkAndThenTheLinger) {
  constexpr TimePoint kNow{std::chrono::hours(1)};
  constexpr GroupTimes kTimes{Duration::zero(), std::chrono::seconds(600)};
  LinkGroup server(GroupRole::kServer, Terms{}, kTimes, kNow);
  EXPECT_EQ(server.next_deadline(), std::nullopt);
  server.start_first_contact({}, {}, kNow);
  EXPECT_EQ(server.next_deadline(), kNow + kConfirmLinkRepeat);
  wire::ConfirmLink answer{.kind = LlcKind::kResponse, .link = LinkNumber{1}};
  server.handle_llc(0, {wire::LlcVersion::k2, answer}, kNow);
  EXPECT_EQ(server.next_deadline(), kNow + kTimes.linger);
  server.connection_added(0);
  EXPECT_EQ(server.next_deadline(), std::nullopt);
}

// The other fields of what a group says of its queue pair.
TEST(LinkGroupMessages, NameThePortOfTheQueuePair) {
  constexpr TimePoint kNow{std::chrono::hours(1)};
  LinkIdentity own;
  own.mac.bytes[5] = 6;
  own.gid.bytes[15] = 7;
  own.queue_pair = QpNumber{8};
  LinkGroup client(GroupRole::kClient, Terms{.version = 1, .max_links = 2}, GroupTimes{}, kNow, 2);
  client.start_first_contact(own, {}, kNow);
  client.handle_llc(0, {wire::LlcVersion::k1, wire::ConfirmLink{.link = LinkNumber{3}}}, kNow);
  const auto sent = client.output().poll_llc();
  ASSERT_TRUE(sent);
  const auto answer = std::get<wire::ConfirmLink>(wire::decode_llc(sent->bytes)->body);
  EXPECT_EQ(answer.mac, own.mac);
  EXPECT_EQ(answer.gid, own.gid);
  EXPECT_EQ(answer.queue_pair, own.queue_pair);
  EXPECT_EQ(answer.link, LinkNumber{3});
  Gid other;
  other.bytes[15] = 9;
  client.handle_ports_changed(std::vector{own.gid, other}, kNow);
  const auto wish = client.output().poll_llc();
  ASSERT_TRUE(wish);
  const auto asked = std::get<wire::AddLink>(wire::decode_llc(wish->bytes)->body);
  EXPECT_EQ(asked.gid, other);
  EXPECT_EQ(asked.mac, own.mac);
  EXPECT_EQ(asked.queue_pair, QpNumber{});
}

}  // namespace
}  // namespace fairlead::smc
