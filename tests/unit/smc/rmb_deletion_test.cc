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
    server->group.tell_rmbs(now);
    settle();
    EXPECT_TRUE(server->group.rmb_told(row));
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
  ASSERT_EQ(server->group.active_links(), 2U);
  server->group.delete_rmb(rmb, now);
  EXPECT_FALSE(server->group.rmb_deleted(rmb));
  settle();
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
  EXPECT_EQ(requests(), 1U);
  EXPECT_FALSE(client->group.peer_rmbs().translate(0, server->key(rmb, 0), 1));
  EXPECT_TRUE(client->group.peer_rmbs().translate(0, server->key(0, 0), 1));
  std::vector<std::uint32_t> deleted;
  while (const auto event = client->group.poll_event())
    if (event->kind == GroupEvent::Kind::kRkeyDeleted) deleted.push_back(event->rkey.value);
  EXPECT_EQ(deleted, (std::vector<std::uint32_t>{server->key(rmb, 0).rkey.value,
                                                 server->key(rmb, 1).rkey.value}));
}

INSTANTIATE_TEST_SUITE_P(Versions, RmbDeletionVersions,
                         testing::Values(std::uint8_t{1}, std::uint8_t{2}));

TEST_F(RmbDeletion, AGroupOfOneLinkTakesBackWhatItNeverTold) {
  connect(1, 1, 1);
  const RmbRow rmb = server->add_rmb();
  server->group.delete_rmb(rmb, now);
  settle();
  const auto answers = sent<DeleteRkey>(false);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].some_unknown);
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
}

TEST_F(RmbDeletion, ARowThatIsFreeAgainIsToldAnew) {
  const RmbRow rmb = told_rmb();
  server->group.delete_rmb(rmb, now);
  settle();
  server->remove_rmb(rmb);
  EXPECT_EQ(server->add_rmb(), rmb);
  EXPECT_FALSE(server->group.rmb_told(rmb));
  server->group.tell_rmbs(now);
  settle();
  EXPECT_TRUE(server->group.rmb_told(rmb));
  EXPECT_FALSE(server->group.rmb_deleted(rmb));
}

TEST_F(RmbDeletion, LinuxDoesNotSayWhatItAnswers) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.delete_rmb(rmb, now);
  settle();
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
}

TEST_F(RmbDeletion, AnswersToOtherQuestionsAreNone) {
  const RmbRow rmb = told_rmb();
  inject(*server, 0, answer(server->key(rmb, 0).rkey));
  EXPECT_FALSE(server->group.rmb_deleted(rmb));
  lose_deletions = true;
  server->group.delete_rmb(rmb, now);
  settle();
  inject(*server, 0, answer(server->key(0, 0).rkey));
  inject(*server, 1, answer(server->key(rmb, 0).rkey));
  EXPECT_FALSE(server->group.rmb_deleted(rmb));
  inject(*server, 0, answer(server->key(rmb, 0).rkey));
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
}

TEST_F(RmbDeletion, WithoutAnAnswerTheMemoryStaysAndOtherFlowsGoOn) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.delete_rmb(rmb, now);
  settle();
  const RmbRow other = server->add_rmb();
  server->group.tell_rmbs(now);
  settle();
  EXPECT_FALSE(server->group.rmb_told(other));  // one flow at a time
  advance(kLlcAnswerWait);
  EXPECT_TRUE(server->group.rmb_told(other));
  EXPECT_FALSE(server->group.rmb_deleted(rmb));
  // However late.
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
}

// An answer without a key could belong to either request.
TEST_F(RmbDeletion, ALinkWhoseAnswerIsDueIsNotAskedTheNextQuestion) {
  const RmbRow rmb = told_rmb(1);
  const RmbRow next = another_rmb();
  lose_deletions = true;
  server->group.delete_rmb(rmb, now);
  server->group.delete_rmb(next, now);
  settle();
  advance(kLlcAnswerWait);
  EXPECT_EQ(requests(), 1U);
  lose_deletions = false;
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
  EXPECT_FALSE(server->group.rmb_deleted(next));
  settle();
  EXPECT_TRUE(server->group.rmb_deleted(next));
}

TEST_F(RmbDeletion, TheQuestionIsAskedAgainWhenItsLinkDies) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.delete_rmb(rmb, now);
  settle();
  lose_deletions = false;
  cut(*server, 0);
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
  EXPECT_EQ(requests(), 2U);
}

TEST_F(RmbDeletion, TheQuestionIsAskedAgainLongAfterItsFlowWhenItsLinkDies) {
  const RmbRow rmb = told_rmb();
  lose_deletions = true;
  server->group.delete_rmb(rmb, now);
  settle();
  advance(kLlcAnswerWait);
  lose_deletions = false;
  cut(*server, 0);
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
}

TEST_F(RmbDeletion, WaitsForALinkThatIsBeingAdded) {
  set_up(2, 2);
  const RmbRow rmb = server->add_rmb();
  for (int i = 0; i < 100 && sent<AddLink>(true).empty(); ++i)
    (void)(carry(*server), carry(*client));
  ASSERT_EQ(server->group.active_links(), 1U);
  server->group.delete_rmb(rmb, now);
  EXPECT_EQ(requests(), 0U);
  settle();
  EXPECT_EQ(server->group.active_links(), 2U);
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
}

TEST_F(RmbDeletion, WhatThePeerMayHaveForgottenIsNotListedForANewLink) {
  const RmbRow rmb = told_rmb(2);
  cut(*server, 1);
  lose_deletions = true;
  server->group.delete_rmb(rmb, now);
  settle();
  advance(kLlcAnswerWait);
  trace.clear();
  restore(*server, 1);
  for (const AddLink& message : sent<AddLink>(true)) {
    ASSERT_EQ(message.rkeys.view().size(), 1U);
    EXPECT_EQ(message.rkeys.items[0].known_rkey, server->key(0, 0).rkey);
  }
  EXPECT_EQ(server->group.active_links(), 2U);
}

TEST_F(RmbDeletion, BothSidesMayDeleteAtOnce) {
  const RmbRow rmb = told_rmb();
  const RmbRow theirs = client->add_rmb();
  client->group.tell_rmbs(now);
  settle();
  server->group.delete_rmb(rmb, now);
  client->group.delete_rmb(theirs, now);
  settle();
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
  EXPECT_TRUE(client->group.rmb_deleted(theirs));
}

TEST_F(RmbDeletion, AnRmbThatIsTakenBackIsNotToldAnyMore) {
  connect(2, 2);
  const RmbRow rmb = server->add_rmb();
  server->group.delete_rmb(rmb, now);
  settle();
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
  EXPECT_TRUE(sent<wire::ConfirmRkey>(true).empty());
}

TEST_F(RmbDeletion, AQuestionThatFindsNoRoomIsAskedLater) {
  const RmbRow rmb = told_rmb();
  for (std::size_t i = 0; i < kLlcQueueMax; ++i) inject(*server, 0, wire::TestLink{});
  server->group.delete_rmb(rmb, now);
  settle();
  EXPECT_EQ(requests(), 0U);
  server->group.delete_rmb(rmb, now);
  settle();
  EXPECT_TRUE(server->group.rmb_deleted(rmb));
}

TEST_F(RmbDeletion, AGroupThatIsOverAsksNobody) {
  const RmbRow rmb = told_rmb();
  server->group.terminate(wire::DeleteLinkReason::kOperator, true, "test");
  server->group.delete_rmb(rmb, now);
  settle();
  EXPECT_EQ(requests(), 0U);
  EXPECT_FALSE(server->group.rmb_deleted(rmb));
}

TEST(RmbDeletionDeathTest, FreeingWhatThePeerMayWriteToAborts) {
  LinkGroup group(GroupRole::kServer, PeerId{}, Terms{}, GroupTimes{}, TimePoint{});
  const RmbRow rmb = *group.add_rmb(0, {RemoteKey{1}, RemoteAddress{4096}});
  EXPECT_DEATH(group.remove_rmb(rmb), "assertion failed");
}

}  // namespace
}  // namespace fairlead::smc
