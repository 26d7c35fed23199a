// Whether SMC-R is tried, what the dial says and asks, and what follows when it stands or fails.
#include "relay/connection/dial_stage.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/linux/handle.h"
#include "clc_text.h"
#include "relay/connection/frames_stage.h"
#include "relay/connection/inbound_handshake.h"
#include "relay/connection/outbound_handshake.h"
#include "stage_fixture.h"

namespace fairlead::relay {
namespace {

using bpf::Announced;
using R = FallbackReason;

// A descriptor that is no socket, with bytes to read.
class FullPipe {
 public:
  FullPipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    out_ = FileDescriptor(ends[0]);
    in_ = FileDescriptor(ends[1]);
    const std::vector<char> bytes(std::size_t{32} << 10);
    EXPECT_EQ(::write(in_.get(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
  }
  int get() const { return out_.get(); }

 private:
  FileDescriptor out_, in_;
};

class DialTest : public StageTest {
 protected:
  void dial_out() {
    open(Direction::kOutbound);
    begin<OutboundDial>();
  }
  void dial_in() {
    open(Direction::kInbound);
    begin<InboundDial>();
  }
  // The dialled stream stands.
  void answer(int error = 0) {
    FakeStream& dialled = *network.dialled;
    dialled.error = error;
    dialled.connect();
    (session->outbound() ? net : app) = &dialled;
    turn();
  }
  // The session has the least of memory, and nothing is left.
  void spend_all_memory() {
    spend_memory(budget.limit_bytes() / 4);
    pay();
    spend_memory();
  }
  void defer() { config.smc.defer_bytes = 4096; }
  void exclude(const char* block) { config.smc.exclude = {{Cidr::parse(block).value(), {}}}; }
  void assume(const char* block) { config.smc.assume = {Cidr::parse(block).value()}; }
  // The reason on the wire of the Decline that follows.
  void expect_declined_next(R reason) {
    ASSERT_TRUE(next<OutboundHandshake>());
    follow();
    EXPECT_EQ(take_written<wire::Decline>(*net).reason, fallback_info(reason).wire_code);
    EXPECT_EQ(this->reason(), reason);
  }
};

// To the peer.
class OutboundDialTest : public DialTest {
 public:
  struct Obstacle : Case {
    R reason;
    void (*set)(OutboundDialTest&);
  };
  static std::vector<Obstacle> obstacles() {
    using Test = OutboundDialTest;
    return {
        {"Disabled", R::kDisabled, [](Test& t) { t.config.smc.enabled = false; }},
        {"Excluded", R::kPolicyExcluded, [](Test& t) { t.exclude("192.0.2.0/24"); }},
        {"ExcludedAndAssumed", R::kPolicyExcluded,
         [](Test& t) {
           t.assume("192.0.2.0/24");
           t.exclude("192.0.2.20/32");
         }},
        {"Draining", R::kDraining, [](Test& t) { t.admission.start_drain(); }},
        {"PortDown", R::kPortDown,
         [](Test& t) { t.rnic.device->port_list[0].state = rdma::PortState::kDown; }},
        {"NoGid", R::kNoUsableGid, [](Test& t) { t.rnic.device->port_list[0].gid = {}; }},
        {"OtherLinkLayer", R::kRnicUnsupported,
         [](Test& t) { t.rnic.device->port_list[0].fault = rdma::PortFault::kLinkLayer; }},
        {"OtherNetwork", R::kNoPnet, [](Test& t) { t.rnic.reachability->ours = false; }},
        {"NoDevice", R::kNoRdmaDevice, [](Test& t) { t.devices.remove("rnic0"); }},
        {"DeviceNotGiven", R::kRnicNotGiven,
         [](Test& t) {
           t.devices.remove("rnic0");
           t.devices.set_no_device_reason(R::kRnicNotGiven);
         }},
        {"NoOptionProgram", R::kNoOptionProgram, [](Test& t) { t.network.has_option = false; }},
        {"HandshakesInHand", R::kConnectionLimit, [](Test& t) { t.spend_handshakes(); }},
    };
  }

 protected:
  Placed rnic = add_device();
};

class RedirectedDialTest : public OutboundDialTest {
 protected:
  void dial_redirected() {
    open(Direction::kOutbound);
    session->arrival = Arrival::kRedirected;
    begin<OutboundDial>();
  }
};

TEST_F(RedirectedDialTest, TheApplicationIsAnsweredWhenThePeerHasAnswered) {
  dial_redirected();
  EXPECT_EQ(network.applications_answered, 0U);
  answer();
  EXPECT_EQ(network.applications_answered, 1U);
  EXPECT_EQ(told_answering, std::vector{destination});
}

TEST_F(RedirectedDialTest, NothingFollowsBeforeTheApplicationIsConnected) {
  network.application_waits = true;
  network.answered = Announced::kNothing;
  dial_redirected();
  answer();
  turn();
  EXPECT_EQ(tcp_result(), nullptr);
  network.application_waits = false;
  turn();
  EXPECT_NE(tcp_result(), nullptr);
  EXPECT_EQ(network.applications_answered, 1U);
}

TEST_F(RedirectedDialTest, AnApplicationThatIsNeverConnectedEndsTheSession) {
  network.application_waits = true;
  dial_redirected();
  answer();
  wait(config.limits.dial_timeout);
  EXPECT_FALSE(network.application_refused_with);
  EXPECT_TRUE(end_why());
}

TEST_F(RedirectedDialTest, TheApplicationIsRefusedAsTheDialWas) {
  destinations.answered(destination, network.now());
  dial_redirected();
  answer(EHOSTUNREACH);
  EXPECT_EQ(network.application_refused_with, EHOSTUNREACH);
  EXPECT_EQ(network.applications_answered, 0U);
  EXPECT_EQ(told_forgotten, std::vector{destination});
}

TEST_F(RedirectedDialTest, ADialThatFailsAtOnceRefusesToo) {
  network.dial_error = ENETUNREACH;
  dial_redirected();
  EXPECT_EQ(network.application_refused_with, ENETUNREACH);
}

TEST_F(RedirectedDialTest, ADialThatNobodyAnswersIsSilent) {
  dial_redirected();
  wait(config.limits.dial_timeout);
  EXPECT_EQ(network.application_refused_with, ETIMEDOUT);
}

TEST_F(RedirectedDialTest, AnApplicationThatCameToAListenerIsNotAsked) {
  dial_out();
  answer();
  EXPECT_EQ(network.applications_answered, 0U);
  EXPECT_TRUE(told_answering.empty());
}

class OutboundObstacleTest : public OutboundDialTest,
                             public testing::WithParamInterface<OutboundDialTest::Obstacle> {
 protected:
  void dial() {
    GetParam().set(*this);
    dial_out();
    EXPECT_EQ(network.announced, Announced::kNothing);
  }
};

TEST_P(OutboundObstacleTest, IsFoundBeforeTheDial) {
  dial();
  network.answered = Announced::kNothing;
  answer();
  EXPECT_EQ(reason(), GetParam().reason);
  EXPECT_EQ(tcp_result()->cause.side, Side::kLocal);
  EXPECT_EQ(net->outgoing, "");
}

// A program of the node side writes the option without being asked, and the peer awaits CLC.
TEST_P(OutboundObstacleTest, IsToldToAPeerThatAwaitsClc) {
  dial();
  network.answered = Announced::kSmc;
  answer();
  expect_declined_next(GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Each, OutboundObstacleTest,
                         testing::ValuesIn(OutboundDialTest::obstacles()), CaseName());

TEST_F(OutboundDialTest, AsksForSmc) {
  dial_out();
  EXPECT_EQ(network.dialled_to, destination);
  EXPECT_EQ(network.announced, Announced::kSmc);
  EXPECT_FALSE(network.redirected_client);
  EXPECT_TRUE(stays());
}

TEST_F(OutboundDialTest, AsksForFramesWhereTheyAreConfiguredAndTcpIsAllowed) {
  const auto announced = [this] {
    close();
    dial_out();
    return network.announced;
  };
  defer();
  EXPECT_EQ(announced(), Announced::kFrames);
  config.smc.require = {{std::nullopt, {81}}};
  EXPECT_EQ(announced(), Announced::kFrames) << "that rule is for another port";
  config.smc.require = {{std::nullopt, {destination.port()}}};
  EXPECT_EQ(announced(), Announced::kSmc);
  config.smc.require.clear();
  config.fallback = config::FallbackPolicy::kDeny;
  EXPECT_EQ(announced(), Announced::kSmc);
}

TEST_F(OutboundDialTest, ShowsThePeerARedirectedClient) {
  open(Direction::kOutbound);
  session->arrival = Arrival::kRedirected;
  begin<OutboundDial>();
  EXPECT_EQ(network.redirected_client, client);
}

TEST_F(OutboundDialTest, AnAnswerWithoutTheOptionLeadsToTcp) {
  network.answered = Announced::kNothing;
  dial_out();
  answer();
  EXPECT_EQ(reason(), R::kPeerNotInjected);
}

// It is no stranger.
TEST_F(OutboundDialTest, APeerThatNoLongerAnnouncesIsNamedAsSuch) {
  dial_out();
  answer();
  ASSERT_TRUE(next<OutboundHandshake>());
  EXPECT_TRUE(announcing.known(destination));
  EXPECT_FALSE(announcing.known(client));
  network.answered = Announced::kNothing;
  dial_out();
  answer();
  EXPECT_EQ(reason(), R::kOptionWithheld);
}

// The configuration says it, not the option.
TEST_F(OutboundDialTest, AnAssumedPeerIsNotAsked) {
  assume("192.0.2.0/24");
  network.has_option = false;
  network.answered = Announced::kNothing;
  dial_out();
  EXPECT_EQ(network.announced, Announced::kNothing);
  answer();
  EXPECT_TRUE(next<OutboundHandshake>());
}

// Nothing can be earned there.
TEST_F(OutboundDialTest, AnEncryptedPathIsDeclinedAlsoWhereFramesAreAnswered) {
  rnic.reachability->encrypted = true;
  network.answered = Announced::kFrames;
  dial_out();
  answer();
  expect_declined_next(R::kIpsec);
}

TEST_F(OutboundDialTest, FramesBeginWhereAnotherDeviceMayUseTheEncryptedPath) {
  rnic.reachability->encrypted = true;
  add_device(false);
  network.answered = Announced::kFrames;
  dial_out();
  answer();
  EXPECT_TRUE(next<FramesStage>());
}

TEST_F(OutboundDialTest, FramesAreDeclinedWithoutMemoryForThem) {
  network.answered = Announced::kFrames;
  open(Direction::kOutbound);
  pay();
  spend_memory();
  begin<OutboundDial>();
  answer();
  expect_declined_next(R::kMemory);
  EXPECT_STREQ(tcp_result()->cause.detail, kBudgetSpent);
}

TEST_F(OutboundDialTest, StandsInLineBeforeItDials) {
  take_the_turn();
  dial_out();
  EXPECT_TRUE(stays());
  turn();
  EXPECT_EQ(network.dials, 0U);
  EXPECT_STREQ(session->report.phase(), "turn");
  give_turn();
  EXPECT_EQ(network.announced, Announced::kSmc);
  answer();
  EXPECT_TRUE(next<OutboundHandshake>());
}

TEST_F(OutboundDialTest, IsTcpWhenItsTurnDoesNotCome) {
  take_the_turn();
  dial_out();
  wait(config.smc.handshake_timeout - Duration(1));
  EXPECT_EQ(network.dials, 0U);
  wait(Duration(1));
  EXPECT_EQ(network.announced, Announced::kNothing);
  network.answered = Announced::kNothing;
  answer();
  EXPECT_EQ(reason(), R::kConnectionLimit);
  EXPECT_STREQ(tcp_result()->cause.detail, kNoPermit.detail);
  EXPECT_FALSE(admission.limiter().give_back(destination));  // nobody is left in line
}

TEST_F(OutboundDialTest, AGrantedTurnHasNoDeadline) {
  take_the_turn();
  dial_out();
  host.call(PermitGranted{});
  wait(config.smc.handshake_timeout);
  const TimePoint dialled = network.time;
  EXPECT_EQ(timers.next_deadline(), dialled + config.limits.dial_timeout);
}

TEST_F(OutboundDialTest, LeavesTheLineWhenTheSessionEnds) {
  take_the_turn();
  dial_out();
  close();
  EXPECT_FALSE(admission.limiter().give_back(destination));
}

TEST_F(OutboundDialTest, GivesItsTurnToTheNext) {
  dial_out();
  ASSERT_FALSE(admission.limiter().take(destination, kNumber + 2));
  close();
  EXPECT_EQ(worker.granted, std::vector<std::uint64_t>{kNumber + 2});
}

// As after a handshake that has spoilt the stream.
TEST_F(OutboundDialTest, DialsAgainWithoutTheOptionForAGivenCause) {
  network.answered = Announced::kNothing;
  open(Direction::kOutbound);
  begin<OutboundDial>(HandshakePermit(services, kNumber),
                      FallbackCause{.reason = R::kMalformedClc, .detail = "CLC eyecatcher"});
  EXPECT_EQ(network.announced, Announced::kNothing);
  answer();
  EXPECT_EQ(reason(), R::kMalformedClc);
  EXPECT_STREQ(tcp_result()->cause.detail, "CLC eyecatcher");
}

// To the application.
class InboundDialTest : public DialTest {
 public:
  struct PlainSyn : Case {
    R reason;
    void (*set)(InboundDialTest&);
  };
  static std::vector<PlainSyn> plain_syns() {
    using Test = InboundDialTest;
    return {
        {"OfAStranger", R::kPeerNotInjected, [](Test&) {}},
        {"WhereSmcIsDisabled", R::kDisabled,
         [](Test& t) {
           t.config.smc.enabled = false;
           t.assume("192.0.2.0/24");
         }},
        {"OfAnExcludedPeer", R::kPolicyExcluded,
         [](Test& t) {
           t.assume("192.0.2.0/24");
           t.exclude("192.0.2.10/32");
         }},
        {"WithoutOptionProgram", R::kNoOptionProgram,
         [](Test& t) { t.network.has_option = false; }},
    };
  }
};

class PlainSynTest : public InboundDialTest,
                     public testing::WithParamInterface<InboundDialTest::PlainSyn> {};

TEST_P(PlainSynTest, LeadsToTcpBehindTheDial) {
  network.requested = Announced::kNothing;
  GetParam().set(*this);
  dial_in();
  EXPECT_EQ(network.dialled_to, destination);
  EXPECT_EQ(network.application_client, client);
  EXPECT_EQ(stats.client_address[ClientAddress::kShown].get(), 1U);
  EXPECT_TRUE(stays());
  answer();
  EXPECT_EQ(reason(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Each, PlainSynTest, testing::ValuesIn(InboundDialTest::plain_syns()),
                         CaseName());

// It is answered before the application is dialled, whatever the configuration says.
TEST_F(InboundDialTest, ASynWithTheOptionOrOfAnAssumedPeerLeadsToAHandshake) {
  for (const Announced announced : {Announced::kSmc, Announced::kFrames, Announced::kNothing}) {
    config.smc.enabled = announced != Announced::kSmc;
    if (announced == Announced::kNothing) assume("192.0.2.0/24");
    network.requested = announced;
    dial_in();
    EXPECT_TRUE(next<InboundHandshake>());
    close();
  }
  EXPECT_EQ(network.dials, 0U);
}

// A client that sends them all the same is no SMC peer, and is denied as such.
TEST_F(InboundDialTest, FramesAreNotTakenWhereSmcIsRequired) {
  config.smc.require = {{std::nullopt, {destination.port()}}};
  network.requested = Announced::kFrames;
  dial_in();
  follow_to<InboundHandshake>();
  peer_says(std::string("\xfa\x1e\xad\x01\x01\0\0\x02hi", 10));
  follow_to<InboundDial>();
  answer();
  EXPECT_EQ(reason(), R::kOptionStripped);
}

TEST_F(InboundDialTest, AnApplicationThatConnectsAtOnceNeedsNoEvent) {
  network.requested = Announced::kNothing;
  network.connect_at_once = true;
  dial_in();
  EXPECT_EQ(reason(), R::kPeerNotInjected);
}

TEST_F(InboundDialTest, KeepsWhatAHandshakeHasDecided) {
  open(Direction::kInbound);
  UseTcp tcp_for_now{.cause = {Side::kPeer, R::kPeerNoSmc, 7, "said"}};
  tcp_for_now.unread = {std::byte{'x'}};
  begin<InboundDial>(HandshakePermit(services, kNumber), std::move(tcp_for_now));
  EXPECT_EQ(network.dials, 1U);
  answer();
  EXPECT_EQ(reason(), R::kPeerNoSmc);
  EXPECT_EQ(tcp_result()->cause.peer_code, 7U);
  EXPECT_EQ(tcp_result()->unread.size(), 1U);
}

// A client that has begun with frames.
class FramesDialTest : public DialTest {
 protected:
  void dial_with(const std::string& frames) {
    open(Direction::kInbound);
    const std::string bytes = std::string("\xfa\x1e\xad\x01", 4) + frames;
    const auto view = std::as_bytes(std::span(bytes));
    begin<InboundDial>(std::vector<std::byte>(view.begin(), view.end()));
    app = network.dialled;
  }
  static std::string hi() { return std::string("\x01\0\0\x02hi", 6); }
};

TEST_F(FramesDialTest, TheFirstBytesProveThatTheApplicationIsThere) {
  dial_with(hi());
  EXPECT_EQ(app->outgoing, "hi");
  EXPECT_TRUE(next<FramesStage>());
  EXPECT_FALSE(timers.next_deadline());
}

TEST_F(FramesDialTest, TheFirstBytesWaitForAnApplicationThatIsFartherAway) {
  network.room_when_dialled = 0;
  dial_with(hi());
  EXPECT_TRUE(stays());
  EXPECT_EQ(timers.next_deadline(), network.time + config.limits.dial_timeout);
  app->allow(100);
  answer();
  follow_to<FramesStage>();
  EXPECT_EQ(app->outgoing, "hi");
}

TEST_F(FramesDialTest, WithoutBytesAnEventTells) {
  dial_with("");
  EXPECT_TRUE(stays());
  answer();
  EXPECT_TRUE(next<FramesStage>());
}

TEST_F(FramesDialTest, AnApplicationThatRefusesTheFirstBytesIsNotThere) {
  network.write_error_when_dialled = ECONNREFUSED;
  dial_with(hi());
  EXPECT_EQ(end_why(), "the destination cannot be reached");
}

TEST_F(FramesDialTest, AnApplicationThatDoesNotAnswerIsNotThere) {
  network.room_when_dialled = 0;
  dial_with(hi());
  wait(config.limits.dial_timeout);
  EXPECT_EQ(end_why(), "the destination cannot be reached");
}

// A client that resets while its bytes wait is still shown to the server.
TEST_F(FramesDialTest, AResetMeanwhileDoesNotEndTheDial) {
  network.room_when_dialled = 0;
  dial_with(hi());
  reset_peer();
  EXPECT_TRUE(stays());
}

// A handshake whose Proposal waits for the application.
class WaitingHandshakeTest : public DialTest {
 protected:
  WaitingHandshakeTest() {
    open(Direction::kInbound);
    begin<InboundDial>(
        make_stage<InboundHandshake>(*session, InboundHandshake::First::kProposal, false));
  }
};

TEST_F(WaitingHandshakeTest, IsVoidWhenThePeerResets) {
  reset_peer();
  EXPECT_EQ(end_why(), "reset while dialling");
}

// Its end is no reset: what it has sent is still for the application.
TEST_F(WaitingHandshakeTest, GoesOnWhenThePeerOnlyEnds) {
  end_peer();
  EXPECT_TRUE(stays());
  answer();
  EXPECT_TRUE(next<InboundHandshake>());
}

// What a client said before its reset is still for the server.
TEST_F(InboundDialTest, AResetWhileDiallingIsForTheApplication) {
  network.requested = Announced::kNothing;
  dial_in();
  reset_peer();
  EXPECT_TRUE(stays());
  answer();
  EXPECT_EQ(reason(), R::kPeerNotInjected);
}

struct FailedDial : Case {
  Direction direction;
  int error;
  bool at_once;
  const char* why;
  unsigned refused_descriptors;
};

class FailedDialTest : public DialTest, public testing::WithParamInterface<FailedDial> {};

TEST_P(FailedDialTest, EndsTheSession) {
  add_device();
  network.requested = Announced::kNothing;
  if (GetParam().at_once) network.dial_error = GetParam().error;
  GetParam().direction == Direction::kOutbound ? dial_out() : dial_in();
  if (!GetParam().at_once) {
    EXPECT_TRUE(stays());
    answer(GetParam().error);
  }
  EXPECT_EQ(end_why(), GetParam().why);
  EXPECT_EQ(stats.refused_descriptors.get(), GetParam().refused_descriptors);
  EXPECT_EQ(stats.refused[RefusedFor::kLimit].get(), GetParam().refused_descriptors);
}

constexpr const char* kUnreachable = "the destination cannot be reached";
constexpr const char* kNoDescriptors = "descriptors are used up";

INSTANTIATE_TEST_SUITE_P(
    Each, FailedDialTest,
    testing::Values(
        FailedDial{"OutboundRefused", Direction::kOutbound, ECONNREFUSED, false, kUnreachable, 0},
        FailedDial{"InboundRefused", Direction::kInbound, ECONNREFUSED, false, kUnreachable, 0},
        FailedDial{"OutboundNoRoute", Direction::kOutbound, ENETUNREACH, true, kUnreachable, 0},
        FailedDial{"InboundNoRoute", Direction::kInbound, ENETUNREACH, true, kUnreachable, 0},
        FailedDial{"OutboundOfTheProcess", Direction::kOutbound, EMFILE, true, kNoDescriptors, 1},
        FailedDial{"InboundOfTheProcess", Direction::kInbound, EMFILE, true, kNoDescriptors, 1},
        FailedDial{"OutboundOfTheHost", Direction::kOutbound, ENFILE, true, kNoDescriptors, 1},
        FailedDial{"InboundOfTheHost", Direction::kInbound, ENFILE, true, kNoDescriptors, 1}),
    CaseName());

class EitherDialTest : public DialTest, public testing::WithParamInterface<Direction> {
 protected:
  EitherDialTest() { network.requested = network.answered = Announced::kNothing; }
  void dial() { GetParam() == Direction::kOutbound ? dial_out() : dial_in(); }
};

TEST_P(EitherDialTest, EndsTheSessionWhenItIsSlow) {
  dial();
  wait_all_of(config.limits.dial_timeout);
  EXPECT_EQ(end_why(), kUnreachable);
}

TEST_P(EitherDialTest, HasNoDeadlineWhenItStands) {
  dial();
  answer();
  EXPECT_FALSE(timers.next_deadline());
}

TEST_P(EitherDialTest, IsRefusedWithoutMemoryForWhatHasCome) {
  const FullPipe pipe;
  open(GetParam());
  spend_all_memory();
  GetParam() == Direction::kOutbound ? (void)begin<OutboundDial>() : (void)begin<InboundDial>();
  network.dialled->fd = pipe.get();
  answer();
  EXPECT_EQ(end_why(), "memory.limit is spent");
  EXPECT_EQ(stats.refused_memory.get(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Each, EitherDialTest,
                         testing::Values(Direction::kOutbound, Direction::kInbound));

}  // namespace
}  // namespace fairlead::relay
