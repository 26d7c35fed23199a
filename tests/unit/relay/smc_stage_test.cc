// A connection over SMC-R: its bytes, how it closes, and what ends it otherwise.
#include "relay/smc_stage.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "handshake_fixture.h"
#include "relay/frames_stage.h"
#include "relay/smc_return.h"
#include "wire/cdc.h"
#include "wire/frame.h"

namespace fairlead::relay {
namespace {

class SmcStageTest : public HandshakeTest {
 protected:
  SmcStageTest() : HandshakeTest(smc::GroupRole::kClient) {
    rnic.device->able.remote_memory_addressable = true;
  }

  // A place in a group with the peer, whose memory can be written.
  UseSmc join() {
    open_both(Direction::kOutbound);
    Group& made = make_group();
    element = &grant_memory();
    confirm(made);
    other.membership.leave(network.now(), false);
    UseSmc from;
    const RingSizes sizes{devices.buffer_sizes(*rnic.device), std::nullopt};
    EXPECT_TRUE(from.membership.join(made, 0, sizes, false, host, network.now()));
    from.membership.set_named_link(0);
    EXPECT_TRUE(from.membership.set_peer(answer_of_peer(wire::ClcType::kAccept, false)));
    message.token = from.membership.relay().connection.local_token();
    session->report.carried(Transport::kSmcr);
    return from;
  }
  void start() { begin<SmcStage>(join()); }

  SmcRelay& relay() { return *host.stage->smc(); }
  // What the peer sends: bytes in our element, and then the message about them.
  void receive(const std::string& bytes) {
    std::memcpy(relay().buffers.local.data() + message.producer.offset, bytes.data(), bytes.size());
    message.producer.offset += static_cast<std::uint32_t>(bytes.size());
    receive_state();
  }
  void receive_state() {
    deliver_state();
    settle();
  }
  // The session's turn does not come.
  void deliver_state() {
    ++message.sequence;
    std::array<std::byte, wire::kCdcBytes> encoded_message;
    wire::encode(message, encoded_message);
    group().handle_message(0, encoded_message, network.now());
  }
  // The peer says that it has taken all, and closes.
  void receive_close() {
    message.consumer = sent().producer;
    message.state.done_writing = message.state.closed = true;
    receive_state();
  }
  // Our last message about the connection.
  wire::CdcMessage sent() {
    wire::CdcMessage last;
    for (const FakeQueuePair::Posted& posted : queue_pair().posted)
      if (wire::is_cdc(posted.message)) last = wire::decode_cdc(posted.message).value();
    return last;
  }
  std::string element_text(std::size_t count) const {
    return {reinterpret_cast<const char*>(element->data()), count};
  }
  void end_application() {
    app->feed_end();
    turn();
  }
  // Both applications have ended, and the peer has not confirmed that.
  void end_both() {
    end_application();
    message.state.done_writing = true;
    receive_state();
    EXPECT_TRUE(app->shut_down);
    EXPECT_TRUE(stays());
  }
  void reset_application() {
    app->feed_reset();
    turn();
    app = net = nullptr;
  }
  // The link has been asked whether it lives, and answers.
  void answer_link_test() {
    const std::optional<wire::TestLink> request = sent_llc<wire::TestLink>();
    ASSERT_TRUE(request) << "the link was not tested";
    wire::TestLink answer = *request;
    answer.kind = wire::LlcKind::kResponse;
    send_llc(answer);
  }
  void expect_streams_reset() {
    EXPECT_EQ(session->app, nullptr);
    EXPECT_EQ(session->net, nullptr);
    EXPECT_TRUE(app_reset);
    EXPECT_TRUE(net_reset);
    EXPECT_EQ(stats.connections_reset.get(), 1U);
  }
  TrafficStats& traffic() { return stats.traffic_of(Direction::kOutbound, Transport::kSmcr); }

  std::vector<std::byte>* element = nullptr;  // of the peer
  wire::CdcMessage message;                   // of the peer, the last
};

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
  wait(kProbesBegin);
  EXPECT_EQ(network.probed, 1);
}

TEST_F(SmcStageTest, ALookFindsBytesOfWhichNoEventHasTold) {
  start();
  EXPECT_FALSE(host.stage->try_read());
  EXPECT_FALSE(host.ready);
  app->feed("early");
  app->set_not_readable();
  EXPECT_TRUE(host.stage->try_read());
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
  EXPECT_FALSE(host.stage->try_read());
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
  host.handle_group_lost(network.now());
  settle();
  expect_streams_reset();
}

// The end in order.

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

TEST_F(SmcStageTest, AResetOfTheApplicationIsToldAndItsAnswerAwaited) {
  start();
  reset_application();
  expect_streams_reset();
  EXPECT_TRUE(sent().state.aborted);
  EXPECT_TRUE(stays());
  message.state.aborted = true;
  receive_state();
  EXPECT_EQ(end_why(), "");
}

TEST_F(SmcStageTest, TheAnswerToAnAbortIsNotAwaitedForever) {
  start();
  reset_application();
  wait(kCloseAnswerWait - Duration(1));
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
  EXPECT_FALSE(host.stage->try_read());
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
  message.producer.offset = relay().connection.rx().size_bytes() + 1;
  receive_state();
  EXPECT_EQ(stats.cdc_rejected.get(), 1U);
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
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
  expect_streams_reset();
}

TEST_F(SmcStageTest, AResetBeforeTheConnectionWasSmcCountsToo) {
  UseSmc from = join();
  from.clc_connection_reset = true;
  begin<SmcStage>(std::move(from));
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
}

// It may lie in the queue of the device when the reset comes.
TEST_F(SmcStageTest, WhatThePeerAnnouncedBeforeItsResetIsDelivered) {
  start();
  app->unsent_bytes = 1;  // the stream stays until the socket has passed them on
  net->feed_reset();
  host.call([&](TimePoint now) { return host.stage->run(now); });
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

// The way back to frames.

class SmcReturnTest : public SmcStageTest {
 protected:
  SmcReturnTest() { rnic.device->able.own_kind_only = true; }

  static std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::string return_frame(std::uint64_t sent) {
    return text(wire::encode_position(wire::FrameType::kReturn, sent));
  }
  static std::string returned_frame() {
    return text(wire::encode_frame_header({wire::FrameType::kReturned, 0}));
  }
  static std::string data_frame(const std::string& bytes) {
    const auto count = static_cast<std::uint32_t>(bytes.size());
    return text(wire::encode_frame_header({wire::FrameType::kData, count})) + bytes;
  }
  // This process is replaced, after seven bytes to the peer and eight from it.
  void begin_return() {
    start();
    app->feed("request");
    turn();
    receive("answer!!");
    admission.start_parking();
    turn();
  }
  void peer_says(const std::string& frames) {
    net->feed(frames);
    turn();
  }
  void lose_group() {
    group().handle_link_failure(0, "the cable was cut", network.now());
    settle();
  }
};

TEST_F(SmcReturnTest, EndsWithBothSidesInFrames) {
  begin_return();
  EXPECT_EQ(net->outgoing, return_frame(7));
  peer_says(return_frame(8));
  EXPECT_EQ(net->outgoing, return_frame(7) + returned_frame());
  EXPECT_TRUE(stays());
  peer_says(returned_frame() + data_frame("behind"));
  ASSERT_TRUE(next<FramesStage>());
  EXPECT_EQ(traffic().connections_active.get(), 0U);
  follow();
  EXPECT_EQ(app->outgoing, "answer!!behind");
  app->feed("again");
  turn();
  EXPECT_EQ(net->outgoing, return_frame(7) + returned_frame() + data_frame("again"));
}

TEST_F(SmcReturnTest, IsBegunByThePeerToo) {
  start();
  peer_says(return_frame(0));
  EXPECT_EQ(net->outgoing, return_frame(0) + returned_frame());
  peer_says(returned_frame());
  EXPECT_TRUE(next<FramesStage>());
}

TEST_F(SmcReturnTest, WaitsForWhatIsUnderWayOverSmc) {
  begin_return();
  peer_says(return_frame(12));
  EXPECT_EQ(net->outgoing, return_frame(7));
  receive(" bis");
  EXPECT_EQ(net->outgoing, return_frame(7) + returned_frame());
  EXPECT_EQ(app->outgoing, "answer!! bis");
}

// What does not fit into the peer's element follows in frames.
TEST_F(SmcReturnTest, WhatThePeerHasNoRoomForFollowsInFrames) {
  start();
  const std::size_t fits = element->size() - 1;
  app->feed(std::string(fits + 5, 'x'));
  turn();
  admission.start_parking();
  turn();
  const std::uint64_t sent = relay().connection.tx().bytes();
  EXPECT_EQ(net->outgoing, return_frame(sent));
  EXPECT_LE(sent, element->size());
  net->outgoing.clear();
  peer_says(return_frame(0) + returned_frame());
  follow();
  EXPECT_EQ(net->outgoing, returned_frame() + data_frame(std::string(fits + 5 - sent, 'x')));
}

TEST_F(SmcReturnTest, IsNotBegunWhereFramesAreDenied) {
  config.fallback = config::FallbackPolicy::kDeny;
  begin_return();
  EXPECT_EQ(net->outgoing, "");
  peer_says(return_frame(8));
  EXPECT_EQ(net->outgoing, "") << "nor answered";
  EXPECT_TRUE(stays());
}

TEST_F(SmcReturnTest, IsNotBegunWithAPeerOfAnotherKind) {
  rnic.device->able.own_kind_only = false;
  begin_return();
  EXPECT_EQ(net->outgoing, "");
}

TEST_F(SmcReturnTest, IsNotAwaitedForever) {
  begin_return();
  wait(kReturnWait - Duration(1));
  EXPECT_TRUE(stays());
  EXPECT_FALSE(sent().state.aborted);
  wait(Duration(1));
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
}

TEST_F(SmcReturnTest, APeerThatBreaksItsRulesIsReset) {
  begin_return();
  peer_says(return_frame(7));  // it has sent eight
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
}

TEST_F(SmcReturnTest, AnotherFrameResets) {
  begin_return();
  peer_says(data_frame("too early"));
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
}

// Both have said that they have all: the group is not needed any more.
TEST_F(SmcReturnTest, TheGroupMayBeLostAtTheEnd) {
  begin_return();
  peer_says(return_frame(8));
  lose_group();
  EXPECT_TRUE(stays());
  peer_says(returned_frame());
  EXPECT_TRUE(next<FramesStage>());
}

TEST_F(SmcReturnTest, AGroupLostBeforeResets) {
  begin_return();
  lose_group();
  expect_streams_reset();
}

TEST_F(SmcReturnTest, AGroupLostAtTheEndAndNoAnswerResets) {
  begin_return();
  peer_says(return_frame(8));
  lose_group();
  wait(kReturnWait);
  expect_streams_reset();
  EXPECT_EQ(end_why(), "");
}

TEST_F(SmcReturnTest, AGroupLostAtTheEndAndABrokenRuleResets) {
  begin_return();
  peer_says(return_frame(8));
  lose_group();
  peer_says(return_frame(8));
  expect_streams_reset();
  EXPECT_EQ(end_why(), "");
}

// Both sides close while one of them may be in frames already: there it awaits the ends once more.
class ClosedReturnTest : public SmcReturnTest {
 protected:
  void close_both_while_returning() {
    start();
    app->feed("request");
    turn();
    receive("answer!!");
    end_application();
    message.consumer = sent().producer;
    message.state.done_writing = true;
    receive_state();
    ASSERT_TRUE(sent().state.closed);
    admission.start_parking();
    turn();
    peer_says(return_frame(8));
    ASSERT_EQ(net->outgoing, return_frame(7) + returned_frame());
    receive_close();
    EXPECT_TRUE(relay().connection.finished());
    EXPECT_TRUE(stays());
  }
};

TEST_F(ClosedReturnTest, EndsInFrames) {
  close_both_while_returning();
  peer_says(returned_frame());
  EXPECT_TRUE(next<FramesStage>());
}

TEST_F(ClosedReturnTest, EndsInOrderWithAPeerThatEndsOverSmc) {
  close_both_while_returning();
  net->feed_end();
  turn();
  EXPECT_EQ(end_why(), "");
  EXPECT_FALSE(app->reset);
  EXPECT_EQ(stats.connections_reset.get(), 0U);
}

TEST_F(ClosedReturnTest, ASilentPeerIsNotAwaitedForever) {
  close_both_while_returning();
  wait(kReturnWait - Duration(1));
  EXPECT_TRUE(stays());
  wait(Duration(1));
  EXPECT_EQ(end_why(), "");
  EXPECT_FALSE(app->reset);
}

// The worker ends.

TEST_F(SmcStageTest, AnAbortFollowsWhatTheApplicationWasToldIsSent) {
  start();
  app->feed("sent");
  turn();
  EXPECT_TRUE(host.stage->abort(network.now()));
  EXPECT_TRUE(sent().state.aborted);
  EXPECT_EQ(sent().producer.offset, 4U);
}

TEST_F(SmcStageTest, AConnectionThatBothSidesHaveClosedIsNotAborted) {
  start();
  end_both();
  message.state.closed = true;
  deliver_state();
  EXPECT_FALSE(host.stage->abort(network.now()));
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
  const smc::ElementId used = relay().buffers.element;
  end_application();
  receive_close();
  ASSERT_EQ(end_why(), "");
  close();
  const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
  EXPECT_EQ(group().join(sizes, 0).value().element, used);
}

TEST_F(SmcStageTest, AnElementThatThePeerMayWriteToStaysTaken) {
  start();
  const smc::ElementId used = relay().buffers.element;
  close();
  const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
  EXPECT_NE(group().join(sizes, 0).value().element, used);
}

}  // namespace
}  // namespace fairlead::relay
