// The server of a CLC handshake, against a client that the test plays.
#include "relay/connection/inbound_handshake.h"

#include <cerrno>

#include "handshake_fixture.h"
#include "relay/connection/dial_stage.h"
#include "relay/connection/frames_stage.h"

namespace fairlead::relay {
namespace {

using R = FallbackReason;
using First = InboundHandshake::First;
using wire::ClcType;

constexpr const char* kPreface = "\xfa\x1e\xad\x01";
constexpr const char* kClosed = "the peer closed the connection during the handshake";

Gid link_local_gid(std::uint8_t vlan) {
  return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, vlan, 0, 0, 1}};
}

class InboundHandshakeTest : public HandshakeTest {
 public:
  // A reason that this side finds, by what is wrong and by what the client says.
  template <class Message>
  struct Fault : Case {
    R reason;
    void (*set)(InboundHandshakeTest&, Message&);
  };
  using ProposalFault = Fault<wire::Proposal>;
  using ConfirmFault = Fault<wire::AcceptConfirm>;
  static std::vector<ProposalFault> faults_of_proposal();
  static std::vector<ProposalFault> faults_behind_the_dial();
  static std::vector<ConfirmFault> faults_of_confirm();

 protected:
  InboundHandshakeTest() : HandshakeTest(smc::GroupRole::kServer) {
    own_subnets.emplace();
    own_subnets->area.ipv4_network = {192, 0, 2, 0};
    own_subnets->area.ipv4_length_bits = 24;
  }

  void await(First first = First::kProposal, bool assumed = false) {
    if (!session) open(Direction::kInbound);
    begin<InboundHandshake>(first, assumed);
  }
  // Behind the client's hand-over.
  void await_framed() {
    open_both(Direction::kInbound);
    session->report.carried(Transport::kShort);
    auto framed = std::make_unique<FramedRelay>(
        smc::Deferral::Role::kServer, smc::Deferral::Limits{}, *app, *net, tcp, network.now());
    net->feed(std::string("\x04\0\0\x08\0\0\0\0\0\0\0\0", 12));
    framed->pump(network.now());
    framed->towards_net().hand_over();
    net->outgoing.clear();
    session->report.setup_began("clc_proposal", network.now());
    begin<InboundHandshake>(std::move(framed));
  }
  wire::Proposal proposal() const {
    wire::Proposal message;
    message.peer_id = peer_id;
    message.mac = mac_of(kHostOfPeer);
    message.v2.emplace();
    message.v2->ueids.push(offer.ueids[0]);
    message.v2->gid = gid_of(kHostOfPeer);
    return message;
  }
  wire::Proposal proposal_v1() const {
    wire::Proposal message = proposal();
    message.version = 1;
    message.v2_path = wire::ClcPath::kNone;
    message.v2.reset();
    message.v1_path = wire::ClcPath::kSmcr;
    message.v1_gid = gid_of(kHostOfPeer);
    message.ip_area = own_subnets->area;
    return message;
  }
  wire::AcceptConfirm confirm_of_client(bool first_contact = true) const {
    return answer_of_peer(ClcType::kConfirm, first_contact);
  }
  // The application is there, and the handshake begins once more.
  void dial_application() {
    ASSERT_TRUE(std::holds_alternative<DialFirst>(host.result));
    std::unique_ptr<event::Stream> stream = std::make_unique<FakeStream>();
    app = dynamic_cast<FakeStream*>(stream.get());
    session->app = std::move(stream);
    begin_stage(std::move(host.stage));
  }
  void dial_for_proposal(const wire::Proposal& message) {
    await();
    send(message);
    dial_application();
    EXPECT_TRUE(stays());
  }
  // It has to wait.
  void await_accept() {
    dial_for_proposal(proposal());
    EXPECT_EQ(net->outgoing, "");
  }
  wire::AcceptConfirm accept_proposal(const wire::Proposal& message) {
    dial_for_proposal(message);
    return take_written<wire::AcceptConfirm>(*net);
  }
  wire::AcceptConfirm accept_proposal() { return accept_proposal(proposal()); }
  // Until the client's CONFIRM_LINK is awaited.
  void confirm_first_contact() {
    accept_proposal();
    send(confirm_of_client());
  }
  void expect_smc_behind_the_link(bool clc_connection_reset) {
    EXPECT_TRUE(stays());
    send_llc(confirm_link());
    ASSERT_TRUE(smc_result());
    EXPECT_EQ(smc_result()->clc_connection_reset, clc_connection_reset);
  }
  // TCP, where the application is not dialled yet.
  void dial_for_tcp() {
    ASSERT_TRUE(next<InboundDial>());
    network.connect_at_once = true;
    follow();
  }
  void expect_refused(unsigned count = 1) {
    EXPECT_EQ(stats.refused[RefusedFor::kHandshake].get(), count);
  }
};

TEST_F(InboundHandshakeTest, TheApplicationIsDialledBeforeTheAccept) {
  await();
  send(proposal());
  EXPECT_TRUE(std::holds_alternative<DialFirst>(host.result));
  EXPECT_EQ(net->outgoing, "");
  EXPECT_FALSE(timers.next_deadline());
  EXPECT_TRUE(host.stage.uses(*rnic.slot));
}

TEST_F(InboundHandshakeTest, ItsDeviceIsInUseWhileTheApplicationIsDialled) {
  await();
  send(proposal());
  session->app.reset();
  begin<InboundDial>(host.stage.release<InboundHandshake>());
  EXPECT_TRUE(stays());
  EXPECT_TRUE(host.stage.uses(*rnic.slot));
}

TEST_F(InboundHandshakeTest, AFirstContactEndsInSmc) {
  const wire::AcceptConfirm accept = accept_proposal();
  EXPECT_TRUE(accept.first_contact);
  EXPECT_EQ(accept.queue_pair, queue_pair().number());
  EXPECT_EQ(accept.gid, gid_of(1));
  send(confirm_of_client());
  EXPECT_TRUE(stays());
  ASSERT_TRUE(queue_pair().peer);
  EXPECT_EQ(queue_pair().peer->queue_pair, QpNumber{500});
  EXPECT_TRUE(sent_llc<wire::ConfirmLink>());
  expect_smc_behind_the_link(false);
}

TEST_F(InboundHandshakeTest, AKnownGroupIsNamedInTheAccept) {
  const Group& known = establish_group();
  EXPECT_FALSE(accept_proposal().first_contact);
  send(confirm_of_client(false));
  ASSERT_TRUE(smc_result());
  EXPECT_EQ(&smc_result()->membership.group(), &known);
}

// The id of a peer is a claim.
TEST_F(InboundHandshakeTest, AClientAtAnotherAddressGetsAGroupOfItsOwn) {
  establish_group();
  open(Direction::kInbound);
  net->peer = address("192.0.2.11:4000");
  EXPECT_TRUE(accept_proposal().first_contact);
  EXPECT_EQ(groups.peers().count(), 2U);
}

TEST_F(InboundHandshakeTest, Version1IsAnsweredInVersion1) {
  const wire::AcceptConfirm accept = accept_proposal(proposal_v1());
  EXPECT_EQ(accept.version, 1);
  EXPECT_TRUE(accept.first_contact);
}

TEST_F(InboundHandshakeTest, Version2IsPreferred) {
  wire::Proposal both = proposal_v1();
  const wire::Proposal newer = proposal();
  both.version = 2;
  both.v2_path = newer.v2_path;
  both.v2 = newer.v2;
  EXPECT_EQ(accept_proposal(both).version, 2);
}

// Reasons that are found in the Proposal.

std::vector<InboundHandshakeTest::ProposalFault> InboundHandshakeTest::faults_of_proposal() {
  using Test = InboundHandshakeTest;
  using Message = wire::Proposal;
  return {
      {"Disabled", R::kDisabled, [](Test& t, Message&) { t.config.smc.enabled = false; }},
      {"Excluded", R::kPolicyExcluded,
       [](Test& t, Message&) {
         t.config.smc.exclude = {{Cidr::parse("192.0.2.10/32").value(), {}}};
       }},
      {"Draining", R::kDraining, [](Test& t, Message&) { t.admission.start_drain(); }},
      {"NoCommonVersion", R::kPeerNoSmc,
       [](Test& t, Message& message) {
         t.offer.version_1 = false;
         message = t.proposal_v1();
       }},
      {"NoUeid", R::kPeerNoUeid, [](Test&, Message& message) { message.v2->ueids.count = 0; }},
      {"OtherUeid", R::kNoDevice,
       [](Test&, Message& message) { message.v2->ueids.items[0].bytes[0] = 'X'; }},
      {"FewConnections", R::kMaxConnectionsMismatch,
       [](Test&, Message& message) { message.v2->max_connections = 15; }},
      {"NoLinks", R::kMaxLinksMismatch, [](Test&, Message& message) { message.v2->max_links = 0; }},
      {"HandshakesInHand", R::kConnectionLimit, [](Test& t, Message&) { t.spend_handshakes(); }},
      {"EncryptedPath", R::kIpsec,
       [](Test& t, Message&) { t.rnic.reachability->encrypted = true; }},
      {"ClientNotReached", R::kNoRdmaDevice,
       [](Test& t, Message&) { t.rnic.reachability->client.reset(); }},
      {"PortDown", R::kPortDown,
       [](Test& t, Message&) { t.rnic.device->take_port(PortNumber{1}, rdma::PortState::kDown); }},
      {"NoGid", R::kNoUsableGid, [](Test& t, Message&) { t.rnic.device->port_list[0].gid = {}; }},
      {"OtherNetwork", R::kNoPnet,
       [](Test& t, Message&) {
         t.rnic.reachability->client.reset();
         t.rnic.reachability->ours = false;
       }},
      {"DeviceNotGiven", R::kRnicNotGiven,
       [](Test& t, Message&) {
         t.devices.remove("rnic0");
         t.devices.set_no_device_reason(R::kRnicNotGiven);
       }},
      {"Version1OnAnUnknownInterface", R::kVlan,
       [](Test& t, Message& message) {
         message = t.proposal_v1();
         t.own_subnets.reset();
       }},
      {"Version1OfAnotherSubnet", R::kPrefixMismatch,
       [](Test& t, Message& message) {
         message = t.proposal_v1();
         message.ip_area->ipv4_network = {192, 0, 3, 0};
       }},
      {"Version1OfAnotherVlan", R::kVlan,
       [](Test& t, Message& message) {
         message = t.proposal_v1();
         t.rnic.device->port_list[0].gid = link_local_gid(7);
         t.rnic.reachability->client = link_local_gid(8);
       }},
  };
}

class ProposalFaultTest : public InboundHandshakeTest,
                          public testing::WithParamInterface<InboundHandshakeTest::ProposalFault> {
};

TEST_P(ProposalFaultTest, IsToldByADeclineBeforeTheDial) {
  await();
  wire::Proposal message = proposal();
  GetParam().set(*this, message);
  send(message);
  EXPECT_EQ(network.dials, 0U);
  dial_for_tcp();
  expect_declined(GetParam().reason);
  EXPECT_FALSE(tcp_result()->late_decline);
}

INSTANTIATE_TEST_SUITE_P(Each, ProposalFaultTest,
                         testing::ValuesIn(InboundHandshakeTest::faults_of_proposal()), CaseName());

std::vector<InboundHandshakeTest::ProposalFault> InboundHandshakeTest::faults_behind_the_dial() {
  using Test = InboundHandshakeTest;
  using Message = wire::Proposal;
  return {
      {"NoQueuePair", R::kQueuePairNotReady,
       [](Test& t, Message&) { t.rnic.device->queue_pair_error = kDriverError; }},
      {"NoMemoryForAGroup", R::kMemory, [](Test& t, Message&) { t.spend_memory(); }},
      {"NoMemoryForRings", R::kMemory, [](Test& t, Message&) { t.spend_rings(); }},
      {"LimitOfLockedMemory", R::kMemlockLimit, [](Test& t, Message&) { t.spend_locked_memory(); }},
      {"TooManyWaitForTheFirstContact", R::kConnectionLimit,
       [](Test& t, Message&) {
         Group& forming = t.make_group();
         while (t.groups.wait_for(forming, t.other)) continue;
       }},
  };
}

class BehindTheDialTest : public InboundHandshakeTest,
                          public testing::WithParamInterface<InboundHandshakeTest::ProposalFault> {
};

TEST_P(BehindTheDialTest, AFaultIsToldByADecline) {
  await();
  wire::Proposal message = proposal();
  send(message);
  GetParam().set(*this, message);
  dial_application();
  expect_declined(GetParam().reason);
  // Nothing is left of a group of its own.
  groups.peers().for_each([&](Group& each) {
    const bool of_other = other.membership.joined() && &other.membership.group() == &each;
    EXPECT_NE(each.protocol().terminated(), of_other);
  });
}

INSTANTIATE_TEST_SUITE_P(Each, BehindTheDialTest,
                         testing::ValuesIn(InboundHandshakeTest::faults_behind_the_dial()),
                         CaseName());

// Reasons that are found in the Confirm.

std::vector<InboundHandshakeTest::ConfirmFault> InboundHandshakeTest::faults_of_confirm() {
  using Test = InboundHandshakeTest;
  using Confirm = wire::AcceptConfirm;
  return {
      {"OtherVersion", R::kVersionMismatch,
       [](Test&, Confirm& confirm) {
         confirm.version = 1;
         confirm.first_contact_v2.reset();
         confirm.gids = {};
       }},
      {"NoFirstContact", R::kSyncError,
       [](Test& t, Confirm& confirm) { confirm = t.confirm_of_client(false); }},
      {"OtherRelease", R::kReleaseMismatch,
       [](Test&, Confirm& confirm) { confirm.first_contact_v2->release = 0; }},
      {"OtherConnections", R::kMaxConnectionsMismatch,
       [](Test&, Confirm& confirm) { confirm.first_contact_v2->max_connections = 254; }},
      {"OtherLinks", R::kMaxLinksMismatch,
       [](Test&, Confirm& confirm) { confirm.first_contact_v2->max_links = 2; }},
      {"GroupLostMeanwhile", R::kNoActiveLink,
       [](Test& t, Confirm&) {
         t.group().terminate("a test ends it");
         t.settle();
       }},
      {"QueuePairNotConnected", R::kQueuePairNotReady,
       [](Test& t, Confirm&) { t.queue_pair().connect_error = kDriverError; }},
      {"GidOfAnotherNamespace", R::kNoUsableGid,
       [](Test& t, Confirm&) {
         t.queue_pair().connect_error = Error{Errc::kSystem, "ibv_modify_qp", ENODEV};
       }},
  };
}

class ConfirmFaultTest : public InboundHandshakeTest,
                         public testing::WithParamInterface<InboundHandshakeTest::ConfirmFault> {};

TEST_P(ConfirmFaultTest, IsToldByADeclineThatMayCrossTheClients) {
  accept_proposal();
  wire::AcceptConfirm confirm = confirm_of_client();
  GetParam().set(*this, confirm);
  send(confirm);
  expect_declined(GetParam().reason);
  EXPECT_TRUE(tcp_result()->late_decline);
  EXPECT_TRUE(group().protocol().terminated());
}

INSTANTIATE_TEST_SUITE_P(Each, ConfirmFaultTest,
                         testing::ValuesIn(InboundHandshakeTest::faults_of_confirm()), CaseName());

// It has begun with its Confirm, and hears no Decline.
TEST_F(InboundHandshakeTest, AClientOfAKnownGroupWithUnknownMemoryIsReset) {
  establish_group();
  accept_proposal();
  wire::AcceptConfirm confirm = confirm_of_client(false);
  confirm.rmb_rkey = RemoteKey{701};
  send(confirm);
  EXPECT_EQ(end_why(), "the client's memory cannot be used");
  EXPECT_EQ(net->outgoing, "");
}

// The wait for the link of a first contact.

TEST_F(InboundHandshakeTest, AClientThatDoesNotConfirmTheLinkIsDeclinedAfterAWhile) {
  confirm_first_contact();
  wait(smc::kLinkWaitServer);
  EXPECT_TRUE(stays());
  wait(smc::kDeclineWait);
  expect_declined(R::kConfirmLinkTimeout);
  EXPECT_TRUE(group().protocol().terminated());
}

TEST_F(InboundHandshakeTest, AClientThatKeepsEyecatchersIsDeclined) {
  confirm_first_contact();
  wire::ConfirmLink message = confirm_link();
  message.eyecatcher_flags = 0;
  send_llc(message);
  expect_declined(R::kRmbeEyecatcher);
}

TEST_F(InboundHandshakeTest, AQueuePairThatFailsMeanwhileIsDeclined) {
  confirm_first_contact();
  lose_group();
  expect_declined(R::kNoActiveLink);
}

TEST_F(InboundHandshakeTest, ADeclineOfTheClientEndsTheFirstContact) {
  confirm_first_contact();
  send_decline(R::kConfirmLinkTimeout);
  expect_tcp(Side::kPeer, R::kConfirmLinkTimeout);
  EXPECT_TRUE(group().protocol().terminated());
}

// The client has all that it wanted, and its end may overtake its last message.
TEST_F(InboundHandshakeTest, TheEndOfTheStreamWaitsForTheLink) {
  confirm_first_contact();
  end_peer();
  expect_smc_behind_the_link(false);
}

TEST_F(InboundHandshakeTest, AResetOfTheStreamIsRemembered) {
  confirm_first_contact();
  reset_peer();
  expect_smc_behind_the_link(true);
}

// The client's memory, which comes over the device where it is addressable.

class ClientMemoryTest : public InboundHandshakeTest {
 protected:
  ClientMemoryTest() { rnic.device->able.remote_memory_addressable = true; }
  void confirm(const Error& lack) {
    accept_proposal();
    queue_pair().remote_error = lack;
    send(confirm_of_client());
  }
};

TEST_F(ClientMemoryTest, IsAwaitedBeforeTheLinkIsConfirmed) {
  confirm({Errc::kWouldBlock, "on its way"});
  EXPECT_TRUE(stays());
  EXPECT_FALSE(sent_llc<wire::ConfirmLink>());
  grant_memory();
  wait(kClientMemoryInterval);
  EXPECT_TRUE(sent_llc<wire::ConfirmLink>());
  send_llc(confirm_link());
  EXPECT_TRUE(smc_result());
}

TEST_F(ClientMemoryTest, IsNoMatterAnyMoreOnceItIsThere) {
  confirm({Errc::kWouldBlock, "on its way"});
  grant_memory();
  wait(kClientMemoryInterval);
  wait(smc::kLinkWaitServer);
  EXPECT_TRUE(stays());
  wait(smc::kDeclineWait);
  expect_declined(R::kConfirmLinkTimeout);
}

TEST_F(ClientMemoryTest, IsDeclinedWhereItIsNotGranted) {
  confirm({Errc::kNotFound, "rkey"});
  expect_declined(R::kMemoryRegistration);
}

TEST_F(ClientMemoryTest, IsDeclinedWhereTheQueuePairHasFailed) {
  confirm({Errc::kWrongState, "queue pair"});
  expect_declined(R::kNoActiveLink);
}

TEST_F(ClientMemoryTest, IsDeclinedWhereTheGroupHasEnded) {
  confirm({Errc::kWouldBlock, "on its way"});
  lose_group();
  expect_declined(R::kNoActiveLink);
}

TEST_F(ClientMemoryTest, IsNotAwaitedLongerThanTheLink) {
  confirm({Errc::kWouldBlock, "on its way"});
  const TimePoint until = network.time + 2 * (smc::kLinkWaitServer + smc::kDeclineWait);
  while (stays() && network.time < until) wait(*timers.next_deadline() - network.time);
  expect_declined(R::kConfirmLinkTimeout);
}

// Another connection makes the first contact.

class OthersFirstContactTest : public InboundHandshakeTest {
 protected:
  void await_other() {
    make_group();
    await_accept();
  }
};

TEST_F(OthersFirstContactTest, TheGroupIsUsedWhenItIsConfirmed) {
  await_other();
  other.membership.leave(network.now(), false);
  confirm(group());
  EXPECT_FALSE(take_written<wire::AcceptConfirm>(*net).first_contact);
  EXPECT_EQ(groups.peers().count(), 1U);
}

TEST_F(OthersFirstContactTest, TheNextMakesItWhenTheGroupIsLost) {
  await_other();
  lose_group();
  EXPECT_TRUE(take_written<wire::AcceptConfirm>(*net).first_contact);
  EXPECT_EQ(groups.peers().count(), 2U);
}

TEST_F(OthersFirstContactTest, IsDeclinedWhereItTakesTooLong) {
  await_other();
  wait_all_of(config.smc.handshake_timeout);
  expect_declined(R::kHandshakeTimeout);
  // It waits no longer.
  std::size_t room = 0;
  while (groups.wait_for(group(), other)) ++room;
  EXPECT_EQ(room, kWaitersMax);
}

// Half of the time is left for the Decline, which has to come before TCP there.
TEST_F(OthersFirstContactTest, MayTakeHalfAsLongBehindAHandOver) {
  make_group();
  await_framed();
  wait(Duration(std::chrono::seconds(1)));
  send(proposal());
  wait_all_of(config.smc.handshake_timeout / 2 - std::chrono::seconds(1));
  expect_declined(R::kHandshakeTimeout);
}

// The wait until the client knows our memory.

class InboundAnnouncementTest : public InboundHandshakeTest {
 protected:
  void await_announcement() {
    establish_group(false);
    await_accept();
  }
};

TEST_F(InboundAnnouncementTest, TheAcceptFollowsIt) {
  await_announcement();
  answer_announcement(false);
  EXPECT_FALSE(take_written<wire::AcceptConfirm>(*net).first_contact);
}

TEST_F(InboundAnnouncementTest, IsDeclinedWhereTheClientRefuses) {
  await_announcement();
  answer_announcement(true);
  expect_declined(R::kMemoryRegistration);
}

TEST_F(InboundAnnouncementTest, IsDeclinedWhereItTakesTooLong) {
  config.smc.handshake_timeout = smc::kLlcAnswerWait / 2;
  await_announcement();
  wait(config.smc.handshake_timeout);
  expect_declined(R::kHandshakeTimeout);
}

TEST_F(InboundAnnouncementTest, AFirstContactFollowsWhereTheGroupEnds) {
  await_announcement();
  end_group();
  EXPECT_TRUE(take_written<wire::AcceptConfirm>(*net).first_contact);
}

// A Decline of the client.

TEST_F(InboundHandshakeTest, ADeclineInsteadOfAProposalLeadsToTcp) {
  await();
  send_decline(R::kDraining);
  dial_for_tcp();
  expect_tcp(Side::kPeer, fallback_from_wire(fallback_info(R::kDraining).wire_code));
}

TEST_F(InboundHandshakeTest, AnOutOfSyncDeclinePutsTheLinkInDoubt) {
  establish_group();
  accept_proposal();
  send_decline(R::kSyncError, true);
  expect_tcp(Side::kPeer, R::kSyncError);
  EXPECT_TRUE(group().protocol().links()[0]->disowned());
}

TEST_F(InboundHandshakeTest, AnyOtherDeclineLeavesTheLinkAlone) {
  establish_group();
  accept_proposal();
  const smc::ElementId used = host.stage.smc()->buffers().element();
  send_decline(R::kMemory);
  expect_tcp(Side::kPeer, R::kMemory);
  EXPECT_FALSE(group().protocol().links()[0]->disowned());
  EXPECT_EQ(group().join(devices.buffer_sizes(*rnic.device), 0).value().element, used)
      << "such a client does not write to it any more";
}

// One that has the Accept may be writing already.
TEST_F(InboundHandshakeTest, TheElementOfAConnectionThatIsDeclinedBehindTheAcceptStaysTaken) {
  establish_group();
  accept_proposal();
  const smc::ElementId used = host.stage.smc()->buffers().element();
  send(confirm_of_client(true));
  expect_declined(R::kSyncError);
  EXPECT_NE(group().join(devices.buffer_sizes(*rnic.device), 0).value().element, used);
}

// A client that breaks the rules, or speaks no CLC.

enum class Then : std::uint8_t { kGoesOn, kIsSilent, kEnds, kResets };

struct Stranger : Case {
  enum class At : std::uint8_t { kOption, kAssumed, kAccept } at;
  std::string sent;
  Then then;
  std::optional<R> reason;  // of TCP; nothing where the session ends
};

class StrangerTest : public InboundHandshakeTest, public testing::WithParamInterface<Stranger> {};

TEST_P(StrangerTest, IsTcpUnlessItSpeaksClc) {
  const bool assumed = GetParam().at == Stranger::At::kAssumed;
  if (GetParam().at == Stranger::At::kAccept)
    accept_proposal();
  else
    await(First::kProposal, assumed);
  net->feed(GetParam().sent);
  if (GetParam().then == Then::kEnds) net->feed_end();
  if (GetParam().then == Then::kResets) net->feed_reset();
  turn();
  if (GetParam().then == Then::kIsSilent) {
    EXPECT_TRUE(stays());
    wait(assumed ? kClcDetectionTimeout : config.smc.handshake_timeout);
  }
  if (!GetParam().reason) {
    const bool closed = GetParam().then >= Then::kEnds;
    EXPECT_EQ(end_why(), closed ? kClosed : "the handshake failed");
    if (closed) return;
    EXPECT_EQ(groups.peers().count(), GetParam().at == Stranger::At::kAccept ? 1U : 0U);
    groups.peers().for_each([](Group& each) { EXPECT_TRUE(each.protocol().terminated()); });
    return expect_refused();
  }
  dial_for_tcp();
  expect_tcp(Side::kLocal, *GetParam().reason);
  const std::vector<std::byte>& unread = tcp_result()->unread;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(unread.data()), unread.size()),
            GetParam().sent);
  expect_refused(0);
}

constexpr Stranger::At kOption = Stranger::At::kOption, kAssumed = Stranger::At::kAssumed,
                       kAccept = Stranger::At::kAccept;

INSTANTIATE_TEST_SUITE_P(
    Each, StrangerTest,
    testing::Values(
        Stranger{"PlainBytesBehindTheOption", kOption, "GET /", Then::kGoesOn, R::kOptionStripped},
        Stranger{"PlainBytesOfAnAssumedPeer", kAssumed, "GET /", Then::kGoesOn,
                 R::kPeerNotInjected},
        Stranger{"BytesThatBeginLikeClc", kOption, "\xe2\xd4GET /", Then::kGoesOn,
                 R::kOptionStripped},
        Stranger{"AnEndWithoutAByte", kOption, "", Then::kEnds, R::kOptionStripped},
        Stranger{"AnotherMessageThanAProposal", kOption,
                 encoded(wire::AcceptConfirm{.alert_token = AlertToken{1}}), Then::kGoesOn,
                 std::nullopt},
        Stranger{"SilenceBehindTheOption", kOption, "", Then::kIsSilent, std::nullopt},
        Stranger{"SilenceOfAnAssumedPeer", kAssumed, "", Then::kIsSilent, R::kPeerNotInjected},
        Stranger{"HalfAMessageOfAnAssumedPeer", kAssumed, encoded(wire::Decline{}).substr(0, 20),
                 Then::kIsSilent, std::nullopt},
        Stranger{"PlainBytesBehindTheAccept", kAccept, "GET /", Then::kGoesOn, std::nullopt},
        Stranger{"SilenceBehindTheAccept", kAccept, "", Then::kIsSilent, std::nullopt},
        Stranger{"AResetAtOnce", kOption, "", Then::kResets, std::nullopt},
        Stranger{"AnEndInAMessage", kOption, encoded(wire::Decline{}).substr(0, 20), Then::kEnds,
                 std::nullopt},
        Stranger{"AnEndBehindTheAccept", kAccept, "", Then::kEnds, std::nullopt},
        Stranger{"AResetBehindTheAccept", kAccept, "", Then::kResets, std::nullopt}),
    CaseName());

TEST_F(InboundHandshakeTest, NoClcBehindAHandOverEndsTheSession) {
  await_framed();
  peer_says("GET / HTTP/1.1");
  follow_to<FramesStage>();
  EXPECT_EQ(end_why(), "reset");
}

// A client that may begin with frames.

class FramesOrProposalTest : public InboundHandshakeTest {
 protected:
  void SetUp() override {
    open(Direction::kInbound);
    pay();
    without_frames = session->memory.charged_bytes();
    await(First::kFramesOrProposal);
  }
  std::size_t without_frames = 0;
};

TEST_F(FramesOrProposalTest, BehindThePrefaceTheApplicationIsDialled) {
  for (const char byte : std::string(kPreface)) {
    EXPECT_TRUE(stays());
    net->feed(std::string(1, byte));
    turn();
  }
  ASSERT_TRUE(next<InboundDial>());
  network.connect_at_once = true;
  follow();
  ASSERT_TRUE(next<FramesStage>());
  net->feed(std::string("\x01\0\0\x02hi", 6));
  follow();
  EXPECT_EQ(network.dialled->outgoing, "hi");
  EXPECT_GT(session->memory.charged_bytes(), without_frames);
}

TEST_F(FramesOrProposalTest, FramesAreRefusedWithoutMemoryForThem) {
  spend_memory();
  EXPECT_TRUE(stays());
  peer_says(kPreface);
  EXPECT_EQ(end_why(), "memory.limit is spent");
  EXPECT_EQ(stats.refused_memory.get(), 1U);
  EXPECT_EQ(network.dials, 0U);
}

TEST_F(FramesOrProposalTest, AProposalIsAnsweredAndNeedsNoMemoryForFrames) {
  send(proposal());
  dial_application();
  EXPECT_TRUE(take_written<wire::AcceptConfirm>(*net).first_contact);
  EXPECT_EQ(session->memory.charged_bytes(), without_frames);
}

TEST_F(FramesOrProposalTest, AnythingElseIsForTheApplication) {
  peer_says(std::string(kPreface).substr(0, 3) + "no");
  dial_for_tcp();
  expect_tcp(Side::kLocal, R::kOptionStripped);
  EXPECT_EQ(tcp_result()->unread.size(), 5U);
}

// Limits.

TEST_F(InboundHandshakeTest, OneClientDoesNotTakeAllHandshakes) {
  const SocketAddress from = client.with_port(0);
  ASSERT_TRUE(admission.begin_handshake(from));
  ASSERT_TRUE(admission.begin_handshake(from));
  await();
  send(proposal());
  dial_for_tcp();
  expect_declined(R::kConnectionLimit);
  EXPECT_TRUE(admission.begin_handshake(address("192.0.2.11:0")));
}

TEST_F(InboundHandshakeTest, GivesItsHandshakeBack) {
  accept_proposal();
  close();
  std::size_t room = 0;
  while (admission.begin_handshake()) ++room;
  EXPECT_EQ(room, kLimits.handshakes_max);
}

}  // namespace
}  // namespace fairlead::relay
