// The client of a CLC handshake, against a server that the test plays.
#include "relay/connection/outbound_handshake.h"

#include <cerrno>

#include "handshake_fixture.h"
#include "relay/connection/dial_stage.h"
#include "relay/connection/frames_stage.h"

namespace fairlead::relay {
namespace {

using R = FallbackReason;
using wire::ClcType;

class OutboundHandshakeTest : public HandshakeTest {
 public:
  // A reason that this side finds, by what is wrong and by what the server answers.
  struct Fault : Case {
    R reason;
    void (*set)(OutboundHandshakeTest&, wire::AcceptConfirm&);
  };
  static std::vector<Fault> faults_at_first_contact();
  static std::vector<Fault> faults_in_known_group();

 protected:
  OutboundHandshakeTest() : HandshakeTest(smc::GroupRole::kClient) {}

  void propose(std::unique_ptr<FramedRelay> framed = nullptr) {
    if (!session) open_both(Direction::kOutbound);
    begin<OutboundHandshake>(HandshakePermit(services, kNumber), std::move(framed), std::nullopt);
  }
  wire::AcceptConfirm accept(bool first_contact = true) const {
    return answer_of_peer(ClcType::kAccept, first_contact);
  }
  // Until the server's CONFIRM_LINK is awaited.
  wire::AcceptConfirm confirm_first_contact() {
    propose();
    take_written<wire::Proposal>(*net);
    send(accept());
    EXPECT_TRUE(stays());
    return take_written<wire::AcceptConfirm>(*net);
  }
  void answer_proposal(const wire::AcceptConfirm& answer) {
    propose();
    take_written<wire::Proposal>(*net);
    send(answer);
  }
  // Behind a hand-over of both sides.
  std::unique_ptr<FramedRelay> handed_over(bool by_peer = true) {
    open_both(Direction::kOutbound);
    session->report.carried(Transport::kShort);
    auto framed = std::make_unique<FramedRelay>(
        smc::Deferral::Role::kClient, smc::Deferral::Limits{}, *app, *net, tcp, network.now());
    framed->towards_net().hand_over();
    net->outgoing.clear();
    if (by_peer) net->feed(hand_over_of_peer());
    return framed;
  }
  static std::string hand_over_of_peer() { return std::string("\x04\0\0\x08\0\0\0\0\0\0\0\0", 12); }
  // No element of the group's memory is left.
  void use_all_elements() {
    const BufferSizes sizes = devices.buffer_sizes(*rnic.device);
    while (budget.rings_left_bytes() != 0 && group().join(sizes, 0)) continue;
  }
  // The server's GID is one of a device that has no port for the connection.
  Placed lead_to_blocked_device() {
    const Placed blocked = add_device(false);
    blocked.reachability->servers = std::exchange(rnic.reachability->servers, {});
    blocked.reachability->encrypted = true;
    return blocked;
  }
  // The stream is spoilt, and a new one is plain TCP.
  void expect_redial(R expected) {
    ASSERT_TRUE(next<OutboundDial>());
    EXPECT_EQ(session->net, nullptr);
    EXPECT_TRUE(net_reset);
    follow();
    EXPECT_EQ(network.announced, bpf::Announced::kNothing);
    network.answered = bpf::Announced::kNothing;
    network.dialled->connect();
    turn();
    expect_tcp(Side::kLocal, expected);
    EXPECT_EQ(tcp_result()->cause.device, rnic.device->name());
    EXPECT_EQ(tcp_result()->cause.pnet, "NET");
  }
};

TEST_F(OutboundHandshakeTest, TheProposalNamesThePortAndTheLimits) {
  propose();
  const auto proposal = take_written<wire::Proposal>(*net);
  EXPECT_EQ(proposal.peer_id, offer.peer_id);
  EXPECT_EQ(proposal.mac, mac_of(1));
  ASSERT_TRUE(proposal.v2);
  EXPECT_EQ(proposal.v2->gid, gid_of(1));
  EXPECT_EQ(proposal.v2->max_connections, 255);
  EXPECT_EQ(proposal.v1_path, wire::ClcPath::kNone);
}

TEST_F(OutboundHandshakeTest, AFirstContactEndsInSmc) {
  const wire::AcceptConfirm confirm = confirm_first_contact();
  EXPECT_TRUE(confirm.first_contact);
  EXPECT_EQ(confirm.queue_pair, queue_pair().number());
  ASSERT_TRUE(queue_pair().peer);
  EXPECT_EQ(queue_pair().peer->queue_pair, QpNumber{500});
  EXPECT_EQ(queue_pair().peer->gid, gid_of(kHostOfPeer));
  send_llc(confirm_link());
  ASSERT_TRUE(smc_result());
  EXPECT_EQ(&smc_result()->membership.group(), &group());
  EXPECT_FALSE(smc_result()->clc_connection_reset);
}

TEST_F(OutboundHandshakeTest, AKnownGroupIsJoinedWithoutLlc) {
  establish_group();
  answer_proposal(accept(false));
  EXPECT_FALSE(take_written<wire::AcceptConfirm>(*net).first_contact);
  ASSERT_TRUE(smc_result());
  EXPECT_EQ(groups.peers().count(), 1U);
}

TEST_F(OutboundHandshakeTest, AConfirmThatFindsNoRoomIsWrittenBeforeSmc) {
  establish_group();
  propose();
  net->allow(0);
  net->room = 0;
  send(accept(false));
  EXPECT_TRUE(stays());
  net->outgoing.clear();
  net->allow(1000);
  turn();
  take_written<wire::AcceptConfirm>(*net);
  EXPECT_TRUE(smc_result());
}

TEST_F(OutboundHandshakeTest, TheSmallerMtuIsAgreedOn) {
  wire::AcceptConfirm small = accept();
  small.mtu = Mtu::k512;
  answer_proposal(small);
  EXPECT_EQ(take_written<wire::AcceptConfirm>(*net).mtu, Mtu::k512);
  EXPECT_EQ(queue_pair().peer->mtu, Mtu::k512);
}

// The client's element is no larger than the server's, where memory is addressable.
TEST_F(OutboundHandshakeTest, AnAddressableElementIsAsSmallAsTheServers) {
  rnic.device->able.remote_memory_addressable = true;
  EXPECT_EQ(confirm_first_contact().rmb_size_code, accept().rmb_size_code);
}

TEST_F(OutboundHandshakeTest, AnElementIsAsLargeAsConfiguredWhereMemoryIsNotAddressable) {
  EXPECT_GT(confirm_first_contact().rmb_size_code, accept().rmb_size_code);
}

// The server is on our node, and its GID is one of another device.
TEST_F(OutboundHandshakeTest, TheServerMayLeadToAnotherDevice) {
  const Placed near = add_device(false);
  near.device->port_list[0].gid = gid_of(3);
  near.reachability->servers = {gid_of(kHostOfPeer)};
  rnic.reachability->servers.clear();
  EXPECT_EQ(confirm_first_contact().gid, gid_of(3));
  EXPECT_TRUE(host.stage.uses(*near.slot));
  EXPECT_FALSE(host.stage.uses(*rnic.slot));
}

// Reasons that are found before the Proposal: a Decline instead of it.

struct NoProposal : Case {
  R reason;
  std::optional<FallbackCause> given;
  bool encrypted = false;
  bool version_2 = true;
};

class NoProposalTest : public OutboundHandshakeTest,
                       public testing::WithParamInterface<NoProposal> {};

TEST_P(NoProposalTest, IsToldByADecline) {
  rnic.reachability->encrypted = GetParam().encrypted;
  offer.version_2 = GetParam().version_2;
  open_both(Direction::kOutbound);
  begin<OutboundHandshake>(HandshakePermit(services, kNumber), nullptr, GetParam().given);
  expect_declined(GetParam().reason);
  EXPECT_FALSE(tcp_result()->late_decline);
}

INSTANTIATE_TEST_SUITE_P(Each, NoProposalTest,
                         testing::Values(NoProposal{"Given", R::kDraining,
                                                    FallbackCause{.reason = R::kDraining}},
                                         NoProposal{"EncryptedPath", R::kIpsec, std::nullopt, true},
                                         NoProposal{"Version1WithoutSubnet", R::kConfigError,
                                                    std::nullopt, false, false}),
                         CaseName());

// Reasons that are found in the Accept, and in what it asks for.

std::vector<OutboundHandshakeTest::Fault> OutboundHandshakeTest::faults_at_first_contact() {
  using Test = OutboundHandshakeTest;
  using Accept = wire::AcceptConfirm;
  return {
      {"OtherVersion", R::kModeMismatch,
       [](Test&, Accept& accept) {
         accept.version = 1;
         accept.first_contact_v2.reset();
       }},
      {"LaterRelease", R::kReleaseMismatch,
       [](Test&, Accept& accept) { accept.first_contact_v2->release = 2; }},
      {"FewConnections", R::kMaxConnectionsMismatch,
       [](Test&, Accept& accept) { accept.first_contact_v2->max_connections = 15; }},
      {"NoLinks", R::kMaxLinksMismatch,
       [](Test&, Accept& accept) { accept.first_contact_v2->max_links = 0; }},
      {"UnknownGid", R::kNoRoute, [](Test&, Accept& accept) { accept.gid = gid_of(77); }},
      {"DeviceDownMeanwhile", R::kNoRoute,
       [](Test& t, Accept&) { t.rnic.device->take_port(PortNumber{1}, rdma::PortState::kDown); }},
      {"DeviceWithoutPortThere", R::kNoRoute, [](Test& t, Accept&) { t.lead_to_blocked_device(); }},
      {"DeviceOfAnotherNetwork", R::kNoPnet,
       [](Test& t, Accept&) { t.lead_to_blocked_device().reachability->ours = false; }},
      {"GatewayThatIsNotSeenHere", R::kIndirectMismatch,
       [](Test&, Accept& accept) { accept.first_contact_v2->direct = false; }},
      {"NoQueuePair", R::kQueuePairNotReady,
       [](Test& t, Accept&) { t.rnic.device->queue_pair_error = kDriverError; }},
      {"NoMemoryForAGroup", R::kMemory, [](Test& t, Accept&) { t.spend_memory(); }},
      {"NoMemoryForRings", R::kMemory, [](Test& t, Accept&) { t.spend_rings(); }},
      {"NoBuffersForMessages", R::kQueuePairNotReady,
       [](Test& t, Accept&) { t.rnic.device->buffer_error = kDriverError; }},
      {"LimitOfLockedMemory", R::kMemlockLimit, [](Test& t, Accept&) { t.spend_locked_memory(); }},
      {"LimitOfLockedMemoryThatTheKernelFinds", R::kMemlockLimit,
       [](Test& t, Accept&) {
         t.rnic.device->able.registered_bytes_max = std::size_t{64} << 20;
         t.rnic.device->buffer_error = kNoLockedMemory;
       }},
      {"QueuePairNotConnected", R::kQueuePairNotReady,
       [](Test& t, Accept&) { t.queue_pairs_cannot_connect(EINVAL); }},
      {"GidOfAnotherNamespace", R::kNoUsableGid,
       [](Test& t, Accept&) { t.queue_pairs_cannot_connect(ENODEV); }},
  };
}

class FirstContactFaultTest : public OutboundHandshakeTest,
                              public testing::WithParamInterface<OutboundHandshakeTest::Fault> {};

TEST_P(FirstContactFaultTest, IsToldByADecline) {
  propose();
  take_written<wire::Proposal>(*net);
  wire::AcceptConfirm answer = accept();
  GetParam().set(*this, answer);
  send(answer);
  expect_declined(GetParam().reason);
  groups.peers().for_each([](Group& each) { EXPECT_TRUE(each.protocol().terminated()); });
}

INSTANTIATE_TEST_SUITE_P(Each, FirstContactFaultTest,
                         testing::ValuesIn(OutboundHandshakeTest::faults_at_first_contact()),
                         CaseName());

// Reasons that are found where the Accept names a link of a known group.

std::vector<OutboundHandshakeTest::Fault> OutboundHandshakeTest::faults_in_known_group() {
  using Test = OutboundHandshakeTest;
  using Accept = wire::AcceptConfirm;
  return {
      {"UnknownLink", R::kLinkNotFound,
       [](Test&, Accept& accept) { accept.queue_pair = QpNumber{501}; }},
      {"NoMemoryForRings", R::kMemory,
       [](Test& t, Accept&) {
         t.use_all_elements();
         t.spend_rings();
       }},
      {"MemoryOfTheServerNotAnnounced", R::kMemoryRegistration,
       [](Test&, Accept& accept) { accept.rmb_rkey = RemoteKey{701}; }},
  };
}

class KnownGroupFaultTest : public OutboundHandshakeTest,
                            public testing::WithParamInterface<OutboundHandshakeTest::Fault> {};

TEST_P(KnownGroupFaultTest, IsToldByADeclineAndLeavesTheGroup) {
  const Group& known = establish_group();
  propose();
  take_written<wire::Proposal>(*net);
  wire::AcceptConfirm answer = accept(false);
  GetParam().set(*this, answer);
  send(answer);
  expect_declined(GetParam().reason);
  EXPECT_EQ(&group(), &known);
  EXPECT_TRUE(group().protocol().usable());
}

INSTANTIATE_TEST_SUITE_P(Each, KnownGroupFaultTest,
                         testing::ValuesIn(OutboundHandshakeTest::faults_in_known_group()),
                         CaseName());

TEST_F(OutboundHandshakeTest, AnUnknownGroupIsOutOfSync) {
  answer_proposal(accept(false));
  expect_declined(R::kSyncError, true);
}

// The wait for the link of a first contact.

TEST_F(OutboundHandshakeTest, AServerThatDoesNotConfirmTheLinkIsDeclinedAfterAWhile) {
  confirm_first_contact();
  wait(smc::kLinkWaitClient);
  EXPECT_TRUE(stays());  // a Decline of the server goes first
  wait(smc::kDeclineWait);
  expect_declined(R::kConfirmLinkTimeout);
  EXPECT_TRUE(tcp_result()->late_decline);
  EXPECT_TRUE(group().protocol().terminated());
}

TEST_F(OutboundHandshakeTest, AServerThatKeepsEyecatchersIsDeclined) {
  confirm_first_contact();
  wire::ConfirmLink message = confirm_link();
  message.eyecatcher_flags = 0;
  send_llc(message);
  expect_declined(R::kRmbeEyecatcher);
}

TEST_F(OutboundHandshakeTest, MemoryOfTheServerThatCannotBeWrittenIsDeclined) {
  rnic.device->able.remote_memory_addressable = true;
  confirm_first_contact();
  send_llc(confirm_link());
  expect_declined(R::kMemoryRegistration);
}

TEST_F(OutboundHandshakeTest, MemoryOfTheServerThatIsGoneAtLastIsDeclined) {
  rnic.device->able.remote_memory_addressable = true;
  confirm_first_contact();
  host.handle(GroupConfirmed{}, network.now());
  settle();
  expect_declined(R::kHandshakeTimeout);
}

TEST_F(OutboundHandshakeTest, ADeclineOfTheServerEndsTheFirstContact) {
  confirm_first_contact();
  send_decline(R::kConfirmLinkTimeout);
  expect_tcp(Side::kPeer, R::kConfirmLinkTimeout);
  EXPECT_TRUE(group().protocol().terminated());
  EXPECT_FALSE(tcp_result()->late_decline);
}

TEST_F(OutboundHandshakeTest, AQueuePairThatFailsMeanwhileIsDeclined) {
  confirm_first_contact();
  lose_group();
  expect_declined(R::kNoActiveLink);
}

TEST_F(OutboundHandshakeTest, TheEndOfTheSessionEndsTheFirstContact) {
  confirm_first_contact();
  close();
  EXPECT_TRUE(group().protocol().terminated());
}

// The wait until the server knows our memory.

class OutboundAnnouncementTest : public OutboundHandshakeTest {
 protected:
  void await_announcement() {
    establish_group(false);
    answer_proposal(accept(false));
    EXPECT_TRUE(stays());
    EXPECT_EQ(net->outgoing, "");
  }
};

TEST_F(OutboundAnnouncementTest, TheConfirmFollowsIt) {
  await_announcement();
  answer_announcement(false);
  take_written<wire::AcceptConfirm>(*net);
  EXPECT_TRUE(smc_result());
}

TEST_F(OutboundAnnouncementTest, IsDeclinedWhereTheServerIsSilent) {
  await_announcement();
  wait(smc::kLlcAnswerWait);
  expect_declined(R::kMemoryRegistration);
}

TEST_F(OutboundAnnouncementTest, IsDeclinedWhereItTakesTooLong) {
  config.smc.handshake_timeout = smc::kLlcAnswerWait / 2;
  await_announcement();
  wait_all_of(config.smc.handshake_timeout);
  expect_declined(R::kHandshakeTimeout);
}

// The server would wait as long, and cannot be reset behind a hand-over.
TEST_F(OutboundAnnouncementTest, MayTakeHalfAsLongBehindAHandOver) {
  config.smc.handshake_timeout = smc::kLlcAnswerWait;
  establish_group(false);
  propose(handed_over());
  take_written<wire::Proposal>(*net);
  send(accept(false));
  wait(config.smc.handshake_timeout / 2);
  expect_declined(R::kHandshakeTimeout);
}

TEST_F(OutboundAnnouncementTest, IsDeclinedWhereTheGroupEnds) {
  await_announcement();
  end_group();
  expect_declined(R::kNoActiveLink);
}

// Keys that the server has refused are not offered to it again.
TEST_F(OutboundAnnouncementTest, TheNextConnectionIsDeclinedAtOnce) {
  await_announcement();
  answer_announcement(true);
  expect_declined(R::kMemoryRegistration);
  begin<OutboundHandshake>(HandshakePermit(services, kNumber), nullptr, std::nullopt);
  take_written<wire::Proposal>(*net);
  send(accept(false));
  expect_declined(R::kMemoryRegistration);
}

// The group ends in other states.

TEST_F(OutboundHandshakeTest, AGroupThatIsLostBeforeTheAcceptIsOfNoConcern) {
  propose();
  host.handle(GroupLost{}, network.now());
  settle();
  EXPECT_TRUE(stays());
}

TEST_F(OutboundHandshakeTest, AGroupThatIsLostBehindTheConfirmEndsTheSession) {
  establish_group();
  propose();
  net->allow(0);
  net->room = 0;
  send(accept(false));
  end_group();
  EXPECT_EQ(end_why(), "the link group was lost");
}

// The peer's Decline of the Proposal.

struct PeerDecline : Case {
  R told;
  bool leaves_node;
  bool encrypted;
  Side side;
  R reason;
};

class PeerDeclineTest : public OutboundHandshakeTest,
                        public testing::WithParamInterface<PeerDecline> {};

TEST_P(PeerDeclineTest, LeadsToTcp) {
  devices.remove("rnic0");
  const Placed only = add_device(GetParam().leaves_node);
  devices.set_no_device_reason(R::kRnicNotGiven);
  if (GetParam().encrypted) {
    only.reachability->encrypted = true;
    add_device(false);
  }
  propose();
  send_decline(GetParam().told);
  expect_tcp(GetParam().side, GetParam().reason);
  EXPECT_EQ(tcp_result()->cause.peer_code, fallback_info(GetParam().told).wire_code);
}

INSTANTIATE_TEST_SUITE_P(
    Each, PeerDeclineTest,
    testing::Values(
        PeerDecline{"ForItsOwnReason", R::kPeerNoUeid, true, false, Side::kPeer, R::kPeerNoUeid},
        PeerDecline{"NoDeviceThere", R::kNoRdmaDevice, true, false, Side::kPeer, R::kNoRdmaDevice},
        // The cause is here: the Proposal named no RNIC.
        PeerDecline{"NoDeviceHere", R::kNoRdmaDevice, false, false, Side::kLocal, R::kRnicNotGiven},
        PeerDecline{"DeviceWithheldHere", R::kNoRdmaDevice, true, true, Side::kLocal, R::kIpsec}),
    CaseName());

TEST_F(OutboundHandshakeTest, BytesBehindADeclineAreForTheApplication) {
  propose();
  peer_says(encoded(wire::Decline{}) + "220 ready");
  ASSERT_TRUE(tcp_result());
  EXPECT_EQ(tcp_result()->unread.size(), 9U);
  EXPECT_EQ(tcp_result()->cause.device, "rnic0");
}

// A server that breaks the rules.

struct BrokenRule : Case {
  std::string (*sent)(const wire::AcceptConfirm& accept);
};

class BrokenRuleTest : public OutboundHandshakeTest,
                       public testing::WithParamInterface<BrokenRule> {};

TEST_P(BrokenRuleTest, LeadsToAnotherConnectionWithoutTheOption) {
  propose();
  peer_says(GetParam().sent(accept()));
  expect_redial(R::kMalformedClc);
}

TEST_P(BrokenRuleTest, EndsTheSessionBehindAHandOver) {
  propose(handed_over());
  peer_says(GetParam().sent(accept()));
  follow_to<FramesStage>();
  EXPECT_EQ(end_why(), "reset");
}

std::string as_confirm(const wire::AcceptConfirm& accept) {
  wire::AcceptConfirm confirm = accept;
  confirm.type = ClcType::kConfirm;
  return encoded(confirm);
}
std::string with_wrong_trailer(const wire::AcceptConfirm& accept) {
  std::string bytes = encoded(accept);
  bytes.back() = 'x';
  return bytes;
}
std::string no_clc(const wire::AcceptConfirm&) { return "220 ready"; }

INSTANTIATE_TEST_SUITE_P(Each, BrokenRuleTest,
                         testing::Values(BrokenRule{"NoClc", no_clc},
                                         BrokenRule{"AnotherMessage", as_confirm},
                                         BrokenRule{"WrongTrailer", with_wrong_trailer}),
                         CaseName());

TEST_F(OutboundHandshakeTest, ASecondAcceptSpoilsTheStreamToo) {
  confirm_first_contact();
  send(accept());
  expect_redial(R::kMalformedClc);
  EXPECT_TRUE(group().protocol().terminated());
}

TEST_F(OutboundHandshakeTest, ASilentServerLeadsToAnotherConnection) {
  propose();
  wait_all_of(config.smc.handshake_timeout);
  expect_redial(R::kHandshakeTimeout);
}

// A program of the node side writes the option without being asked.
TEST_F(OutboundHandshakeTest, ADeclineAfterAFailedHandshakeKeepsItsDevice) {
  propose();
  wait(config.smc.handshake_timeout);
  follow_to<OutboundDial>();
  network.answered = bpf::Announced::kSmc;
  network.dialled->connect();
  turn();
  follow_to<OutboundHandshake>();
  turn();
  expect_tcp(Side::kLocal, R::kHandshakeTimeout);
  EXPECT_EQ(tcp_result()->cause.device, rnic.device->name());
  EXPECT_EQ(tcp_result()->cause.pnet, "NET");
}

TEST_F(OutboundHandshakeTest, ASilentServerBehindAHandOverEndsTheSession) {
  for (const bool handed_over_by_peer : {false, true}) {
    propose(handed_over(handed_over_by_peer));
    wait(config.smc.handshake_timeout);
    ASSERT_TRUE(next<FramesStage>()) << handed_over_by_peer;
    close();
  }
}

// The server's hand-over may come late, with frames before it.
TEST_F(OutboundHandshakeTest, TheHandOverOfTheServerIsAwaited) {
  propose(handed_over(false));
  EXPECT_TRUE(stays());
  peer_says(std::string("\x01\0\0\x02hi\x04\0\0\x08\0\0\0\0\0\0\0\x02", 18));
  EXPECT_EQ(app->outgoing, "hi");
  send(accept());
  take_written<wire::Proposal>(*net);
  take_written<wire::AcceptConfirm>(*net);
  send_llc(confirm_link());
  ASSERT_TRUE(smc_result());
  EXPECT_TRUE(smc_result()->framed);
}

TEST_F(OutboundHandshakeTest, ADeclinedHandOverIsAwaitedAsLong) {
  std::unique_ptr<FramedRelay> framed = handed_over(false);
  begin<OutboundHandshake>(HandshakePermit(services, kNumber), std::move(framed),
                           FallbackCause{.reason = R::kDraining});
  EXPECT_TRUE(stays());
  wait(config.smc.handshake_timeout);
  ASSERT_TRUE(next<FramesStage>());
}

// The stream ends.

struct StreamEnd : Case {
  void (*happen)(FakeStream& net);
  const char* why;
};

class StreamEndTest : public OutboundHandshakeTest,
                      public testing::WithParamInterface<StreamEnd> {};

TEST_P(StreamEndTest, EndsTheSession) {
  propose();
  GetParam().happen(*net);
  turn();
  EXPECT_EQ(end_why(), GetParam().why);
}

TEST_P(StreamEndTest, EndsAFirstContactToo) {
  confirm_first_contact();
  GetParam().happen(*net);
  turn();
  EXPECT_EQ(end_why(), GetParam().why);
  close();
  EXPECT_TRUE(group().protocol().terminated());
}

constexpr const char* kClosed = "the peer closed the connection during the handshake";

INSTANTIATE_TEST_SUITE_P(
    Each, StreamEndTest,
    testing::Values(StreamEnd{"Closed", [](FakeStream& net) { net.feed_end(); }, kClosed},
                    StreamEnd{"Reset", [](FakeStream& net) { net.feed_reset(); }, kClosed}),
    CaseName());

TEST_F(OutboundHandshakeTest, AStreamThatTakesNoProposalEndsTheSession) {
  open_both(Direction::kOutbound);
  net->write_error = ECONNRESET;
  propose();
  EXPECT_EQ(end_why(), "the peer reset the connection during the handshake");
}

TEST_F(OutboundHandshakeTest, GivesItsPermitBack) {
  open_both(Direction::kOutbound);
  HandshakePermit permit(services, kNumber);
  ASSERT_TRUE(permit.count());
  ASSERT_TRUE(permit.acquire(destination));
  ASSERT_FALSE(admission.limiter().take(destination, kNumber + 1));
  begin<OutboundHandshake>(std::move(permit), nullptr, std::nullopt);
  EXPECT_TRUE(worker.granted.empty());
  close();
  EXPECT_EQ(worker.granted, std::vector<std::uint64_t>{kNumber + 1});
}

// Version 1.

class OutboundVersion1Test : public OutboundHandshakeTest {
 protected:
  OutboundVersion1Test() {
    offer.version_2 = false;
    own_subnets.emplace();
    own_subnets->area.ipv4_network = {192, 0, 2, 0};
    own_subnets->area.ipv4_length_bits = 24;
  }
  wire::AcceptConfirm accept_v1() const {
    wire::AcceptConfirm answer = accept();
    answer.version = 1;
    answer.eid = {};
    answer.first_contact_v2.reset();
    return answer;
  }
};

TEST_F(OutboundVersion1Test, TheProposalNamesTheSubnet) {
  propose();
  const auto proposal = take_written<wire::Proposal>(*net);
  EXPECT_EQ(proposal.version, 1);
  EXPECT_EQ(proposal.v1_gid, gid_of(1));
  EXPECT_EQ(proposal.ip_area, own_subnets->area);
  send(accept_v1());
  EXPECT_EQ(take_written<wire::AcceptConfirm>(*net).version, 1);
}

TEST_F(OutboundVersion1Test, AGidOfAnotherVlanIsDeclined) {
  rnic.device->port_list[0].gid = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 1}};
  propose();
  take_written<wire::Proposal>(*net);
  wire::AcceptConfirm answer = accept_v1();
  answer.gid = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 2}};
  send(answer);
  expect_declined(R::kVlan);
}

TEST_F(OutboundVersion1Test, IsOfferedBesideVersion2FromAGidOfRoceV1) {
  offer.version_2 = true;
  rnic.reachability->v1_port = active_port(1, 4);
  propose();
  const auto proposal = take_written<wire::Proposal>(*net);
  EXPECT_TRUE(proposal.v2);
  EXPECT_EQ(proposal.v1_path, wire::ClcPath::kSmcr);
  EXPECT_EQ(proposal.v1_gid, gid_of(4));
  EXPECT_EQ(proposal.v2->gid, gid_of(1));
}

}  // namespace
}  // namespace fairlead::relay
