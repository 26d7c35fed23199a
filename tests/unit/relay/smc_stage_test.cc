// A connection over SMC-R: its bytes, how it closes, and what ends it otherwise.
#include "relay/connection/smc_stage.h"

#include <cerrno>

#include "smc_stage_fixture.h"
#include "wire/cdc.h"

namespace fairlead::relay {
namespace {

class RunningSmcStageTest : public SmcStageTest {
 protected:
  void SetUp() override { start(); }
};

TEST_F(RunningSmcStageTest, CarriesBytesBothWaysAndCountsThem) {
  app_says("request");
  EXPECT_EQ(element_text(7), "request");
  EXPECT_EQ(sent().producer.offset, 7U);
  receive("answer!!");
  EXPECT_EQ(app->outgoing, "answer!!");
  EXPECT_EQ(traffic().tx_bytes.get(), 7U);
  EXPECT_EQ(traffic().rx_bytes.get(), 8U);
  EXPECT_EQ(net->outgoing, "");
}

TEST_F(SmcStageTest, GoesOnWhereFramesHaveEnded) {
  UseSmc from = join();
  from.framed = std::make_unique<FramedRelay>(smc::Deferral::Role::kClient, smc::Deferral::Limits{},
                                              *app, *net, tcp, network.now());
  app->feed("in frames");
  app->allow(5);
  net->feed(std::string("\x01\0\0\x08unpassed", 12));
  from.framed->pump(network.now());
  begin<SmcStage>(std::move(from));
  app->allow(100);
  app_says("behind");
  receive(" bytes");
  EXPECT_EQ(app->outgoing, "unpassed bytes");
  EXPECT_EQ(element_text(6), "behind");
  EXPECT_EQ(traffic().tx_bytes.get(), 15U);
}

TEST_F(RunningSmcStageTest, CountsTurnsInWhichThePeerHasNoRoom) {
  app_says(std::string(element->size() - 1, 'x'));
  EXPECT_EQ(stats.buffer_full_peer.get(), 0U);
  app_says("xy");
  EXPECT_GT(stats.buffer_full_peer.get(), 0U);
  EXPECT_EQ(app->incoming.size(), 1U);
  message.consumer.offset = 100;
  receive_state();
  EXPECT_EQ(app->incoming.size(), 0U);
}

TEST_F(SmcStageTest, PaysForNoSocketToTheNetwork) {
  UseSmc from = join();
  pay();
  const std::size_t before = session->memory.charged_bytes();
  begin<SmcStage>(std::move(from));
  EXPECT_LT(session->memory.charged_bytes(), before);
}

TEST_F(RunningSmcStageTest, ADialledPeerIsProbedAfterAWhile) {
  wait(kLastingFrom);
  EXPECT_EQ(network.probed, 1);
}

TEST_F(RunningSmcStageTest, IsResetIfTheProcessDies) {
  EXPECT_TRUE(app->resets_if_lost);
  EXPECT_TRUE(net->resets_if_lost);
}

TEST_F(RunningSmcStageTest, ALookFindsBytesOfWhichNoEventHasTold) {
  EXPECT_FALSE(host.stage.try_read());
  EXPECT_FALSE(host.ready);
  app->feed("early");
  app->set_not_readable();
  EXPECT_TRUE(host.stage.try_read());
  EXPECT_TRUE(host.ready);
  settle();
  EXPECT_EQ(element_text(5), "early");
}

// The pages of an idle connection.

class IdlePagesTest : public RunningSmcStageTest {
 protected:
  IdlePagesTest() { rnic.device->able.returns_pages = true; }

  void send(const std::string& bytes) {
    app->feed(bytes);
    turn();
  }
  void peer_consumes() {
    message.consumer = sent().producer;
    receive_state();
  }
  // Until a return of pages has begun that lasts until `pages` says otherwise.
  void begin_return() {
    send("request");
    peer_consumes();
    rnic.device->pages = rdma::PageReturn::State::kReturning;
    wait(kIdlePagesAfter);
    ASSERT_EQ(returns().size(), 1U);
  }
  const std::vector<std::span<std::byte>>& returns() { return rnic.device->page_returns; }
};

TEST_F(IdlePagesTest, AreGivenBackOnceAfterEachUse) {
  wait(2 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 0U) << "nothing was written";
  send("request");
  peer_consumes();
  wait(kIdlePagesAfter - std::chrono::milliseconds(1));
  EXPECT_EQ(returns().size(), 0U);
  wait(std::chrono::milliseconds(1));
  ASSERT_EQ(returns().size(), 1U);
  EXPECT_EQ(returns()[0].data(), element->data());
  EXPECT_EQ(returns()[0].size(), element->size());
  wait(3 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 1U);
  send("another");
  peer_consumes();
  EXPECT_EQ(element_text(14), "requestanother");
  wait(kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 2U);
}

TEST_F(IdlePagesTest, StayWhileTheConnectionIsUsed) {
  for (int i = 0; i < 8; ++i) {
    send("request");
    peer_consumes();
    wait(kIdlePagesAfter / 2);
  }
  EXPECT_EQ(returns().size(), 0U);
}

TEST_F(IdlePagesTest, StayUntilThePeerHasReadThem) {
  send("request");
  wait(4 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 0U);
  peer_consumes();
  EXPECT_EQ(returns().size(), 1U);
}

TEST_F(IdlePagesTest, ThePeerHearsWhatWasConsumedSoThatItReturnsItsOwn) {
  receive("answer");
  EXPECT_EQ(sent().consumer.offset, 0U);
  wait(kIdlePagesAfter);
  EXPECT_EQ(sent().consumer.offset, 6U);
  const std::size_t posted = queue_pair().posted.size();
  wait(3 * kIdlePagesAfter);
  EXPECT_EQ(queue_pair().posted.size(), posted);
  EXPECT_EQ(returns().size(), 0U) << "nothing was sent";
}

TEST_F(IdlePagesTest, AnIdleConnectionHasNoTimerLeft) {
  send("request");
  wait(2 * kIdlePagesAfter);
  // That of the link's test is left.
  EXPECT_GT(timers.next_deadline(), network.now() + 2 * kIdlePagesAfter);
}

// The peer has said the end, and may give the element to another connection.
TEST_F(IdlePagesTest, StayBehindAReset) {
  app->allow(0);
  send("request");
  receive("that the application does not take");
  message.state.aborted = true;
  message.consumer = sent().producer;
  receive_state();
  wait(2 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 0U);
}

TEST_F(IdlePagesTest, StayBehindAClose) {
  send("request");
  end_both();
  EXPECT_TRUE(sent().state.closed);
  message.consumer = sent().producer;
  receive_state();
  wait(2 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 0U);
}

TEST_F(IdlePagesTest, AreAskedForAgainWhereTheDeviceRefuses) {
  rnic.device->refuses_returns = true;
  send("request");
  peer_consumes();
  wait(kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 1U);
  wait(kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 2U);
  wait(kIdlePagesAfter);
  wait(10 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), kPageReturnTriesMax);
}

TEST_F(IdlePagesTest, APeerThatBlocksThemLosesTheGroup) {
  begin_return();
  app_says("behind");
  for (int i = 0; i < 9; ++i) wait(kSettleWaitMax / 10);
  EXPECT_TRUE(group().protocol().usable());
  for (int i = 0; i < 3; ++i) wait(kSettleWaitMax / 10);
  EXPECT_FALSE(group().protocol().usable());
}

TEST_F(IdlePagesTest, AreAskedForAgainAfterATurnThatCalledThemOff) {
  send("request");
  peer_consumes();
  rnic.device->pages = rdma::PageReturn::State::kKept;
  wait(kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 1U);
  receive_state();  // a message without news
  wait(kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 2U);
}

TEST_F(IdlePagesTest, AreNotWrittenWhileTheyAreGivenBack) {
  begin_return();
  app->feed("behind");
  EXPECT_FALSE(host.stage.try_read());
  turn();
  wait(std::chrono::seconds(1));
  EXPECT_EQ(element_text(13), std::string("request") + std::string(6, '\0'));
  rnic.device->pages = rdma::PageReturn::State::kReturned;
  wait(kSettleInterval);
  EXPECT_EQ(element_text(13), "requestbehind");
}

TEST_F(IdlePagesTest, AreNotLeftToThePeerWhileTheyAreGivenBack) {
  begin_return();
  end_application();
  wait(std::chrono::seconds(1));
  EXPECT_FALSE(sent().state.done_writing);
  rnic.device->pages = rdma::PageReturn::State::kReturned;
  wait(kSettleInterval);
  EXPECT_TRUE(sent().state.done_writing);
}

TEST_F(IdlePagesTest, KeepNoConnectionOfALostGroup) {
  begin_return();
  host.handle(GroupLost{}, network.now());
  settle();
  expect_streams_reset();
}

// The end in order.

// The last message may have died with the link that it was sent over.
TEST_F(RunningSmcStageTest, ALinkLostBehindTheEndHasTheLastMessageSaidAgain) {
  const smc::ElementId used = relay().buffers().element();
  message.state.done_writing = true;
  receive_state();
  end_application();
  receive_close();
  ASSERT_TRUE(session->close_order.waiting());
  const std::uint16_t said = sent().sequence;
  smc::Connection& connection = relay().connection();
  connection.handle_link_switched(connection.tx().element());
  end_peer();
  settle();
  EXPECT_EQ(sent().sequence, said + 1);
  EXPECT_TRUE(sent().state.closed);
  ASSERT_EQ(end_why(), "");
  close();
  const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
  EXPECT_EQ(group().join(sizes, 0).value().element, used) << "another connection may have it";
}

TEST_F(RunningSmcStageTest, EndsInOrderWhenBothSidesHaveClosed) {
  app->feed("bye");
  end_application();
  EXPECT_TRUE(sent().state.done_writing);
  EXPECT_TRUE(stays());
  receive_close();
  EXPECT_TRUE(app->shut_down);
  EXPECT_TRUE(sent().state.closed);
  EXPECT_EQ(end_why(), "");
  EXPECT_FALSE(app->reset);
}

TEST_F(RunningSmcStageTest, TheAnswerToTheCloseIsNotAwaitedForever) {
  end_both();
  wait_all_of(kCloseAnswerWait);
  EXPECT_EQ(end_why(), "");
}

// As long as bytes are in the peer's element, its application may take any time to read them.
TEST_F(RunningSmcStageTest, AReaderOfTheLastBytesMayTakeItsTime) {
  app->feed("last words");
  end_both();
  wait(2 * kCloseAnswerWait);
  EXPECT_TRUE(stays());
  receive_close();
  EXPECT_EQ(end_why(), "");
}

// A reset.

// The RST of the CLC connection must not be faster than the last bytes in the ring.
TEST_F(RunningSmcStageTest, AResetOfTheApplicationIsToldAndItsAnswerAwaited) {
  reset_application();
  expect_application_reset();
  EXPECT_NE(session->net, nullptr);
  EXPECT_TRUE(sent().state.aborted);
  EXPECT_TRUE(stays());
  message.state.aborted = true;
  receive_state();
  EXPECT_EQ(session->net, nullptr);
  EXPECT_EQ(end_why(), "");
}

TEST_F(RunningSmcStageTest, TheAnswerToAnAbortIsNotAwaitedForever) {
  reset_application();
  wait(kClcConnectionKept - Duration(1));
  EXPECT_NE(session->net, nullptr);
  wait(Duration(1));
  EXPECT_EQ(session->net, nullptr);
  wait_all_of(kCloseAnswerWait - kClcConnectionKept);
  EXPECT_EQ(end_why(), "");
}

TEST_F(RunningSmcStageTest, TheLinkMayBeLostWhileTheAnswerIsAwaited) {
  reset_application();
  lose_group();
  EXPECT_EQ(end_why(), "");
}

TEST_F(RunningSmcStageTest, NoLookIsTakenWithoutTheApplication) {
  reset_application();
  EXPECT_FALSE(host.stage.try_read());
}

TEST_F(RunningSmcStageTest, AnAbortOfThePeerResetsTheApplicationBehindItsBytes) {
  app->allow(4);
  message.state.aborted = true;
  receive("last words");
  EXPECT_EQ(app->outgoing, "last");
  EXPECT_TRUE(stays());
  app->allow(100);
  turn();
  expect_streams_reset();
  EXPECT_EQ(end_why(), "");
}

TEST_F(RunningSmcStageTest, APeerThatBreaksTheProtocolIsAborted) {
  message.producer.offset = relay().connection().rx().size_bytes() + 1;
  receive_state();
  EXPECT_EQ(stats.cdc_rejected.get(), 1U);
  EXPECT_TRUE(sent().state.aborted);
  expect_application_reset();
}

TEST_F(RunningSmcStageTest, ALostGroupResetsTheStreams) {
  receive("heard");
  lose_group();
  expect_streams_reset();
  EXPECT_EQ(end_why(), "");
}

// The CLC connection.

TEST_F(RunningSmcStageTest, AResetOfTheClcConnectionAbortsTheConnection) {
  reset_peer();
  EXPECT_TRUE(sent().state.aborted);
  expect_application_reset();
}

TEST_F(SmcStageTest, AResetBeforeTheConnectionWasSmcCountsToo) {
  UseSmc from = join();
  from.clc_connection_reset = true;
  begin<SmcStage>(std::move(from));
  EXPECT_TRUE(sent().state.aborted);
  expect_application_reset();
}

// It may lie in the queue of the device when the reset comes.
TEST_F(RunningSmcStageTest, WhatThePeerAnnouncedBeforeItsResetIsDelivered) {
  app->unsent_bytes = 1;  // the stream stays until the socket has passed them on
  net->feed_reset();
  host.call(Ready{});
  groups.flush(network.now());
  EXPECT_FALSE(sent().state.aborted);
  receive("last words");
  EXPECT_EQ(app->outgoing, "last words");
  EXPECT_TRUE(sent().state.aborted);
}

// Its last message, which closes in order, and the reset of its CLC connection come in one turn.
TEST_F(RunningSmcStageTest, AResetBehindACloseOfBothSidesResetsNothing) {
  end_application();
  net->feed_reset();
  receive_close();
  EXPECT_EQ(stats.connections_reset.get(), 0U);
  EXPECT_FALSE(sent().state.aborted);
}

struct SilentEnd : Case {
  void (*happen)(FakeStream& net);
  bool aborts;  // if the peer says nothing more
};

class SilentEndTest : public RunningSmcStageTest, public testing::WithParamInterface<SilentEnd> {
 protected:
  void happen() {
    GetParam().happen(*net);
    turn();
    EXPECT_TRUE(stays());
    answer_link_test();
  }
};

TEST_P(SilentEndTest, TestsTheLink) {
  happen();
  wait(kClcConnectionEndWait - Duration(1));
  EXPECT_FALSE(sent().state.aborted);
  EXPECT_TRUE(stays());
  wait(Duration(1));
  EXPECT_EQ(sent().state.aborted, GetParam().aborts);
  EXPECT_EQ(stats.connections_reset.get(), GetParam().aborts ? 1U : 0U);
}

// Linux ends the TCP connection at a half-close, which it has announced.
TEST_P(SilentEndTest, IsNoEndOfAHalfClosedConnection) {
  message.state.done_writing = true;
  receive_state();
  happen();
  wait(kClcConnectionEndWait);
  EXPECT_FALSE(sent().state.aborted);
  EXPECT_TRUE(stays());
}

TEST_P(SilentEndTest, EndsTheConnectionWithALinkThatDoesNotAnswer) {
  GetParam().happen(*net);
  turn();
  ASSERT_TRUE(sent_llc<wire::TestLink>());
  wait(smc::kLlcAnswerWait);
  expect_streams_reset();
  EXPECT_EQ(end_why(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Each, SilentEndTest,
    testing::Values(SilentEnd{"OfTheClcConnection", [](FakeStream& net) { net.feed_end(); }, true},
                    // The network has forgotten the silent connection, not the peer.
                    SilentEnd{"OfItsHost",
                              [](FakeStream& net) {
                                net.feed_reset();
                                net.error = ETIMEDOUT;
                              },
                              false}),
    CaseName());

// The worker ends.

TEST_F(RunningSmcStageTest, AnAbortFollowsWhatTheApplicationWasToldIsSent) {
  app_says("sent");
  EXPECT_TRUE(std::holds_alternative<Stay>(host.stage.handle(WorkerEnds{}, network.now())));
  EXPECT_TRUE(sent().state.aborted);
  EXPECT_EQ(sent().producer.offset, 4U);
}

TEST_F(RunningSmcStageTest, AConnectionThatBothSidesHaveClosedIsNotAborted) {
  end_both();
  message.state.closed = true;
  deliver_state();
  EXPECT_TRUE(std::holds_alternative<End>(host.stage.handle(WorkerEnds{}, network.now())));
  EXPECT_FALSE(sent().state.aborted);
}

TEST_F(RunningSmcStageTest, LeavesItsGroupAtTheEnd) {
  EXPECT_EQ(traffic().connections_active.get(), 1U);
  EXPECT_EQ(group().connections().count(), 1U);
  close();
  EXPECT_EQ(traffic().connections_active.get(), 0U);
  EXPECT_EQ(group().connections().count(), 0U);
}

// Both sides have not closed.
TEST_F(RunningSmcStageTest, AnElementThatThePeerMayWriteToStaysTaken) {
  const smc::ElementId used = relay().buffers().element();
  close();
  const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
  EXPECT_NE(group().join(sizes, 0).value().element, used);
}

}  // namespace
}  // namespace fairlead::relay
