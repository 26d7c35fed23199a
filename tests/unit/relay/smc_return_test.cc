// The way from SMC-R back to frames.
#include "relay/connection/smc_return.h"

#include "relay/connection/frames_stage.h"
#include "smc_stage_fixture.h"
#include "wire/frame.h"

namespace fairlead::relay {
namespace {

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
};

class BegunReturnTest : public SmcReturnTest {
 protected:
  void SetUp() override { begin_return(); }
};

TEST_F(BegunReturnTest, EndsWithBothSidesInFrames) {
  EXPECT_EQ(net->outgoing, return_frame(7));
  peer_says(return_frame(8));
  EXPECT_EQ(net->outgoing, return_frame(7) + returned_frame());
  EXPECT_TRUE(stays());
  peer_says(returned_frame() + data_frame("behind"));
  ASSERT_TRUE(next<FramesStage>());
  EXPECT_EQ(traffic().connections_active.get(), 0U);
  follow();
  EXPECT_EQ(app->outgoing, "answer!!behind");
  app_says("again");
  EXPECT_EQ(net->outgoing, return_frame(7) + returned_frame() + data_frame("again"));
}

TEST_F(SmcReturnTest, IsBegunByThePeerToo) {
  start();
  peer_says(return_frame(0));
  EXPECT_EQ(net->outgoing, return_frame(0) + returned_frame());
  peer_says(returned_frame());
  EXPECT_TRUE(next<FramesStage>());
}

TEST_F(BegunReturnTest, WaitsForWhatIsUnderWayOverSmc) {
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
  app_says(std::string(fits + 5, 'x'));
  admission.start_parking();
  turn();
  const std::uint64_t sent = relay().connection().tx().bytes();
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

TEST_F(BegunReturnTest, IsNotAwaitedForever) {
  wait(kReturnWait - Duration(1));
  EXPECT_TRUE(stays());
  EXPECT_FALSE(sent().state.aborted);
  wait(Duration(1));
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
}

TEST_F(BegunReturnTest, APeerThatBreaksItsRulesIsReset) {
  peer_says(return_frame(7));  // it has sent eight
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
}

TEST_F(BegunReturnTest, AnotherFrameResets) {
  peer_says(data_frame("too early"));
  EXPECT_TRUE(sent().state.aborted);
  expect_streams_reset();
}

// The peer may be in frames already, and would not learn of an abort over SMC-R.
TEST_F(BegunReturnTest, AResetOfTheApplicationIsToldInFrames) {
  peer_says(return_frame(8));
  app->feed("last");
  app->feed_reset();
  turn();
  EXPECT_TRUE(stays());
  EXPECT_FALSE(sent().state.aborted);
  net->outgoing.clear();
  peer_says(returned_frame() + data_frame("unheard"));
  follow_to<FramesStage>();
  EXPECT_EQ(net->outgoing, data_frame("last"));
  EXPECT_EQ(end_why(), "reset");
}

// A process that is about to park has written in vain to the application, which has gone.
TEST_F(SmcReturnTest, WhatAnApplicationRefusesIsDropped) {
  start();
  admission.start_parking();
  turn();
  app->feed("last");
  app->feed_reset();
  receive("answer!!");
  EXPECT_TRUE(stays());
  EXPECT_FALSE(sent().state.aborted);
  net->outgoing.clear();
  peer_says(return_frame(8) + returned_frame());
  follow_to<FramesStage>();
  EXPECT_EQ(app->outgoing, "");
  EXPECT_EQ(net->outgoing, returned_frame() + data_frame("last"));
  EXPECT_EQ(end_why(), "reset");
}

// Both have said that they have all: the group is not needed any more.
TEST_F(BegunReturnTest, TheGroupMayBeLostAtTheEnd) {
  peer_says(return_frame(8));
  lose_group();
  EXPECT_TRUE(stays());
  peer_says(returned_frame());
  EXPECT_TRUE(next<FramesStage>());
}

TEST_F(BegunReturnTest, AGroupLostBeforeResets) {
  lose_group();
  expect_streams_reset();
}

TEST_F(BegunReturnTest, AGroupLostAtTheEndAndNoAnswerResets) {
  peer_says(return_frame(8));
  lose_group();
  wait(kReturnWait);
  expect_streams_reset();
  EXPECT_EQ(end_why(), "");
}

TEST_F(BegunReturnTest, AGroupLostAtTheEndAndABrokenRuleResets) {
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
    EXPECT_TRUE(relay().connection().finished());
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
  end_peer();
  EXPECT_EQ(end_why(), "");
  EXPECT_FALSE(app->reset);
  EXPECT_EQ(stats.connections_reset.get(), 0U);
}

TEST_F(ClosedReturnTest, ASilentPeerIsNotAwaitedForever) {
  close_both_while_returning();
  wait_all_of(kReturnWait);
  EXPECT_EQ(end_why(), "");
  EXPECT_FALSE(app->reset);
}

}  // namespace
}  // namespace fairlead::relay
