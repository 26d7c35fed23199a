// Deletion of a local RMB: requested by DELETE_RKEY, complete when the peer has answered.
#include <gtest/gtest.h>

#include "unit/smc/link_hosts.h"

namespace fairlead::smc {
namespace {

using wire::AddLink;
using wire::DeleteRkey;

class RmbDeletion : public LinkHosts {
 protected:
  // The server has another RMB, which was announced to the client.
  RmbRow told_rmb(unsigned ports = 2, std::uint8_t version = 2) {
    connect(ports, ports, 2, version);
    return another_rmb();
  }
  RmbRow another_rmb() {
    const RmbRow row = server->add_rmb();
    server->group.start_next_flow(now);
    settle();
    EXPECT_TRUE(server->group.local_rmbs().announced(row, server->group.links()));
    return row;
  }
  DeleteRkey answer(RemoteKey rkey) {
    DeleteRkey message;
    message.kind = wire::LlcKind::kResponse;
    message.rkeys.push(rkey);
    return message;
  }
  std::size_t requests(bool by_server = true) {
    std::size_t count = 0;
    for (const DeleteRkey& message : sent<DeleteRkey>(by_server))
      count += message.kind == wire::LlcKind::kRequest ? 1U : 0U;
    return count;
  }
  bool lost(const wire::LlcBody& body) override {
    return lose_deletions && std::holds_alternative<DeleteRkey>(body);
  }
  bool lose_deletions = false;
};

class RmbDeletionVersions : public RmbDeletion, public testing::WithParamInterface<std::uint8_t> {};

TEST_P(RmbDeletionVersions, ThePeerForgetsTheKeysOfAllLinksAndAnswers) {
  const RmbRow rmb = told_rmb(2, GetParam());
  ASSERT_EQ(server->group.links().active_count(), 2U);
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
  EXPECT_EQ(requests(), 1U);
  EXPECT_FALSE(client->group.peer_rmbs().translate(0, server->key(rmb, 0), 1));
  EXPECT_TRUE(client->group.peer_rmbs().translate(0, server->key(0, 0), 1));
  std::vector<std::uint32_t> deleted;
  while (const auto event = client->group.output().poll_event())
    if (event->kind == GroupEvent::Kind::kRkeyDeleted) deleted.push_back(event->rkey.value);
  EXPECT_EQ(deleted, (std::vector<std::uint32_t>{server->key(rmb, 0).rkey.value,
                                                 server->key(rmb, 1).rkey.value}));
}

INSTANTIATE_TEST_SUITE_P(Versions, RmbDeletionVersions,
                         testing::Values(std::uint8_t{1}, std::uint8_t{2}));

TEST_F(RmbDeletion, AGroupOfOneLinkTakesBackWhatItNeverTold) {
  connect(1, 1, 1);
  const RmbRow rmb = server->add_rmb();
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  const auto answers = sent<DeleteRkey>(false);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].some_unknown);
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, ARowThatIsFreeAgainIsToldAnew) {
  const RmbRow rmb = told_rmb();
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  server->remove_rmb(rmb);
  EXPECT_EQ(server->add_rmb(), rmb);
  EXPECT_FALSE(server->group.local_rmbs().announced(rmb, server->group.links()));
  server->group.start_next_flow(now);
  settle();
  EXPECT_TRUE(server->group.local_rmbs().announced(rmb, server->group.links()));
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, LinuxDoesNotSayWhatItAnswers) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, AnswersToOtherQuestionsAreNone) {
  const RmbRow rmb = told_rmb();
  inject(*server, 0, answer(server->key(rmb, 0).rkey));
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
  lose_deletions = true;
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  inject(*server, 0, answer(server->key(0, 0).rkey));
  inject(*server, 1, answer(server->key(rmb, 0).rkey));
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
  inject(*server, 0, answer(server->key(rmb, 0).rkey));
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, WithoutAnAnswerTheMemoryStaysAndOtherFlowsGoOn) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  const RmbRow other = server->add_rmb();
  server->group.start_next_flow(now);
  settle();
  EXPECT_FALSE(
      server->group.local_rmbs().announced(other, server->group.links()));  // one flow at a time
  advance(kLlcAnswerWait);
  EXPECT_TRUE(server->group.local_rmbs().announced(other, server->group.links()));
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
  // However late.
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

// An answer without a key could belong to either request.
TEST_F(RmbDeletion, ALinkWhoseAnswerIsDueIsNotAskedTheNextQuestion) {
  const RmbRow rmb = told_rmb(1);
  const RmbRow next = another_rmb();
  lose_deletions = true;
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  server->group.local_rmbs().want_deleted(next);
  server->group.start_next_flow(now);
  settle();
  advance(kLlcAnswerWait);
  EXPECT_EQ(requests(), 1U);
  lose_deletions = false;
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
  EXPECT_FALSE(server->group.local_rmbs().deleted(next));
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(next));
}

TEST_F(RmbDeletion, TheQuestionIsAskedAgainWhenItsLinkDies) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  lose_deletions = false;
  cut(*server, 0);
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
  EXPECT_EQ(requests(), 2U);
}

TEST_F(RmbDeletion, TheQuestionIsAskedAgainLongAfterItsFlowWhenItsLinkDies) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  advance(kLlcAnswerWait);
  lose_deletions = false;
  cut(*server, 0);
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, WaitsForALinkThatIsBeingAdded) {
  set_up(2, 2);
  const RmbRow rmb = server->add_rmb();
  for (int i = 0; i < 100 && sent<AddLink>(true).empty(); ++i)
    (void)(carry(*server), carry(*client));
  ASSERT_EQ(server->group.links().active_count(), 1U);
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  EXPECT_EQ(requests(), 0U);
  settle();
  EXPECT_EQ(server->group.links().active_count(), 2U);
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, WhatThePeerMayHaveForgottenIsNotListedForANewLink) {
  const RmbRow rmb = told_rmb(2);
  cut(*server, 1);
  lose_deletions = true;
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  advance(kLlcAnswerWait);
  trace.clear();
  restore(*server, 1);
  for (const AddLink& message : sent<AddLink>(true)) {
    ASSERT_EQ(message.rkeys.view().size(), 1U);
    EXPECT_EQ(message.rkeys.items[0].known_rkey, server->key(0, 0).rkey);
  }
  EXPECT_EQ(server->group.links().active_count(), 2U);
}

TEST_F(RmbDeletion, BothSidesMayDeleteAtOnce) {
  const RmbRow rmb = told_rmb();
  const RmbRow theirs = client->add_rmb();
  client->group.start_next_flow(now);
  settle();
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  client->group.local_rmbs().want_deleted(theirs);
  client->group.start_next_flow(now);
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
  EXPECT_TRUE(client->group.local_rmbs().deleted(theirs));
}

TEST_F(RmbDeletion, AnRmbThatIsTakenBackIsNotToldAnyMore) {
  connect(2, 2);
  const RmbRow rmb = server->add_rmb();
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
  EXPECT_TRUE(sent<wire::ConfirmRkey>(true).empty());
}

TEST_F(RmbDeletion, AQuestionThatFindsNoRoomIsAskedLater) {
  const RmbRow rmb = told_rmb();
  for (std::size_t i = 0; i < kLlcQueueMax; ++i) inject(*server, 0, wire::TestLink{});
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  EXPECT_EQ(requests(), 0U);
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, AGroupThatIsOverAsksNobody) {
  const RmbRow rmb = told_rmb();
  server->group.terminate(wire::DeleteLinkReason::kOperator, true, "test");
  server->group.local_rmbs().want_deleted(rmb);
  server->group.start_next_flow(now);
  settle();
  EXPECT_EQ(requests(), 0U);
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
}

TEST(RmbDeletionDeathTest, FreeingWhatThePeerMayWriteToAborts) {
  LinkGroup group(GroupRole::kServer, Terms{}, GroupTimes{}, TimePoint{});
  const RmbRow rmb = *group.local_rmbs().add(0, {RemoteKey{1}, RemoteAddress{4096}});
  EXPECT_DEATH(group.local_rmbs().remove(rmb), "assertion failed");
}

}  // namespace
}  // namespace fairlead::smc
