// A connection in frames: when it is handed over, in line for that, and how it ends otherwise.
#include "relay/connection/frames_stage.h"

#include <cerrno>

#include "clc_text.h"
#include "relay/connection/inbound_handshake.h"
#include "relay/connection/outbound_handshake.h"
#include "stage_fixture.h"

namespace fairlead::relay {
namespace {

using R = FallbackReason;

const std::string kPreface("\xfa\x1e\xad\x01", 4);

std::string data_frame(const std::string& bytes) {
  return std::string("\x01\0\0", 3) + static_cast<char>(bytes.size()) + bytes;
}
std::string end_frame() { return std::string("\x03\0\0\0", 4); }
std::string hand_over_frame(char position) {
  return std::string("\x04\0\0\x08\0\0\0\0\0\0\0", 11) + position;
}

class FramesStageTest : public StageTest {
 public:
  struct Obstacle : Case {
    R reason;
    void (*set)(FramesStageTest&);
  };
  static std::vector<Obstacle> obstacles() {
    using Test = FramesStageTest;
    return {
        {"Draining", R::kDraining, [](Test& t) { t.admission.start_drain(); }},
        {"NoDevice", R::kNoRdmaDevice, [](Test& t) { t.devices.remove("rnic0"); }},
        {"PortDown", R::kPortDown,
         [](Test& t) { t.rnic.device->port_list[0].state = rdma::PortState::kDown; }},
        {"HandshakesInHand", R::kConnectionLimit, [](Test& t) { t.spend_handshakes(); }},
        {"EncryptedPath", R::kIpsec, [](Test& t) { t.rnic.reachability->encrypted = true; }},
    };
  }

 protected:
  FramesStageTest() {
    config.smc.defer_bytes = 10;
    config.smc.defer_turns = 3;
    config.smc.defer_time = std::chrono::seconds(2);
  }
  void start_client() {
    open_both(Direction::kOutbound);
    begin<FramesStage>(smc::Deferral::Windows::kNone, network.time);
  }
  void start_server(const std::string& unread = kPreface) {
    open_both(Direction::kInbound);
    begin_server(smc::Deferral::Windows::kNone, unread);
  }
  void begin_server(smc::Deferral::Windows windows, const std::string& unread) {
    auto stage = make_stage<FramesStage>(*session, windows, network.time);
    const auto view = std::as_bytes(std::span(unread));
    std::vector<std::byte> bytes(view.begin(), view.end());
    stage->take(bytes);
    begin_stage(std::move(stage));
  }
  void earn() {
    app->feed("ten bytes!");
    turn();
  }
  void expect_handed_over() {
    EXPECT_EQ(net->outgoing, kPreface + data_frame("ten bytes!") + hand_over_frame(10));
    net->outgoing.clear();
  }
  // … as the peer does.
  void expect_proposed() {
    expect_handed_over();
    net->feed(hand_over_frame(0));
    follow();
    EXPECT_TRUE(take_written<wire::Proposal>(*net).v2);
  }
  // The peer hands over too, and the handshake says why there is none.
  void expect_declined(R reason) {
    ASSERT_TRUE(next<OutboundHandshake>());
    expect_handed_over();
    net->feed(hand_over_frame(0));
    follow();
    EXPECT_EQ(take_written<wire::Decline>(*net).reason, fallback_info(reason).wire_code);
    EXPECT_EQ(this->reason(), reason);
  }
  TrafficStats& traffic(Direction direction) { return stats.traffic[direction][Transport::kShort]; }

  Placed rnic = add_device();
};

TEST_F(FramesStageTest, CarriesBytesInFramesAndCountsThem) {
  start_client();
  app->feed("hello");
  net->feed(data_frame("bye"));
  turn();
  EXPECT_EQ(net->outgoing, kPreface + data_frame("hello"));
  EXPECT_EQ(app->outgoing, "bye");
  EXPECT_EQ(traffic(Direction::kOutbound).tx_bytes.get(), 5U);
  EXPECT_EQ(traffic(Direction::kOutbound).rx_bytes.get(), 3U);
  EXPECT_FALSE(session->report.setting_up());
  EXPECT_TRUE(stays());
}

// What earns SMC-R. The bytes are those of both directions.
TEST_F(FramesStageTest, BytesEarnAHandshake) {
  start_client();
  app->feed("hello");
  net->feed(data_frame("four"));
  turn();
  EXPECT_TRUE(stays());
  peer_says(data_frame("!"));
  EXPECT_TRUE(next<OutboundHandshake>());
  EXPECT_TRUE(session->report.setting_up());
}

TEST_F(FramesStageTest, TurnsEarnAHandshake) {
  start_client();
  for (unsigned i = 0; i < config.smc.defer_turns; ++i) {
    EXPECT_TRUE(stays());
    net->feed(data_frame("?"));
    turn();
    app->feed("!");
    turn();
  }
  EXPECT_TRUE(next<OutboundHandshake>());
}

TEST_F(FramesStageTest, TheFirstByteAfterAWhileEarnsAHandshake) {
  start_client();
  wait(config.smc.defer_time);
  EXPECT_TRUE(stays());
  app_says("!");
  EXPECT_TRUE(next<OutboundHandshake>());
}

TEST_F(FramesStageTest, AServerDoesNotHandOverByItself) {
  start_server();
  app_says("more than ten bytes");
  EXPECT_TRUE(stays());
}

class FramesObstacleTest : public FramesStageTest,
                           public testing::WithParamInterface<FramesStageTest::Obstacle> {};

TEST_P(FramesObstacleTest, IsToldBehindTheHandOver) {
  GetParam().set(*this);
  start_client();
  earn();
  expect_declined(GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Each, FramesObstacleTest, testing::ValuesIn(FramesStageTest::obstacles()),
                         CaseName());

// The connection goes on meanwhile.
TEST_F(FramesStageTest, GoesOnInLine) {
  take_the_turn();
  start_client();
  earn();
  EXPECT_TRUE(stays());
  EXPECT_TRUE(session->report.setting_up());
  app->feed("more");
  net->feed(data_frame("answer"));
  turn();
  EXPECT_EQ(app->outgoing, "answer");
  EXPECT_EQ(net->outgoing, kPreface + data_frame("ten bytes!") + data_frame("more"));
  EXPECT_TRUE(stays());
  give_turn();
  EXPECT_TRUE(next<OutboundHandshake>());
}

TEST_F(FramesStageTest, AGrantedTurnHasNoDeadlineAndLeadsToAProposal) {
  take_the_turn();
  start_client();
  earn();
  host.call(PermitGranted{});
  wait(config.smc.handshake_timeout);
  expect_proposed();
}

TEST_F(FramesStageTest, DeclinesWhenItsTurnDoesNotCome) {
  take_the_turn();
  start_client();
  earn();
  wait_all_of(config.smc.handshake_timeout);
  expect_declined(R::kConnectionLimit);
  EXPECT_STREQ(tcp_result()->cause.detail, kNoPermit.detail);
  EXPECT_FALSE(admission.limiter().give_back(destination));
}

TEST_F(FramesStageTest, LeavesTheLineWhenItsApplicationEnds) {
  take_the_turn();
  start_client();
  earn();
  end_application();
  EXPECT_TRUE(stays());
  EXPECT_FALSE(session->report.setting_up());
  EXPECT_FALSE(admission.limiter().give_back(destination));
  wait(config.smc.handshake_timeout);
  EXPECT_TRUE(stays());
}

TEST_F(FramesStageTest, IsNotHandedOverOnceTheApplicationHasEnded) {
  start_client();
  app->feed("more than ten bytes");
  app->feed_end();
  turn();
  EXPECT_TRUE(stays());
  peer_says(data_frame("answer") + end_frame());
  EXPECT_EQ(app->outgoing, "answer");
  EXPECT_EQ(end_why(), "");
}

TEST_F(FramesStageTest, AServerAnswersTheHandOver) {
  start_server(kPreface + data_frame("hi"));
  EXPECT_EQ(app->outgoing, "hi") << "it came with the preface";
  peer_says(hand_over_frame(2));
  ASSERT_TRUE(next<InboundHandshake>());
  EXPECT_TRUE(session->report.setting_up());
  EXPECT_STREQ(session->report.phase(), "clc_proposal");
  EXPECT_EQ(net->outgoing, hand_over_frame(0));
}

TEST_F(FramesStageTest, AServerKeepsWhatFollowsTheHandOver) {
  start_server(kPreface + hand_over_frame(0));
  peer_says(encoded(wire::Decline{.reason = fallback_info(R::kPeerNoSmc).wire_code}));
  follow();
  EXPECT_EQ(reason(), R::kPeerNoSmc);
}

struct BrokenFrames : Case {
  Direction direction;
  std::string sent;
};

class BrokenFramesTest : public FramesStageTest,
                         public testing::WithParamInterface<BrokenFrames> {};

TEST_P(BrokenFramesTest, EndTheSession) {
  GetParam().direction == Direction::kOutbound ? start_client() : start_server();
  peer_says(data_frame("ok") + GetParam().sent);
  EXPECT_EQ(app->outgoing, "ok");
  EXPECT_EQ(end_why(), "the peer broke the rules of frames");
}

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenFramesTest,
    testing::Values(
        BrokenFrames{"UnknownType", Direction::kOutbound, std::string("\x09\0\0\0", 4)},
        BrokenFrames{"DataBehindTheEnd", Direction::kOutbound, end_frame() + data_frame("x")},
        BrokenFrames{"HandOverBeforeTheClients", Direction::kOutbound, hand_over_frame(2)},
        BrokenFrames{"HandOverAtAnotherPosition", Direction::kInbound, hand_over_frame(3)},
        BrokenFrames{"HandOverBehindTheEnd", Direction::kInbound,
                     end_frame() + hand_over_frame(2)}),
    CaseName());

struct LostPeer : Case {
  int error;
  const char* why;
  unsigned timeouts;
};

class FramesLosePeerTest : public FramesStageTest, public testing::WithParamInterface<LostPeer> {};

TEST_P(FramesLosePeerTest, BehindWhatItSaid) {
  start_client();
  net->feed(data_frame("last words"));
  net->feed_reset();
  net->error = GetParam().error;
  turn();
  EXPECT_EQ(app->outgoing, "last words");
  EXPECT_EQ(end_why(), GetParam().why);
  EXPECT_EQ(stats.peer_timeouts.get(), GetParam().timeouts);
}

INSTANTIATE_TEST_SUITE_P(Each, FramesLosePeerTest,
                         testing::Values(LostPeer{"Reset", ECONNRESET, "reset", 0},
                                         LostPeer{"Vanished", ETIMEDOUT,
                                                  "the peer's host no longer answers", 1},
                                         LostPeer{"HostUnreachable", EHOSTUNREACH,
                                                  "the peer's host no longer answers", 1}),
                         CaseName());

TEST_F(FramesStageTest, ADialledPeerIsProbedAfterAWhile) {
  start_client();
  wait(kLastingFrom);
  EXPECT_EQ(network.probed, 1);
}

// An application that stalls keeps its memory until the other side has ended.
TEST_F(FramesStageTest, PaysForNoMoreThanWaitsOnceThePeerHasEnded) {
  open_both(Direction::kOutbound);
  pay();
  const std::size_t before = session->memory.charged_bytes();
  ASSERT_TRUE(session->memory.begin_frames(smc::kFramedBytesMax));
  begin<FramesStage>(smc::Deferral::Windows::kNone, network.time);
  peer_says(data_frame("answer"));
  EXPECT_EQ(session->memory.charged_bytes(), before + smc::kFramedBytesMax);
  peer_says(end_frame());
  EXPECT_EQ(session->memory.charged_bytes(), before);
}

std::string window_frame(std::uint32_t max) {
  std::string frame("\x07\0\0\x08\0\0\0\0", 8);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(max >> shift);
  return frame;
}

class FramesWithWindowsTest : public FramesStageTest {
 protected:
  FramesWithWindowsTest() {
    config.smc.defer_bytes = smc::kFramedBytesMax - 1;
    config.smc.defer_turns = 1000;
  }
  static inline const std::string kPreface{"\xfa\x1e\xad\x02", 4};
  void start(Direction direction) {
    open_both(direction);
    pay();
    ASSERT_TRUE(session->memory.begin_frames(smc::kFirstWindowBytes));
    charged_before = session->memory.charged_bytes();
    if (direction == Direction::kOutbound)
      begin<FramesStage>(smc::Deferral::Windows::kKnown, network.time);
    else
      begin_server(smc::Deferral::Windows::kKnown, kPreface);
  }
  void leave_little() { spend_memory(budget.limit_bytes() / kFramesLeave + 40 * 1024); }
  void start_client_where_memory_is_short() {
    leave_little();
    start(Direction::kOutbound);
  }
  // As the peer, in frames of 100 bytes.
  void feed(std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += 100)
      net->feed(data_frame(std::string(std::min<std::size_t>(100, bytes - done), 'x')));
  }
  std::size_t charged_before = 0;
};

TEST_F(FramesWithWindowsTest, WhereMemoryIsPlentyAClientOpensAllOfTheWindowWithItsPreface) {
  start(Direction::kOutbound);
  app_says("request");
  EXPECT_EQ(net->outgoing, kPreface + window_frame(smc::kFramedBytesMax) + data_frame("request"));
  EXPECT_EQ(session->memory.charged_bytes(),
            charged_before + smc::kFramedBytesMax - smc::kFirstWindowBytes);
}

TEST_F(FramesWithWindowsTest, AServerOpensTheWindowOnceHalfOfItIsUsed) {
  start(Direction::kInbound);
  feed(smc::kFirstWindowBytes / 2 - 1);
  turn();
  EXPECT_EQ(net->outgoing, "");
  feed(1);
  turn();
  EXPECT_EQ(net->outgoing, window_frame(smc::kFramedBytesMax));
}

TEST_F(FramesWithWindowsTest, WhereMemoryIsShortTheWindowFollowsTheApplication) {
  leave_little();
  start(Direction::kInbound);
  app->allow(1000);
  feed(smc::kFirstWindowBytes);
  turn();
  EXPECT_EQ(net->outgoing, window_frame(smc::kFirstWindowBytes + 1000));
  EXPECT_EQ(session->memory.charged_bytes(), charged_before);
  net->outgoing.clear();
  app->allow(smc::kFirstWindowBytes);
  turn();
  EXPECT_EQ(net->outgoing, window_frame(2 * smc::kFirstWindowBytes));
  EXPECT_EQ(session->memory.charged_bytes(), charged_before);
}

TEST_F(FramesWithWindowsTest, AClientHandsOverWhenAWindowBlocksForLong) {
  start_client_where_memory_is_short();
  app->allow(0);
  feed(smc::kFirstWindowBytes);
  turn();
  EXPECT_TRUE(stays());
  EXPECT_EQ(net->outgoing, kPreface);
  wait(std::chrono::milliseconds(99));
  EXPECT_TRUE(stays());
  wait(std::chrono::milliseconds(1));
  EXPECT_TRUE(next<OutboundHandshake>());
}

TEST_F(FramesWithWindowsTest, AWindowThatIsOpenedInTimeDelaysNothing) {
  start_client_where_memory_is_short();
  app_says(std::string(smc::kFirstWindowBytes + 5, 'r'));
  net->outgoing.clear();
  wait(std::chrono::milliseconds(50));
  peer_says(window_frame(smc::kFirstWindowBytes + 5));
  EXPECT_EQ(net->outgoing, data_frame("rrrrr"));
  wait(std::chrono::milliseconds(50));
  EXPECT_TRUE(stays());
}

// The bytes that use up the window go in the same turn in which more of it comes.
TEST_F(FramesWithWindowsTest, AWindowThatIsOpenedInTheTurnThatUsesItUpIsUsed) {
  start_client_where_memory_is_short();
  app->feed(std::string(smc::kFirstWindowBytes + 5, 'r'));
  net->feed(window_frame(smc::kFirstWindowBytes + 5));
  turn();
  EXPECT_TRUE(net->outgoing.ends_with(data_frame("rrrrr")));
}

// The handshake behind a hand-over has failed.
TEST_F(FramesStageTest, AfterAFailedHandshakeThePeersWordsGoToTheApplication) {
  start_client();
  earn();
  net->feed(data_frame("last words"));
  app->allow(4);
  net->feed_end();
  follow();
  follow_to<FramesStage>();
  EXPECT_EQ(app->outgoing, "last");
  EXPECT_TRUE(stays());
  app->allow(100);
  turn();
  EXPECT_EQ(app->outgoing, "last words");
  EXPECT_EQ(end_why(), "reset");
}

// Another process goes on with it.
TEST_F(FramesStageTest, AConnectionThatWasParkedIsCountedUntilItEnds) {
  for (const bool peer_over : {false, true}) {
    open_both(Direction::kOutbound);
    ParkedFrames parked;
    parked.peer_over = peer_over;
    const std::string words = "last words";
    const auto bytes = std::as_bytes(std::span(words));
    parked.to_app.bytes.assign(bytes.begin(), bytes.end());
    app->allow(4);
    begin<FramesStage>(std::move(parked), network.now());
    EXPECT_EQ(app->outgoing, "last");
    EXPECT_TRUE(stays());
    EXPECT_EQ(traffic(Direction::kOutbound).connections_active.get(), 1U) << peer_over;
    app->allow(100);
    turn();
    EXPECT_EQ(app->outgoing, "last words");
    EXPECT_EQ(end_why().has_value(), peer_over) << "nothing else comes";
    session->report.carried_no_longer(Transport::kShort);
  }
}

TEST_F(FramesStageTest, AReaderThatStallsDoesNotKeepAPeerThatIsOver) {
  start_client();
  earn();
  net->feed(data_frame("last words"));
  app->allow(4);
  net->feed_end();
  follow();
  follow();
  EXPECT_TRUE(stays());
  wait(kResetDelay);
  EXPECT_EQ(end_why(), "reset");
}

}  // namespace
}  // namespace fairlead::relay
