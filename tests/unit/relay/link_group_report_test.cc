// What is told of a link group: the gauges, which count it once whatever becomes of it, and the
// rows of the group and its links.

#include "relay/group/link_group_report.h"

#include <algorithm>
#include <array>
#include <string>

#include "driver_parts.h"

namespace fairlead::relay {
namespace {

constexpr BufferSizes kSizes{0, 0};

std::array<char, 32> padded(const std::string& name, char with = ' ') {
  std::array<char, 32> bytes;
  bytes.fill(with);
  std::copy(name.begin(), name.end(), bytes.begin());
  return bytes;
}

class LinkGroupReportTest : public DriverTest {
 protected:
  LinkGroupReportTest() : DriverTest(2) {}

  LinkGroupRow row() { return report.row(start, protocol, transport, memory, clock.at); }
  LinkGroupRow row_with(const smc::Terms& terms) {
    const smc::LinkGroup other(smc::GroupRole::kClient, terms, {}, clock.at);
    return report.row(start, other, transport, memory, clock.at);
  }
  std::uint64_t groups() const {
    return stats.link_groups_none.get() + stats.link_groups_single.get() +
           stats.link_groups_symmetric.get() + stats.link_groups_asymmetric_local.get() +
           stats.link_groups_asymmetric_peer.get();
  }

  LinkGroupReport report{stats};
};

TEST_F(LinkGroupReportTest, AGroupIsCountedByItsTypeFromTheFirstCallOn) {
  EXPECT_EQ(groups(), 0U);
  report.count(protocol);
  EXPECT_EQ(stats.link_groups_none.get(), 1U);
  confirm_first_link();
  report.count(protocol);
  EXPECT_EQ(stats.link_groups_single.get(), 1U);
  EXPECT_EQ(groups(), 1U);
  report.count(protocol);
  EXPECT_EQ(groups(), 1U) << "nothing has changed";
  add_second_link();
  report.count(protocol);
  EXPECT_EQ(stats.link_groups_symmetric.get(), 1U);
  EXPECT_EQ(groups(), 1U);
  {
    LinkGroupReport gone(stats);
    gone.count(protocol);
    EXPECT_EQ(groups(), 2U);
  }
  EXPECT_EQ(stats.link_groups_symmetric.get(), 1U) << "the first one stays counted";
  EXPECT_EQ(groups(), 1U);
  EXPECT_EQ(stats.links_active.get(), 2U);
}

TEST_F(LinkGroupReportTest, LinksThatShareAPortOfThePeerAreOfTheirOwnType) {
  confirm_first_link();
  connect_second_link({}, 1, kPeerHost);
  confirm(1);
  report.count(protocol);
  EXPECT_EQ(stats.link_groups_asymmetric_peer.get(), 1U);
  EXPECT_EQ(groups(), 1U);
}

TEST_F(LinkGroupReportTest, LinksThatShareAPortOfThisSideAreOfTheirOwnType) {
  confirm_first_link();
  connect_second_link({}, 0);
  confirm(1);
  report.count(protocol);
  EXPECT_EQ(stats.link_groups_asymmetric_local.get(), 1U);
  EXPECT_EQ(groups(), 1U);
}

TEST_F(LinkGroupReportTest, OnlyActiveLinksOfAUsableGroupAreCounted) {
  ASSERT_TRUE(create(0, one.at()));
  report.count(protocol);
  EXPECT_EQ(stats.links_active.get(), 0U);
  transport.destroy(0);
  confirm_first_link();
  report.count(protocol);
  EXPECT_EQ(stats.links_active.get(), 1U);
  connect_second_link();
  report.count(protocol);
  EXPECT_EQ(stats.links_active.get(), 1U) << "it is not confirmed";
  confirm(1);
  report.count(protocol);
  EXPECT_EQ(stats.links_active.get(), 2U);
  protocol.terminate(wire::DeleteLinkReason::kOperator, true, "the end");
  report.count(protocol);
  EXPECT_EQ(stats.links_active.get(), 0U);
  EXPECT_EQ(stats.link_groups_none.get(), 1U);
}

TEST_F(LinkGroupReportTest, ThePaddingOfAHostIsNoPartOfItsName) {
  ASSERT_TRUE(create(0, one.at()));
  EXPECT_EQ(row().peer_host, "");
  report.set_peer_host(padded("host-a"));
  EXPECT_EQ(row().peer_host, "host-a");
  report.set_peer_host(padded("b", '\0'));
  EXPECT_EQ(row().peer_host, "b") << "not behind the former one";
  report.set_peer_host(padded(std::string(32, 'x')));
  EXPECT_EQ(row().peer_host, std::string(32, 'x'));
}

TEST_F(LinkGroupReportTest, TheNameOfAHostEndsBeforeWhatCannotBePrinted) {
  ASSERT_TRUE(create(0, one.at()));
  for (const char bad : {'\n', '\x7f', '\xc3'}) {
    report.set_peer_host(padded(std::string("ab") + bad + "cd"));
    EXPECT_EQ(row().peer_host, "ab");
  }
}

TEST_F(LinkGroupReportTest, ARowTellsOfTheGroup) {
  confirm_first_link();
  ASSERT_TRUE(memory.take_element(kSizes));
  protocol.connection_added(0);
  protocol.connection_added(0);
  const LinkGroupRow told = row();
  EXPECT_EQ(told.id, "g-1");
  EXPECT_EQ(told.role, "server");
  EXPECT_EQ(told.type, "single");
  EXPECT_EQ(told.peer_id, to_string(start.peer));
  EXPECT_EQ(told.connections, 2U);
  EXPECT_EQ(told.connections_max, start.terms.max_connections);
  EXPECT_EQ(told.links_max, 2U);
  EXPECT_EQ(told.rmb_bytes, memory.rmbs().total_bytes());
  EXPECT_NE(told.rmb_bytes, 0U);
}

TEST_F(LinkGroupReportTest, AGroupIsIdleWithoutConnections) {
  confirm_first_link();
  clock.at += std::chrono::seconds(3);
  EXPECT_EQ(row().idle_seconds, 3.0);
  protocol.connection_added(0);
  EXPECT_EQ(row().idle_seconds, 0.0);
  protocol.connection_removed(0, clock.at);
  clock.at += std::chrono::milliseconds(500);
  EXPECT_EQ(row().idle_seconds, 0.5);
}

TEST_F(LinkGroupReportTest, TheVersionHasItsReleaseAndTheEidThatWasAgreedOn) {
  ASSERT_TRUE(create(0, one.at()));
  smc::Terms terms;
  std::copy_n("EID", 3, terms.eid.bytes.begin());
  const LinkGroupRow newest = row_with(terms);
  EXPECT_EQ(newest.role, "client");
  EXPECT_EQ(newest.version, "2.1");
  EXPECT_EQ(newest.ueid, wire::to_string(terms.eid));
  terms.release = 0;
  EXPECT_EQ(row_with(terms).version, "2.0");
  terms.version = 1;
  EXPECT_EQ(row_with(terms).version, "1");
  EXPECT_EQ(row_with(terms).ueid, "") << "version 1 has none";
}

TEST_F(LinkGroupReportTest, ARowTellsOfEachLink) {
  ASSERT_TRUE(create(0, one.at()));
  EXPECT_TRUE(row().links.empty()) << "the protocol has none yet";
  transport.destroy(0);
  confirm_first_link();
  connect_second_link();
  protocol.connection_added(0);
  transport.set_round_trip(0, std::chrono::milliseconds(250));
  const LinkGroupRow told = row();
  ASSERT_EQ(told.links.size(), 2U);
  const LinkRow& first = told.links[0];
  EXPECT_EQ(first.group, "g-1");
  EXPECT_EQ(first.number, protocol.links()[0]->number().value);
  EXPECT_EQ(first.state, "active");
  EXPECT_EQ(first.rnic, "one");
  EXPECT_EQ(first.port, 1U);
  EXPECT_EQ(first.local_gid, to_string(gid_of(1)));
  EXPECT_EQ(first.peer_gid, to_string(gid_of(kPeerHost)));
  EXPECT_EQ(first.local_qp, queue_pair(0).number().value);
  EXPECT_EQ(first.peer_qp, 500U);
  EXPECT_EQ(first.mtu_bytes, 1024U);
  EXPECT_EQ(first.connections, 1U);
  EXPECT_EQ(first.rtt_seconds, 0.25);
  const LinkRow& second = told.links[1];
  EXPECT_EQ(second.number, protocol.links()[1]->number().value);
  EXPECT_EQ(second.state, "activating");
  EXPECT_EQ(second.port, 2U);
  EXPECT_EQ(second.local_gid, to_string(gid_of(2)));
  EXPECT_EQ(second.peer_gid, to_string(gid_of(kPeerHost + 1)));
  EXPECT_EQ(second.local_qp, queue_pair(1).number().value);
  EXPECT_EQ(second.peer_qp, 501U);
  EXPECT_EQ(second.connections, 0U);
  EXPECT_EQ(second.rtt_seconds, 0.0);
}

TEST_F(LinkGroupReportTest, TheMtuIsThatOfThePeer) {
  rdma::PeerEndpoint peer = peer_endpoint(kPeerHost, 500);
  peer.mtu = Mtu::k4096;
  ASSERT_TRUE(create(0, one.at()) && transport.connect(0, peer));
  protocol.start_first_contact(transport.identity(0), identity_of(peer), clock.at);
  EXPECT_EQ(row().links.at(0).mtu_bytes, 4096U);
}

TEST_F(LinkGroupReportTest, AFailedLinkIsDownUntilTheGroupIsGone) {
  confirm_first_link();
  protocol.handle_link_down(0, clock.at, "cut");
  EXPECT_EQ(row().links.at(0).state, "down");
  EXPECT_EQ(row().type, "none");
}

}  // namespace
}  // namespace fairlead::relay
