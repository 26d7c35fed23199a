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
    const RmbRow row = tell_rmb(*server);
    EXPECT_TRUE(server->announced(row));
    return row;
  }
  DeleteRkey answer(RemoteKey rkey) {
    DeleteRkey message{.kind = wire::LlcKind::kResponse};
    message.rkeys.push(rkey);
    return message;
  }
  std::size_t requests(bool by_server = true) {
    std::size_t count = 0;
    for (const DeleteRkey& message : sent<DeleteRkey>(by_server))
      count += message.kind == wire::LlcKind::kRequest ? 1U : 0U;
    return count;
  }
};

class RmbDeletionVersions : public RmbDeletion, public testing::WithParamInterface<std::uint8_t> {};

TEST_P(RmbDeletionVersions, ThePeerForgetsTheKeysOfAllLinksAndAnswers) {
  const RmbRow rmb = told_rmb(2, GetParam());
  ASSERT_EQ(server->group.links().active_count(), 2U);
  begin_to_delete_rmb(*server, rmb);
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

TEST_F(RmbDeletion, WhatWasNeverToldIsTakenBackAndNotToldAnyMore) {
  for (const std::uint8_t links : {std::uint8_t{1}, std::uint8_t{2}}) {
    trace.clear();
    connect(links, links, links);
    const RmbRow rmb = server->add_rmb();
    delete_rmb(*server, rmb);
    const auto answers = sent<DeleteRkey>(false);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_TRUE(answers[0].some_unknown);
    EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
    EXPECT_TRUE(sent<wire::ConfirmRkey>(true).empty());
  }
}

TEST_F(RmbDeletion, ARowThatIsFreeAgainIsToldAnew) {
  const RmbRow rmb = told_rmb();
  delete_rmb(*server, rmb);
  server->remove_rmb(rmb);
  EXPECT_EQ(server->add_rmb(), rmb);
  EXPECT_FALSE(server->announced(rmb));
  server->group.start_next_flow(now);
  settle();
  EXPECT_TRUE(server->announced(rmb));
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, LinuxDoesNotSayWhatItAnswers) {
  const RmbRow rmb = told_rmb();
  drop<DeleteRkey>();
  delete_rmb(*server, rmb);
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, WithoutAnAnswerTheMemoryStaysAndOtherFlowsGoOn) {
  const RmbRow rmb = told_rmb();
  drop<DeleteRkey>();
  delete_rmb(*server, rmb);
  const RmbRow other = tell_rmb(*server);
  EXPECT_FALSE(server->announced(other));  // one flow at a time
  advance(kLlcAnswerWait);
  EXPECT_TRUE(server->announced(other));
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
  // However late.
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

// An answer without a key could belong to either request.
TEST_F(RmbDeletion, ALinkWhoseAnswerIsDueIsNotAskedTheNextQuestion) {
  const RmbRow rmb = told_rmb(1);
  const RmbRow next = another_rmb();
  drop<DeleteRkey>();
  begin_to_delete_rmb(*server, rmb);
  delete_rmb(*server, next);
  advance(kLlcAnswerWait);
  EXPECT_EQ(requests(), 1U);
  dropped.clear();
  inject(*server, 0, answer(RemoteKey{}));
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
  EXPECT_FALSE(server->group.local_rmbs().deleted(next));
  settle();
  EXPECT_TRUE(server->group.local_rmbs().deleted(next));
}

// Also long after its flow.
TEST_F(RmbDeletion, TheQuestionIsAskedAgainWhenItsLinkDies) {
  for (const bool later : {false, true}) {
    trace.clear();
    const RmbRow rmb = told_rmb();
    drop<DeleteRkey>();
    delete_rmb(*server, rmb);
    if (later) advance(kLlcAnswerWait);
    dropped.clear();
    cut(*server, 0);
    EXPECT_TRUE(server->group.local_rmbs().deleted(rmb)) << later;
    EXPECT_EQ(requests(), 2U) << later;
  }
}

TEST_F(RmbDeletion, WaitsForALinkThatIsBeingAdded) {
  set_up(2, 2);
  const RmbRow rmb = server->add_rmb();
  for (int i = 0; i < 100 && sent<AddLink>(true).empty(); ++i)
    (void)(carry(*server), carry(*client));
  ASSERT_EQ(server->group.links().active_count(), 1U);
  begin_to_delete_rmb(*server, rmb);
  EXPECT_EQ(requests(), 0U);
  settle();
  EXPECT_EQ(server->group.links().active_count(), 2U);
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, BothSidesMayDeleteAtOnce) {
  const RmbRow rmb = told_rmb();
  const RmbRow theirs = tell_rmb(*client);
  begin_to_delete_rmb(*server, rmb);
  delete_rmb(*client, theirs);
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
  EXPECT_TRUE(client->group.local_rmbs().deleted(theirs));
}

TEST_F(RmbDeletion, AQuestionThatFindsNoRoomIsAskedLater) {
  const RmbRow rmb = told_rmb();
  for (std::size_t i = 0; i < kLlcQueueMax; ++i) inject(*server, 0, wire::TestLink{});
  delete_rmb(*server, rmb);
  EXPECT_EQ(requests(), 0U);
  delete_rmb(*server, rmb);
  EXPECT_TRUE(server->group.local_rmbs().deleted(rmb));
}

TEST_F(RmbDeletion, AGroupThatIsOverAsksNobody) {
  const RmbRow rmb = told_rmb();
  server->group.terminate(wire::DeleteLinkReason::kOperator, true, "test");
  delete_rmb(*server, rmb);
  EXPECT_EQ(requests(), 0U);
  EXPECT_FALSE(server->group.local_rmbs().deleted(rmb));
}

}  // namespace
}  // namespace fairlead::smc
