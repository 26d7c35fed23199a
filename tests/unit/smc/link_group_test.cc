// Goal: a group of one link from its first contact to its end. Method: link_hosts.h.
#include "smc/group/link_group_output.h"
#include "unit/smc/link_hosts.h"

namespace fairlead::smc {
namespace {

using Kind = GroupEvent::Kind;

class GroupPair : public LinkHosts {
 protected:
  const GroupTimes times{};
};

TEST_F(GroupPair, FirstContactConfirmsLinkOneOnBothSides) {
  set_up(1, 1, 1);
  EXPECT_FALSE(server->group.usable());
  settle();
  EXPECT_TRUE(server->group.usable() && client->group.usable());
  EXPECT_EQ(client->group.links()[0]->number(), LinkNumber{1});
  EXPECT_EQ(server->events(), std::vector{Kind::kLinkConfirmed});
  EXPECT_EQ(client->events(), std::vector{Kind::kLinkConfirmed});
}

TEST_F(GroupPair, AnUnansweredConfirmLinkIsRepeatedOnce) {
  set_up(1, 1, 1);
  answer<wire::ConfirmLink>(*server);
  EXPECT_TRUE(silent(*server));
  server->group.handle_deadline(now + kConfirmLinkRepeat);
  answer<wire::ConfirmLink>(*server);
  server->group.handle_deadline(now + 5 * kConfirmLinkRepeat);
  EXPECT_TRUE(silent(*server));
}

TEST_F(GroupPair, ARepeatedConfirmLinkIsAnsweredAgain) {
  connect(1, 1, 1);
  EXPECT_EQ(ask(*client, 0, wire::ConfirmLink{.link = LinkNumber{1}}).kind,
            wire::LlcKind::kResponse);
  EXPECT_EQ(client->events(), std::vector{Kind::kLinkConfirmed});
}

TEST_F(GroupPair, APeerThatKeepsEyecatchersIsRefused) {
  set_up(1, 1, 1);
  inject(*client, 0, wire::ConfirmLink{.eyecatcher_flags = 0});
  const GroupEvent event = next_event(*client);
  EXPECT_EQ(event.kind, Kind::kLinkRefused);
  EXPECT_EQ(event.reason, FallbackReason::kRmbeEyecatcher);
}

// The server then gives up as it does without an answer, and declines.
TEST_F(GroupPair, AFirstRmbThatCannotBeWrittenLeavesConfirmLinkUnanswered) {
  set_up(1, 1, 1);
  inject(*client, 0, wire::ConfirmLink{}, "mapping");
  const GroupEvent event = next_event(*client);
  EXPECT_EQ(event.kind, Kind::kLinkRefused);
  EXPECT_EQ(event.reason, FallbackReason::kMemoryRegistration);
  EXPECT_TRUE(silent(*client));
  EXPECT_FALSE(client->group.usable());
}

TEST_F(GroupPair, AnRmbThatCannotBeWrittenIsRefused) {
  connect(1, 1, 1);
  inject(*client, 0, wire::ConfirmRkey{.rkey = RemoteKey{7}}, "mapping");
  const auto refusal = answer<wire::ConfirmRkey>(*client);
  EXPECT_EQ(refusal.kind, wire::LlcKind::kResponse);
  EXPECT_EQ(refusal.rkey, RemoteKey{7});
  EXPECT_TRUE(refusal.refused);
  EXPECT_FALSE(refusal.retry);
  EXPECT_EQ(client->group.peer_rmbs().count(), 1U);  // that of the first contact
}

TEST_F(GroupPair, MemoryOfALinkThatIsNotBeingAddedRefusesNothing) {
  connect(1, 1, 1);
  client->events();
  inject(*client, 0, wire::ConfirmLink{.link = LinkNumber{1}}, "mapping");
  EXPECT_FALSE(client->group.output().poll_event());
  EXPECT_TRUE(silent(*client));
  EXPECT_TRUE(client->group.usable());
}

TEST_F(GroupPair, AnIdleLinkIsTestedAndTheEchoMeasured) {
  connect(1, 1, 1);
  server->events();
  now += times.test_link_interval;
  server->group.handle_deadline(now);
  ASSERT_TRUE(carry(*server));
  now += std::chrono::microseconds(50);
  settle();
  const GroupEvent event = next_event(*server);
  EXPECT_EQ(event.kind, Kind::kLinkTested);
  EXPECT_EQ(event.round_trip, std::chrono::microseconds(50));
}

TEST_F(GroupPair, ASilentPeerIsFoundByTheTestAndEndsTheGroup) {
  connect(1, 1, 1);
  server->events();
  now += times.test_link_interval;
  server->group.handle_deadline(now);
  server->group.handle_deadline(now + kLlcAnswerWait - Duration(1));
  EXPECT_TRUE(server->group.usable());
  server->group.handle_deadline(now + kLlcAnswerWait);
  EXPECT_TRUE(server->group.terminated());
  EXPECT_EQ(server->events(), (std::vector{Kind::kLinkDead, Kind::kTerminated}));
}

TEST_F(GroupPair, TrafficProvesThePeerAlive) {
  connect(1, 1, 1);
  now += times.test_link_interval;
  server->group.handle_deadline(now);
  answer<wire::TestLink>(*server);
  server->group.handle_received(0, now + Duration(1));
  server->group.handle_deadline(now + kLlcAnswerWait);
  EXPECT_TRUE(server->group.usable());
}

TEST_F(GroupPair, ADoubtIsAskedAtOnceAndOnlyOnce) {
  connect(1, 1, 1);
  server->group.doubt(0, Doubt::kPeerGone, now);
  EXPECT_EQ(server->group.next_deadline(), now);
  server->group.handle_deadline(now);
  server->group.doubt(0, Doubt::kPeerGone, now);
  server->group.handle_deadline(now);
  const auto test = answer<wire::TestLink>(*server);
  EXPECT_TRUE(silent(*server));
  inject(*client, 0, test);
  settle();
  server->group.handle_deadline(now + kLlcAnswerWait);
  EXPECT_TRUE(server->group.usable());
}

TEST_F(GroupPair, ADoubtOfASilentPeerEndsTheGroupWithoutAnInterval) {
  for (const Doubt doubt : {Doubt::kPeerGone, Doubt::kDisowned}) {
    RecordedGroup never(GroupRole::kServer, terms, {Duration::zero(), times.linger}, now);
    never.start_first_contact({}, {}, now);
    const wire::ConfirmLink confirmed{.kind = wire::LlcKind::kResponse, .link = LinkNumber{1}};
    never.handle_llc(0, {wire::LlcVersion::k2, confirmed}, now);
    never.doubt(0, doubt, now);
    never.handle_deadline(now);
    EXPECT_TRUE(never.usable());
    never.handle_deadline(now + kLlcAnswerWait);
    EXPECT_TRUE(never.terminated());
  }
}

TEST_F(GroupPair, AnIdleGroupIsEndedByTheServerFirst) {
  connect(1, 1, 1);
  client->events();
  now += times.linger;
  client->group.handle_deadline(now);
  EXPECT_TRUE(client->group.usable());
  server->group.handle_deadline(now);
  EXPECT_TRUE(server->group.terminated());
  settle();
  EXPECT_TRUE(client->group.terminated());
}

TEST_F(GroupPair, AGroupInUseDoesNotLinger) {
  connect(1, 1, 1);
  server->group.connection_added(0);
  server->group.handle_received(0, now + times.linger);
  server->group.handle_deadline(now + times.linger);
  EXPECT_TRUE(server->group.usable());
  server->group.connection_removed(0, now + times.linger);
  server->group.handle_received(0, now + 2 * times.linger);
  server->group.handle_deadline(now + 2 * times.linger);
  EXPECT_TRUE(server->group.terminated());
}

TEST_F(GroupPair, HasRoomForTheAgreedNumberOfConnections) {
  terms.max_connections = 16;
  connect(1, 1, 1);
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(server->group.links().has_room_for_connection());
    server->group.connection_added(server->group.links().least_used());
  }
  EXPECT_FALSE(server->group.links().has_room_for_connection());
}

TEST_F(GroupPair, DeletingTheOnlyLinkEndsTheGroupAndIsAnswered) {
  connect(1, 1, 1);
  EXPECT_EQ(ask(*client, 0, wire::DeleteLink{.link = LinkNumber{1}}).reason,
            wire::DeleteLinkReason::kOk);
  EXPECT_TRUE(client->group.terminated());
}

TEST_F(GroupPair, APeerThatAsksWithoutListeningLosesAnswersOnly) {
  connect(1, 1, 1);
  for (int i = 0; i < 1000; ++i) inject(*server, 0, wire::TestLink{});
  EXPECT_TRUE(server->group.usable());
  wire::DeleteRkey flood;
  flood.rkeys.push(RemoteKey{1});
  for (int i = 0; i < 1000; ++i) inject(*server, 0, flood);
  inject(*server, 0, wire::DeleteLink{.all = true});
  EXPECT_EQ(server->events().back(), Kind::kTerminated);
  std::size_t answers = 0;
  while (server->group.output().poll_llc()) ++answers;
  EXPECT_LE(answers, kLlcQueueMax);
}

TEST_F(GroupPair, ALinkThatAStrangerDisownsIsUsedAgainWhenThePeerAnswers) {
  connect(1, 1, 1);
  EXPECT_TRUE(server->group.links().has_room_for_connection());
  server->group.doubt(0, Doubt::kDisowned, now);
  EXPECT_FALSE(server->group.links().has_room_for_connection());
  EXPECT_EQ(server->group.next_deadline(), now);
  server->group.handle_deadline(now);
  settle();
  EXPECT_TRUE(server->group.links().has_room_for_connection());
}

TEST_F(GroupPair, UnaskedAnswersAreIgnored) {
  connect(1, 1, 1);
  server->events();
  inject(*server, 0, wire::TestLink{.kind = wire::LlcKind::kResponse});
  inject(*server, 0, wire::ConfirmLink{.kind = wire::LlcKind::kResponse, .link = LinkNumber{3}});
  EXPECT_FALSE(server->group.output().poll_event());
  EXPECT_TRUE(silent(*server));
}

TEST(LinkGroupOutput, AnswersBeyondTheLimitAreDropped) {
  LinkGroupOutput out(wire::LlcVersion::k2);
  for (std::size_t i = 0; i < kLlcQueueMax; ++i) {
    EXPECT_FALSE(out.full());
    out.send(1, wire::TestLink{});
  }
  EXPECT_TRUE(out.full());
  out.send(1, wire::TestLink{});
  std::size_t sent = 0;
  while (out.poll_llc()) ++sent;
  EXPECT_EQ(sent, kLlcQueueMax);
}

TEST(LinkGroupOutput, TheEndIsNeverDropped) {
  LinkGroupOutput out(wire::LlcVersion::k1);
  for (std::size_t i = 0; i < 2 * kGroupEventsMax; ++i)
    out.emit(GroupEvent{GroupEvent::Kind::kLinkTested});
  out.emit(GroupEvent{GroupEvent::Kind::kTerminated});
  std::optional<GroupEvent> last;
  while (const auto event = out.poll_event()) last = event;
  ASSERT_TRUE(last);
  EXPECT_EQ(last->kind, GroupEvent::Kind::kTerminated);
}

}  // namespace
}  // namespace fairlead::smc
