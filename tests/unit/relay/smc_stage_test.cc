// A connection over SMC-R: its bytes, how it closes, and what ends it otherwise.
#include "relay/connection/smc_stage.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "smc_stage_fixture.h"
#include "wire/cdc.h"

namespace fairlead::relay {
namespace {

TEST_F(SmcStageTest, CarriesBytesBothWaysAndCountsThem) {
  start();
  app->feed("request");
  turn();
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
  app->feed("behind");
  turn();
  receive(" bytes");
  EXPECT_EQ(app->outgoing, "unpassed bytes");
  EXPECT_EQ(element_text(6), "behind");
  EXPECT_EQ(traffic().tx_bytes.get(), 15U);
}

TEST_F(SmcStageTest, CountsTurnsInWhichThePeerHasNoRoom) {
  start();
  app->feed(std::string(element->size() - 1, 'x'));
  turn();
  EXPECT_EQ(stats.buffer_full_peer.get(), 0U);
  app->feed("xy");
  turn();
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

TEST_F(SmcStageTest, ADialledPeerIsProbedAfterAWhile) {
  start();
  wait(kLastingFrom);
  EXPECT_EQ(network.probed, 1);
}

TEST_F(SmcStageTest, IsResetIfTheProcessDies) {
  start();
  EXPECT_TRUE(app->resets_if_lost);
  EXPECT_TRUE(net->resets_if_lost);
}

TEST_F(SmcStageTest, ALookFindsBytesOfWhichNoEventHasTold) {
  start();
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

class IdlePagesTest : public SmcStageTest {
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
    start();
    send("request");
    peer_consumes();
    rnic.device->pages = rdma::PageReturn::State::kReturning;
    wait(kIdlePagesAfter);
    ASSERT_EQ(returns().size(), 1U);
  }
  const std::vector<std::span<std::byte>>& returns() { return rnic.device->page_returns; }
};

TEST_F(IdlePagesTest, AreGivenBackOnceAfterEachUse) {
  start();
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
  start();
  for (int i = 0; i < 8; ++i) {
    send("request");
    peer_consumes();
    wait(kIdlePagesAfter / 2);
  }
  EXPECT_EQ(returns().size(), 0U);
}

TEST_F(IdlePagesTest, StayUntilThePeerHasReadThem) {
  start();
  send("request");
  wait(4 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 0U);
  peer_consumes();
  EXPECT_EQ(returns().size(), 1U);
}

TEST_F(IdlePagesTest, ThePeerHearsWhatWasConsumedSoThatItReturnsItsOwn) {
  start();
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
  start();
  send("request");
  wait(2 * kIdlePagesAfter);
  // That of the link's test is left.
  EXPECT_GT(timers.next_deadline(), network.now() + 2 * kIdlePagesAfter);
}

// The peer has said the end, and may give the element to another connection.
TEST_F(IdlePagesTest, StayBehindAReset) {
  start();
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
  start();
  send("request");
  end_both();
  EXPECT_TRUE(sent().state.closed);
  message.consumer = sent().producer;
  receive_state();
  wait(2 * kIdlePagesAfter);
  EXPECT_EQ(returns().size(), 0U);
}

TEST_F(IdlePagesTest, AreAskedForAgainWhereTheDeviceRefuses) {
  start();
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
  app->feed("behind");
  turn();
  for (int i = 0; i < 9; ++i) wait(kSettleWaitMax / 10);
  EXPECT_TRUE(group().protocol().usable());
  for (int i = 0; i < 3; ++i) wait(kSettleWaitMax / 10);
  EXPECT_FALSE(group().protocol().usable());
}

TEST_F(IdlePagesTest, AreAskedForAgainAfterATurnThatCalledThemOff) {
  start();
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
TEST_F(SmcStageTest, ALinkLostBehindTheEndHasTheLastMessageSaidAgain) {
  start();
  const smc::ElementId used = relay().buffers().element();
  message.state.done_writing = true;
  receive_state();
  end_application();
  receive_close();
  ASSERT_TRUE(session->close_order.waiting());
  const std::uint16_t said = sent().sequence;
  smc::Connection& connection = relay().connection();
  connection.handle_link_switched(connection.tx().element());
  net->feed_end();
  turn();
  settle();
  EXPECT_EQ(sent().sequence, said + 1);
  EXPECT_TRUE(sent().state.closed);
  ASSERT_EQ(end_why(), "");
  close();
  const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
  EXPECT_EQ(group().join(sizes, 0).value().element, used) << "another connection may have it";
}

TEST_F(SmcStageTest, EndsInOrderWhenBothSidesHaveClosed) {
  start();
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

TEST_F(SmcStageTest, TheAnswerToTheCloseIsNotAwaitedForever) {
  start();
  end_both();
  wait(kCloseAnswerWait - Duration(1));
  EXPECT_TRUE(stays());
  wait(Duration(1));
  EXPECT_EQ(end_why(), "");
}

// As long as bytes are in the peer's element, its application may take any time to read them.
TEST_F(SmcStageTest, AReaderOfTheLastBytesMayTakeItsTime) {
  start();
  app->feed("last words");
  end_both();
  wait(2 * kCloseAnswerWait);
  EXPECT_TRUE(stays());
  receive_close();
  EXPECT_EQ(end_why(), "");
}

// A reset.

// The RST of the CLC connection must not be faster than the last bytes in the ring.
TEST_F(SmcStageTest, AResetOfTheApplicationIsToldAndItsAnswerAwaited) {
  start();
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

TEST_F(SmcStageTest, TheAnswerToAnAbortIsNotAwaitedForever) {
  start();
  reset_application();
  wait(kClcConnectionKept - Duration(1));
  EXPECT_NE(session->net, nullptr);
  wait(Duration(1));
  EXPECT_EQ(session->net, nullptr);
  wait(kCloseAnswerWait - kClcConnectionKept - Duration(1));
  EXPECT_TRUE(stays());
  wait(Duration(1));
  EXPECT_EQ(end_why(), "");
}

TEST_F(SmcStageTest, TheLinkMayBeLostWhileTheAnswerIsAwaited) {
  start();
  reset_application();
  group().handle_link_failure(0, "the cable was cut", network.now());
  settle();
  EXPECT_EQ(end_why(), "");
}

TEST_F(SmcStageTest, NoLookIsTakenWithoutTheApplication) {
  start();
  reset_application();
  EXPECT_FALSE(host.stage.try_read());
}

TEST_F(SmcStageTest, AnAbortOfThePeerResetsTheApplicationBehindItsBytes) {
  start();
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

TEST_F(SmcStageTest, APeerThatBreaksTheProtocolIsAborted) {
  start();
  message.producer.offset = relay().connection().rx().size_bytes() + 1;
  receive_state();
  EXPECT_EQ(stats.cdc_rejected.get(), 1U);
  EXPECT_TRUE(sent().state.aborted);
  expect_application_reset();
}

TEST_F(SmcStageTest, ALostGroupResetsTheStreams) {
  start();
  receive("heard");
  group().handle_link_failure(0, "the cable was cut", network.now());
  settle();
  expect_streams_reset();
  EXPECT_EQ(end_why(), "");
}

// The CLC connection.

TEST_F(SmcStageTest, AResetOfTheClcConnectionAbortsTheConnection) {
  start();
  net->feed_reset();
  turn();
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
TEST_F(SmcStageTest, WhatThePeerAnnouncedBeforeItsResetIsDelivered) {
  start();
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
TEST_F(SmcStageTest, AResetBehindACloseOfBothSidesResetsNothing) {
  start();
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

class SilentEndTest : public SmcStageTest, public testing::WithParamInterface<SilentEnd> {
 protected:
  void happen() {
    GetParam().happen(*net);
    turn();
    EXPECT_TRUE(stays());
    answer_link_test();
  }
};

TEST_P(SilentEndTest, TestsTheLink) {
  start();
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
  start();
  message.state.done_writing = true;
  receive_state();
  happen();
  wait(kClcConnectionEndWait);
  EXPECT_FALSE(sent().state.aborted);
  EXPECT_TRUE(stays());
}

TEST_P(SilentEndTest, EndsTheConnectionWithALinkThatDoesNotAnswer) {
  start();
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

TEST_F(SmcStageTest, AnAbortFollowsWhatTheApplicationWasToldIsSent) {
  start();
  app->feed("sent");
  turn();
  EXPECT_TRUE(std::holds_alternative<Stay>(host.stage.handle(WorkerEnds{}, network.now())));
  EXPECT_TRUE(sent().state.aborted);
  EXPECT_EQ(sent().producer.offset, 4U);
}

TEST_F(SmcStageTest, AConnectionThatBothSidesHaveClosedIsNotAborted) {
  start();
  end_both();
  message.state.closed = true;
  deliver_state();
  EXPECT_TRUE(std::holds_alternative<End>(host.stage.handle(WorkerEnds{}, network.now())));
  EXPECT_FALSE(sent().state.aborted);
}

TEST_F(SmcStageTest, LeavesItsGroupAtTheEnd) {
  start();
  EXPECT_EQ(traffic().connections_active.get(), 1U);
  EXPECT_EQ(group().connections().count(), 1U);
  close();
  EXPECT_EQ(traffic().connections_active.get(), 0U);
  EXPECT_EQ(group().connections().count(), 0U);
}

// The peer may still write to it, unless both sides have closed.
TEST_F(SmcStageTest, AnElementIsUsedAgainOnlyBehindACloseOfBothSides) {
  start();
  const smc::ElementId used = relay().buffers().element();
  end_application();
  receive_close();
  ASSERT_EQ(end_why(), "");
  close();
  const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
  EXPECT_EQ(group().join(sizes, 0).value().element, used);
}

TEST_F(SmcStageTest, AnElementThatThePeerMayWriteToStaysTaken) {
  start();
  const smc::ElementId used = relay().buffers().element();
  close();
  const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
  EXPECT_NE(group().join(sizes, 0).value().element, used);
}

}  // namespace
}  // namespace fairlead::relay
