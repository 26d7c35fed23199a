#include "unit/smc/transcript.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

using Kind = GroupEvent::Kind;

constexpr GroupTimes kTimes{std::chrono::seconds(30), std::chrono::seconds(600)};

class GroupPair : public testing::Test {
 protected:
  static Terms terms() {
    Terms t;
    t.max_connections = 16;
    return t;
  }
  void confirm() {
    client.start_first_contact({}, {}, now);
    server.start_first_contact({}, {}, now);
    settle();
  }
  static wire::LlcMessage decode(const LlcToSend& out) {
    const auto message = wire::decode_llc(out.bytes);
    EXPECT_TRUE(message);
    return *message;
  }
  void settle() {
    for (bool any = true; any;) {
      any = false;
      while (const auto out = server.output().poll_llc()) {
        client.handle_received(out->link, now);
        client.handle_llc(out->link, decode(*out), now);
        any = true;
      }
      while (const auto out = client.output().poll_llc()) {
        server.handle_received(out->link, now);
        server.handle_llc(out->link, decode(*out), now);
        any = true;
      }
    }
  }
  static std::vector<Kind> events(RecordedGroup& group) {
    std::vector<Kind> kinds;
    while (const auto event = group.output().poll_event()) kinds.push_back(event->kind);
    return kinds;
  }
  // The group's answer to one request.
  template <class Answer, class Request>
  Answer ask(RecordedGroup& group, const Request& request) {
    group.handle_llc(0, {wire::LlcVersion::k2, request}, now);
    const auto out = group.output().poll_llc();
    EXPECT_TRUE(out);
    return std::get<Answer>(decode(*out).body);
  }

  TimePoint now{std::chrono::hours(1)};
  RecordedGroup server{GroupRole::kServer, terms(), kTimes, now};
  RecordedGroup client{GroupRole::kClient, terms(), kTimes, now};
};

TEST_F(GroupPair, FirstContactConfirmsLinkOneOnBothSides) {
  EXPECT_FALSE(server.usable());
  confirm();
  EXPECT_TRUE(server.usable());
  EXPECT_TRUE(client.usable());
  EXPECT_EQ(client.links()[0]->number(), LinkNumber{1});
  EXPECT_EQ(events(server), std::vector{Kind::kLinkConfirmed});
  EXPECT_EQ(events(client), std::vector{Kind::kLinkConfirmed});
}

TEST_F(GroupPair, AnUnansweredConfirmLinkIsRepeatedOnce) {
  server.start_first_contact({}, {}, now);
  EXPECT_TRUE(server.output().poll_llc());
  EXPECT_FALSE(server.output().poll_llc());
  server.handle_deadline(now + kConfirmLinkRepeat);
  EXPECT_TRUE(server.output().poll_llc());
  server.handle_deadline(now + 5 * kConfirmLinkRepeat);
  EXPECT_FALSE(server.output().poll_llc());
}

TEST_F(GroupPair, ARepeatedConfirmLinkIsAnsweredAgain) {
  confirm();
  wire::ConfirmLink again;
  again.link = LinkNumber{1};
  EXPECT_EQ(ask<wire::ConfirmLink>(client, again).kind, wire::LlcKind::kResponse);
  EXPECT_EQ(events(client), std::vector{Kind::kLinkConfirmed});
}

TEST_F(GroupPair, APeerThatKeepsEyecatchersIsRefused) {
  client.start_first_contact({}, {}, now);
  wire::ConfirmLink request;
  request.eyecatcher_flags = 0;
  client.handle_llc(0, {wire::LlcVersion::k2, request}, now);
  const auto event = client.output().poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Kind::kLinkRefused);
  EXPECT_EQ(event->reason, FallbackReason::kRmbeEyecatcher);
}

// The server then gives up as it does without an answer, and declines.
TEST_F(GroupPair, AFirstRmbThatCannotBeWrittenLeavesConfirmLinkUnanswered) {
  client.start_first_contact({}, {}, now);
  client.handle_llc(0, {wire::LlcVersion::k2, wire::ConfirmLink{}}, now, "mapping");
  const auto event = client.output().poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Kind::kLinkRefused);
  EXPECT_EQ(event->reason, FallbackReason::kMemoryRegistration);
  EXPECT_FALSE(client.output().poll_llc());
  EXPECT_FALSE(client.usable());
}

TEST_F(GroupPair, AnRmbThatCannotBeWrittenIsRefused) {
  confirm();
  wire::ConfirmRkey request;
  request.rkey = RemoteKey{7};
  client.handle_llc(0, {wire::LlcVersion::k2, request}, now, "mapping");
  const auto out = client.output().poll_llc();
  ASSERT_TRUE(out);
  const auto answer = std::get<wire::ConfirmRkey>(decode(*out).body);
  EXPECT_EQ(answer.kind, wire::LlcKind::kResponse);
  EXPECT_EQ(answer.rkey, request.rkey);
  EXPECT_TRUE(answer.refused);
  EXPECT_FALSE(answer.retry);
  EXPECT_EQ(client.peer_rmbs().count(), 0U);
}

TEST_F(GroupPair, MemoryOfALinkThatIsNotBeingAddedRefusesNothing) {
  confirm();
  events(client);
  wire::ConfirmLink again;
  again.link = LinkNumber{1};
  client.handle_llc(0, {wire::LlcVersion::k2, again}, now, "mapping");
  EXPECT_FALSE(client.output().poll_event());
  EXPECT_FALSE(client.output().poll_llc());
  EXPECT_TRUE(client.usable());
}

TEST_F(GroupPair, AnswersRkeyRequests) {
  confirm();
  wire::ConfirmRkey rkey;
  rkey.rkey = RemoteKey{7};
  const auto confirmed = ask<wire::ConfirmRkey>(client, rkey);
  EXPECT_EQ(confirmed.kind, wire::LlcKind::kResponse);
  EXPECT_FALSE(confirmed.refused);
  EXPECT_EQ(confirmed.rkey, RemoteKey{7});
  events(client);
  wire::DeleteRkey gone;
  gone.rkeys.push(RemoteKey{7});
  EXPECT_EQ(ask<wire::DeleteRkey>(client, gone).kind, wire::LlcKind::kResponse);
  const auto event = client.output().poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Kind::kRkeyDeleted);
  EXPECT_EQ(event->rkey, RemoteKey{7});
}

TEST_F(GroupPair, RejectsASecondLinkItDidNotAgreeTo) {
  confirm();
  wire::AddLink request;
  request.link = LinkNumber{2};
  const auto answer = ask<wire::AddLink>(client, request);
  EXPECT_EQ(answer.kind, wire::LlcKind::kResponse);
  EXPECT_TRUE(answer.rejected);
  wire::ReqAddLink wish;
  wish.gids.push(Gid{});
  EXPECT_TRUE(ask<wire::ReqAddLink>(server, wish).rejected);
}

TEST_F(GroupPair, AnIdleLinkIsTestedAndTheEchoMeasured) {
  confirm();
  events(server);
  now += kTimes.test_link_interval;
  server.handle_deadline(now);
  const auto out = server.output().poll_llc();
  ASSERT_TRUE(out);
  client.handle_llc(0, decode(*out), now);
  now += std::chrono::microseconds(50);
  settle();
  const auto event = server.output().poll_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Kind::kLinkTested);
  EXPECT_EQ(event->round_trip, std::chrono::microseconds(50));
}

TEST_F(GroupPair, ASilentPeerIsFoundByTheTestAndEndsTheGroup) {
  confirm();
  events(server);
  now += kTimes.test_link_interval;
  server.handle_deadline(now);
  server.handle_deadline(now + kLlcAnswerWait - Duration(1));
  EXPECT_TRUE(server.usable());
  server.handle_deadline(now + kLlcAnswerWait);
  EXPECT_TRUE(server.terminated());
  EXPECT_EQ(events(server), (std::vector{Kind::kLinkDead, Kind::kTerminated}));
}

TEST_F(GroupPair, ADoubtIsAskedAtOnceAndOnlyOnce) {
  confirm();
  server.doubt(0, Doubt::kPeerGone, now);
  EXPECT_EQ(server.next_deadline(), now);
  server.handle_deadline(now);
  server.doubt(0, Doubt::kPeerGone, now);
  server.handle_deadline(now);
  const auto out = server.output().poll_llc();
  ASSERT_TRUE(out);
  EXPECT_TRUE(std::holds_alternative<wire::TestLink>(decode(*out).body));
  EXPECT_FALSE(server.output().poll_llc());
  client.handle_llc(0, decode(*out), now);
  settle();
  server.handle_deadline(now + kLlcAnswerWait);
  EXPECT_TRUE(server.usable());
}

TEST_F(GroupPair, ADoubtOfASilentPeerEndsTheGroupWithoutAnInterval) {
  constexpr GroupTimes kNoInterval{Duration::zero(), kTimes.linger};
  RecordedGroup never(GroupRole::kServer, terms(), kNoInterval, now);
  never.start_first_contact({}, {}, now);
  client.start_first_contact({}, {}, now);
  for (bool any = true; any;) {
    any = false;
    while (const auto out = never.output().poll_llc())
      client.handle_llc(0, decode(*out), now), any = true;
    while (const auto out = client.output().poll_llc())
      never.handle_llc(0, decode(*out), now), any = true;
  }
  ASSERT_TRUE(never.usable());
  never.doubt(0, Doubt::kPeerGone, now);
  never.handle_deadline(now);
  never.handle_deadline(now + kLlcAnswerWait);
  EXPECT_TRUE(never.terminated());
}

TEST_F(GroupPair, TrafficProvesThePeerAlive) {
  confirm();
  now += kTimes.test_link_interval;
  server.handle_deadline(now);
  server.handle_received(0, now + Duration(1));
  server.handle_deadline(now + kLlcAnswerWait);
  EXPECT_TRUE(server.usable());
}

TEST_F(GroupPair, AnIdleGroupIsEndedByTheServerFirst) {
  confirm();
  events(client);
  now += kTimes.linger;
  client.handle_deadline(now);
  EXPECT_TRUE(client.usable());
  server.handle_deadline(now);
  EXPECT_TRUE(server.terminated());
  settle();
  EXPECT_TRUE(client.terminated());
}

TEST_F(GroupPair, AGroupInUseDoesNotLinger) {
  confirm();
  server.connection_added(0);
  server.handle_received(0, now + kTimes.linger);
  server.handle_deadline(now + kTimes.linger);
  EXPECT_TRUE(server.usable());
  server.connection_removed(0, now + kTimes.linger);
  server.handle_received(0, now + 2 * kTimes.linger);
  server.handle_deadline(now + 2 * kTimes.linger);
  EXPECT_TRUE(server.terminated());
}

TEST_F(GroupPair, HasRoomForTheAgreedNumberOfConnections) {
  confirm();
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(server.links().has_room_for_connection());
    server.connection_added(server.links().least_used());
  }
  EXPECT_FALSE(server.links().has_room_for_connection());
}

TEST_F(GroupPair, DeletingTheOnlyLinkEndsTheGroupAndIsAnswered) {
  confirm();
  wire::DeleteLink request;
  request.link = LinkNumber{1};
  EXPECT_EQ(ask<wire::DeleteLink>(client, request).reason, wire::DeleteLinkReason::kOk);
  EXPECT_TRUE(client.terminated());
}

TEST_F(GroupPair, DeletingAnUnknownLinkIsAnsweredAndHarmless) {
  confirm();
  wire::DeleteLink request;
  request.link = LinkNumber{9};
  EXPECT_EQ(ask<wire::DeleteLink>(client, request).reason, wire::DeleteLinkReason::kUnknownLink);
  EXPECT_TRUE(client.usable());
}

TEST_F(GroupPair, APeerThatAsksWithoutListeningLosesAnswersOnly) {
  confirm();
  for (int i = 0; i < 1000; ++i)
    server.handle_llc(0, {wire::LlcVersion::k2, wire::TestLink{}}, now);
  EXPECT_TRUE(server.usable());
  wire::DeleteLink all;
  all.all = true;
  for (int i = 0; i < 1000; ++i) {
    wire::DeleteRkey flood;
    flood.rkeys.push(RemoteKey{1});
    server.handle_llc(0, {wire::LlcVersion::k2, flood}, now);
  }
  server.handle_llc(0, {wire::LlcVersion::k2, all}, now);
  EXPECT_EQ(events(server).back(), Kind::kTerminated);
  std::size_t answers = 0;
  while (server.output().poll_llc()) ++answers;
  EXPECT_LE(answers, kLlcQueueMax);
}

TEST_F(GroupPair, AMessageOfTheOtherVersionEndsTheGroup) {
  confirm();
  server.handle_llc(0, {wire::LlcVersion::k1, wire::TestLink{}}, now);
  EXPECT_EQ(events(server).back(), Kind::kTerminated);
  const auto last = server.output().poll_llc();
  ASSERT_TRUE(last);
  const auto message = wire::decode_llc(last->bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->version, wire::LlcVersion::k2);
  const auto* word = std::get_if<wire::DeleteLink>(&message->body);
  ASSERT_NE(word, nullptr);
  EXPECT_TRUE(word->all);
  EXPECT_EQ(word->reason, wire::DeleteLinkReason::kProtocolViolation);
}

TEST_F(GroupPair, ALinkThatAStrangerDisownsIsUsedAgainWhenThePeerAnswers) {
  confirm();
  EXPECT_TRUE(server.links().has_room_for_connection());
  server.doubt(0, Doubt::kDisowned, now);
  EXPECT_FALSE(server.links().has_room_for_connection());
  EXPECT_EQ(server.next_deadline(), now);
  server.handle_deadline(now);
  settle();
  EXPECT_TRUE(server.links().has_room_for_connection());
}

TEST_F(GroupPair, ALinkThatThePeerDisownsIsLost) {
  confirm();
  server.doubt(0, Doubt::kDisowned, now);
  server.handle_deadline(now);
  EXPECT_TRUE(server.output().poll_llc());  // to nobody
  now += kLlcAnswerWait;
  EXPECT_TRUE(server.usable());
  server.handle_deadline(now);
  EXPECT_TRUE(server.terminated());
}

TEST_F(GroupPair, UnaskedAnswersAreIgnored) {
  confirm();
  events(server);
  wire::TestLink echo;
  echo.kind = wire::LlcKind::kResponse;
  server.handle_llc(0, {wire::LlcVersion::k2, echo}, now);
  wire::ConfirmLink wrong;
  wrong.kind = wire::LlcKind::kResponse;
  wrong.link = LinkNumber{3};
  server.handle_llc(0, {wire::LlcVersion::k2, wrong}, now);
  EXPECT_FALSE(server.output().poll_event());
  EXPECT_FALSE(server.output().poll_llc());
}

}  // namespace
}  // namespace fairlead::smc
