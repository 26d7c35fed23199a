#include "smc/clc/negotiate.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

using R = FallbackReason;

LocalOffer offer_of(std::initializer_list<const char*> ueids) {
  LocalOffer offer;
  offer.peer_id.bytes = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const char* ueid : ueids) offer.ueids.push_back(*wire::eid_from(ueid));
  offer.host_name = "node one";
  return offer;
}

wire::Proposal proposal_of(const LocalOffer& offer) {
  return make_proposal(offer, Gid{}, Mac{}, {});
}

TEST(Proposal, OffersVersionTwoOnly) {
  const wire::Proposal proposal = proposal_of(offer_of({"A", "B"}));
  EXPECT_EQ(proposal.version, 2);
  EXPECT_EQ(proposal.v1_path, wire::ClcPath::kNone);
  EXPECT_EQ(proposal.v2_path, wire::ClcPath::kSmcr);
  ASSERT_TRUE(proposal.v2);
  EXPECT_EQ(proposal.v2->ueids.count, 2U);
  EXPECT_EQ(proposal.v2->release, 1);
}

TEST(Proposal, IsJudgedByTheClientsOrderOfUeids) {
  const auto terms =
      judge_proposal(proposal_of(offer_of({"X", "B", "A"})), offer_of({"A", "B"}), 2);
  ASSERT_TRUE(terms);
  EXPECT_EQ(wire::to_string(terms->eid), "B");
}

TEST(Proposal, AgreesOnTheSmallerLimits) {
  LocalOffer client = offer_of({"A"});
  client.max_connections = 100;
  LocalOffer server = offer_of({"A"});
  server.max_connections = 50;
  server.max_links = 2;
  const auto terms = judge_proposal(proposal_of(client), server, 2);
  ASSERT_TRUE(terms);
  EXPECT_EQ(terms->max_connections, 50);
  EXPECT_EQ(terms->max_links, 1);
}

TEST(Proposal, OffersThreeLinksAndLeavesTheChoiceToTheServer) {
  LocalOffer client = offer_of({"A"});
  client.max_links = kLinksPerGroupMax;
  for (std::uint8_t links = 1; links <= kLinksPerGroupMax; ++links) {
    LocalOffer server = offer_of({"A"});
    server.max_links = links;
    const auto terms = judge_proposal(proposal_of(client), server, 2);
    ASSERT_TRUE(terms);
    EXPECT_EQ(terms->max_links, links);
  }
}

TEST(Proposal, ThatIsRefusedNamesTheReason) {
  using wire::ClcPath;
  const struct {
    void (*change)(wire::Proposal&);
    R reason;
  } kTable[] = {
      {[](wire::Proposal& p) { p.v2_path = ClcPath::kNone; }, R::kPeerNoSmc},
      {[](wire::Proposal& p) { p.v2_path = ClcPath::kSmcd; }, R::kPeerNoSmc},
      {[](wire::Proposal& p) {
         p.version = 1;
         p.v1_path = ClcPath::kSmcr;
         p.v2_path = ClcPath::kNone;
         p.v2.reset();
       },
       R::kPeerNoSmc},
      {[](wire::Proposal& p) { p.v2->ueids.count = 0; }, R::kPeerNoUeid},
      {[](wire::Proposal& p) { p.v2->ueids.items[0] = *wire::eid_from("Z"); }, R::kNoDevice},
      {[](wire::Proposal& p) { p.v2->max_connections = 15; }, R::kMaxConnectionsMismatch},
      {[](wire::Proposal& p) { p.v2->max_links = 0; }, R::kMaxLinksMismatch}};
  for (const auto& row : kTable) {
    wire::Proposal proposal = proposal_of(offer_of({"A"}));
    row.change(proposal);
    const auto terms = judge_proposal(proposal, offer_of({"A"}), 2);
    ASSERT_FALSE(terms) << &row - kTable;
    EXPECT_EQ(terms.error(), row.reason) << &row - kTable;
  }
}

TEST(Proposal, ReleaseZeroHasFixedLimits) {
  wire::Proposal proposal = proposal_of(offer_of({"A"}));
  proposal.v2->release = 0;
  proposal.v2->max_connections = 0;
  const auto terms = judge_proposal(proposal, offer_of({"A"}), 2);
  ASSERT_TRUE(terms);
  EXPECT_EQ(*terms, (Terms{.release = 0, .max_links = 2, .eid = *wire::eid_from("A")}));
}

TEST(Proposal, CarriesWhatTheClientOffers) {
  LocalOffer offer = offer_of({"A"});
  offer.max_connections = 100;
  offer.max_links = 3;
  Gid gid;
  gid.bytes[15] = 7;
  Mac mac;
  mac.bytes[5] = 8;
  wire::VendorArea vendor;
  vendor.options[0] = 9;
  const wire::Proposal proposal = make_proposal(offer, gid, mac, vendor);
  EXPECT_EQ(proposal.peer_id, offer.peer_id);
  EXPECT_EQ(proposal.mac, mac);
  EXPECT_EQ(proposal.vendor, vendor);
  EXPECT_EQ(proposal.v2->gid, gid);
  EXPECT_EQ(proposal.v2->max_connections, 100);
  EXPECT_EQ(proposal.v2->max_links, 3);
  EXPECT_EQ(proposal.v2->ueids.items[0], offer.ueids[0]);
}

TEST(Proposal, SmcrBesideSmcdCounts) {
  wire::Proposal proposal = proposal_of(offer_of({"A"}));
  proposal.v1_path = proposal.v2_path = wire::ClcPath::kBoth;
  EXPECT_TRUE(judge_proposal(proposal, offer_of({"A"}), 2));
  EXPECT_TRUE(judge_proposal(proposal, offer_of({"A"}), 1));
  proposal.v1_path = wire::ClcPath::kSmcd;
  EXPECT_EQ(judge_proposal(proposal, offer_of({"A"}), 1).error(), R::kPeerNoSmc);
}

TEST(Proposal, TheLeastLimitsAreEnough) {
  wire::Proposal proposal = proposal_of(offer_of({"A"}));
  proposal.v2->max_connections = kConnectionsPerGroupMin;
  proposal.v2->release = 2;  // a newer one speaks ours too
  const auto terms = judge_proposal(proposal, offer_of({"A"}), 2);
  ASSERT_TRUE(terms);
  EXPECT_EQ(*terms,
            (Terms{.max_connections = kConnectionsPerGroupMin, .eid = offer_of({"A"}).ueids[0]}));
}

class Answer : public testing::Test {
 protected:
  LocalOffer offer = offer_of({"A"});
  wire::Proposal proposal = proposal_of(offer);
  Terms terms = *judge_proposal(proposal, offer, 2);
  wire::AcceptConfirm accept = make_answer(wire::ClcType::kAccept, offer, terms, true, true);
  wire::AcceptConfirm confirm = make_answer(wire::ClcType::kConfirm, offer, terms, true, true);
};

TEST_F(Answer, ToOurOwnProposalIsAccepted) {
  const auto judged = judge_accept(accept, proposal);
  ASSERT_TRUE(judged);
  EXPECT_EQ(*judged, terms);
  EXPECT_TRUE(judge_confirm(confirm, accept, terms));
}

TEST_F(Answer, HostNameIsPaddedAsciiWithoutBlanks) {
  const auto& name = accept.first_contact_v2->host_name;
  EXPECT_EQ(std::string(name.begin(), name.begin() + 9), "node-one ");
}

TEST_F(Answer, WithAnotherPathIsAModeMismatch) {
  accept.path = wire::ClcPath::kSmcd;
  EXPECT_EQ(judge_accept(accept, proposal).error(), R::kModeMismatch);
}

TEST_F(Answer, WithMoreThanWasOfferedIsRefused) {
  proposal.v2->max_connections = 100;
  accept.first_contact_v2->max_connections = 101;
  EXPECT_EQ(judge_accept(accept, proposal).error(), R::kMaxConnectionsMismatch);
  accept.first_contact_v2->max_connections = 15;
  EXPECT_EQ(judge_accept(accept, proposal).error(), R::kMaxConnectionsMismatch);
  accept.first_contact_v2->max_connections = 100;
  accept.first_contact_v2->max_links = 0;
  EXPECT_EQ(judge_accept(accept, proposal).error(), R::kMaxLinksMismatch);
  accept.first_contact_v2->max_links = 2;
  EXPECT_EQ(judge_accept(accept, proposal).error(), R::kMaxLinksMismatch);
}

TEST_F(Answer, ConfirmMustRepeatTheAccept) {
  confirm.first_contact_v2->release = 0;
  EXPECT_EQ(judge_confirm(confirm, accept, terms).error(), R::kReleaseMismatch);
  confirm.first_contact_v2->release = 1;
  confirm.first_contact_v2->max_connections = 77;
  EXPECT_EQ(judge_confirm(confirm, accept, terms).error(), R::kMaxConnectionsMismatch);
  confirm.first_contact_v2->max_connections = terms.max_connections;
  confirm.first_contact_v2->max_links = 2;
  EXPECT_EQ(judge_confirm(confirm, accept, terms).error(), R::kMaxLinksMismatch);
  confirm.first_contact = false;
  EXPECT_EQ(judge_confirm(confirm, accept, terms).error(), R::kSyncError);
}

TEST_F(Answer, WithoutAFirstContactKeepsWhatWasOffered) {
  proposal.v2->max_connections = 100;
  proposal.v2->max_links = 3;
  accept = make_answer(wire::ClcType::kAccept, offer, terms, false, true);
  const auto judged = judge_accept(accept, proposal);
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->version, 2);
  EXPECT_EQ(judged->eid, terms.eid);
  EXPECT_EQ(judged->max_connections, 100);
  EXPECT_EQ(judged->max_links, 3);
  confirm = make_answer(wire::ClcType::kConfirm, offer, terms, false, true);
  EXPECT_TRUE(judge_confirm(confirm, accept, terms));
}

TEST_F(Answer, WithLessThanWasOfferedIsAgreed) {
  proposal.v2->max_links = 3;
  accept.first_contact_v2->max_connections = kConnectionsPerGroupMin;
  accept.first_contact_v2->max_links = 2;
  const auto judged = judge_accept(accept, proposal);
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->max_connections, kConnectionsPerGroupMin);
  EXPECT_EQ(judged->max_links, 2);
}

TEST_F(Answer, OfReleaseZeroHasFixedLimitsAndNamesNone) {
  proposal.v2->release = 0;
  proposal.v2->max_connections = 100;
  const Terms fixed = *judge_proposal(proposal, offer, 2);
  accept = make_answer(wire::ClcType::kAccept, offer, fixed, true, true);
  EXPECT_EQ(accept.first_contact_v2->release, 0);
  EXPECT_EQ(accept.first_contact_v2->max_connections, 0);
  EXPECT_EQ(accept.first_contact_v2->max_links, 0);
  const auto judged = judge_accept(accept, proposal);
  ASSERT_TRUE(judged);
  EXPECT_EQ(*judged, fixed);
  EXPECT_EQ(judged->max_connections, 255);
  EXPECT_EQ(judged->max_links, 2);
  EXPECT_TRUE(
      judge_confirm(make_answer(wire::ClcType::kConfirm, offer, fixed, true, true), accept, fixed));
}

TEST_F(Answer, OfANewerReleaseThanWasOfferedIsRefused) {
  accept.first_contact_v2->release = 2;
  EXPECT_EQ(judge_accept(accept, proposal).error(), R::kReleaseMismatch);
}

TEST_F(Answer, ToAFirstContactNeedsItsExtensionAndOurPath) {
  accept.first_contact_v2.reset();
  EXPECT_EQ(judge_accept(accept, proposal).error(), R::kModeMismatch);
  confirm.first_contact_v2.reset();
  EXPECT_EQ(judge_confirm(confirm, accept, terms).error(), R::kModeMismatch);
  confirm.path = wire::ClcPath::kSmcd;
  EXPECT_EQ(judge_confirm(confirm, accept, terms).error(), R::kModeMismatch);
}

TEST_F(Answer, NamesItsSenderAndWhatWasAgreed) {
  for (const bool direct : {false, true}) {
    const auto made = make_answer(wire::ClcType::kConfirm, offer, terms, true, direct);
    EXPECT_EQ(made.type, wire::ClcType::kConfirm);
    EXPECT_EQ(made.peer_id, offer.peer_id);
    EXPECT_EQ(made.eid, terms.eid);
    EXPECT_EQ(made.first_contact_v2->direct, direct);
    EXPECT_EQ(made.first_contact_v2->max_connections, terms.max_connections);
    EXPECT_EQ(made.first_contact_v2->max_links, terms.max_links);
  }
}

TEST_F(Answer, AnyHostNameIsMadeFit) {
  const auto name_of = [&](const std::string& host_name) {
    offer.host_name = host_name;
    const auto made = make_answer(wire::ClcType::kAccept, offer, terms, true, true);
    const auto& name = made.first_contact_v2->host_name;
    return std::string(name.begin(), name.end());
  };
  EXPECT_EQ(name_of(std::string(40, 'h')), std::string(32, 'h'));
  EXPECT_EQ(name_of("~!\x7f\xff\x1f\x20"), "~!----" + std::string(26, ' '));
}

wire::IpArea ipv4_area(std::array<std::uint8_t, 4> network, std::uint8_t bits) {
  wire::IpArea area;
  area.ipv4_network = network;
  area.ipv4_length_bits = bits;
  return area;
}

Gid gid_of(std::array<std::uint8_t, 16> bytes) { return Gid{bytes}; }

class VersionOne : public testing::Test {
 protected:
  LocalOffer offer = offer_of({"A"});
  OfferV1 v1{gid_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1}),
             ipv4_area({10, 9, 0, 0}, 24)};
  wire::Proposal beside() const { return make_proposal(offer, Gid{}, Mac{}, {}, v1); }
  wire::Proposal alone() const {
    LocalOffer held = offer;
    held.version_2 = false;
    return make_proposal(held, Gid{}, Mac{}, {}, v1);
  }
};

TEST_F(VersionOne, IsProposedBesideVersionTwoOrAlone) {
  const wire::Proposal both = beside();
  EXPECT_EQ(both.version, 2);
  EXPECT_EQ(both.v1_path, wire::ClcPath::kSmcr);
  EXPECT_EQ(both.v1_gid, v1.gid);
  EXPECT_EQ(both.ip_area, v1.area);
  EXPECT_TRUE(both.v2);
  const wire::Proposal one = alone();
  EXPECT_EQ(one.version, 1);
  EXPECT_EQ(one.v1_path, wire::ClcPath::kSmcr);
  EXPECT_EQ(one.v2_path, wire::ClcPath::kNone);
  EXPECT_FALSE(one.v2);
}

TEST_F(VersionOne, HasFixedLimitsAndTheServersOwnLimitOfConnections) {
  LocalOffer server = offer;
  server.max_connections = 40;
  const auto terms = judge_proposal(alone(), server, 1);
  ASSERT_TRUE(terms);
  EXPECT_EQ(*terms, (Terms{.version = 1, .release = 0, .max_connections = 40, .max_links = 2}));
}

TEST_F(VersionOne, IsJudgedOnlyWhereBothSidesSpeakIt) {
  EXPECT_EQ(judge_proposal(alone(), offer, 2).error(), R::kPeerNoSmc);
  EXPECT_TRUE(judge_proposal(beside(), offer, 2));
  EXPECT_TRUE(judge_proposal(beside(), offer, 1));
  EXPECT_EQ(judge_proposal(proposal_of(offer), offer, 1).error(), R::kPeerNoSmc);
  LocalOffer server = offer;
  server.version_1 = false;
  EXPECT_EQ(judge_proposal(alone(), server, 1).error(), R::kPeerNoSmc);
  server.version_1 = true;
  server.version_2 = false;
  EXPECT_EQ(judge_proposal(beside(), server, 2).error(), R::kPeerNoSmc);
}

TEST_F(VersionOne, AnswersHaveNoExtension) {
  const Terms terms = *judge_proposal(alone(), offer, 1);
  for (const bool first_contact : {true, false}) {
    const auto accept = make_answer(wire::ClcType::kAccept, offer, terms, first_contact, true);
    EXPECT_EQ(accept.version, 1);
    EXPECT_FALSE(accept.first_contact_v2);
    EXPECT_EQ(accept.first_contact, first_contact);
    for (const wire::Proposal& proposal : {alone(), beside()}) {
      const auto judged = judge_accept(accept, proposal);
      ASSERT_TRUE(judged);
      EXPECT_EQ(judged->version, 1);
      EXPECT_EQ(judged->max_connections, 255);
    }
    const auto confirm = make_answer(wire::ClcType::kConfirm, offer, terms, first_contact, true);
    EXPECT_TRUE(judge_confirm(confirm, accept, terms));
  }
}

TEST_F(VersionOne, AnAnswerInAVersionThatWasNotOfferedIsAModeMismatch) {
  const Terms one = *judge_proposal(alone(), offer, 1);
  const Terms two = *judge_proposal(beside(), offer, 2);
  const auto in_one = make_answer(wire::ClcType::kAccept, offer, one, true, true);
  const auto in_two = make_answer(wire::ClcType::kAccept, offer, two, true, true);
  EXPECT_EQ(judge_accept(in_two, alone()).error(), R::kModeMismatch);
  EXPECT_EQ(judge_accept(in_one, proposal_of(offer)).error(), R::kModeMismatch);
}

TEST_F(VersionOne, AConfirmInAnotherVersionThanTheAcceptIsAVersionMismatch) {
  const Terms one = *judge_proposal(beside(), offer, 1);
  const Terms two = *judge_proposal(beside(), offer, 2);
  const auto accept = make_answer(wire::ClcType::kAccept, offer, one, true, true);
  const auto confirm = make_answer(wire::ClcType::kConfirm, offer, two, true, true);
  EXPECT_EQ(judge_confirm(confirm, accept, one).error(), R::kVersionMismatch);
}

TEST_F(VersionOne, TheSubnetMustBeTheClientsOwnAndOurs) {
  const Subnets own{ipv4_area({10, 9, 0, 0}, 24), 0};
  const auto client = *SocketAddress::parse("10.9.0.2:0");
  EXPECT_EQ(judge_subnet(v1.area, own, client), std::nullopt);
  EXPECT_EQ(judge_subnet(v1.area, own, *SocketAddress::parse("[::ffff:10.9.0.2]:0")), std::nullopt);
  const auto mismatch = std::optional(R::kPrefixMismatch);
  EXPECT_EQ(judge_subnet(v1.area, own, *SocketAddress::parse("10.9.1.2:0")), mismatch);
  EXPECT_EQ(judge_subnet(ipv4_area({10, 8, 0, 0}, 24), own, client), mismatch);
  EXPECT_EQ(judge_subnet(ipv4_area({10, 9, 0, 0}, 16), own, client), mismatch);
  EXPECT_EQ(judge_subnet(ipv4_area({10, 9, 0, 0}, 255), own, client), mismatch);
  EXPECT_EQ(judge_subnet(v1.area, own, *SocketAddress::parse("[fd00::2]:0")), mismatch);
}

TEST_F(VersionOne, OneOfTheIpv6PrefixesMustBeInCommon) {
  const wire::Ipv6Prefix shop{{0xfd, 0, 0, 1}, 64};
  const wire::Ipv6Prefix other{{0xfd, 0, 0, 2}, 64};
  const wire::Ipv6Prefix bad{{0xfd, 0, 0, 1}, 129};
  wire::IpArea both, one, none;
  both.ipv6.push(other);
  both.ipv6.push(shop);
  one.ipv6.push(shop);
  none.ipv6.push(bad);
  const auto client = *SocketAddress::parse("[fd00:1::2]:0");
  EXPECT_EQ(judge_subnet(both, {one, 0}, client), std::nullopt);
  EXPECT_EQ(judge_subnet(one, {both, 0}, client), std::nullopt);
  const auto mismatch = std::optional(R::kPrefixMismatch);
  EXPECT_EQ(judge_subnet(none, {none, 0}, client), mismatch);
  EXPECT_EQ(judge_subnet({}, {one, 0}, client), mismatch);
  EXPECT_EQ(judge_subnet(one, {one, 0}, *SocketAddress::parse("[fd00:3::2]:0")), mismatch);
  // A prefix of this side counts only for a client inside of it.
  EXPECT_EQ(judge_subnet(both, {one, 0}, *SocketAddress::parse("[fd00:2::2]:0")), mismatch);
}

TEST_F(VersionOne, ALinkLocalGidTellsTheVlan) {
  const Gid tagged = gid_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0x00, 0x2a, 0, 0, 1});
  const Gid other = gid_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0x0f, 0xfe, 0, 0, 1});
  const Gid odd = gid_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0x10, 0x00, 0, 0, 1});
  const Gid mapped = gid_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1});
  EXPECT_EQ(vlan_of(v1.gid), 0);
  EXPECT_EQ(vlan_of(tagged), 42);
  EXPECT_EQ(vlan_of(other), 4094);
  EXPECT_EQ(vlan_of(odd), std::nullopt);
  EXPECT_EQ(vlan_of(mapped), std::nullopt);
  // Others than fe80::/10.
  EXPECT_EQ(vlan_of(gid_of({0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0x2a, 0, 0, 1})),
            std::nullopt);
  EXPECT_EQ(vlan_of(gid_of({0x20, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0x2a, 0, 0, 1})),
            std::nullopt);
  EXPECT_TRUE(vlans_agree(tagged, tagged));
  for (const Gid& gid : {tagged, other, v1.gid}) {
    EXPECT_TRUE(vlans_agree(gid, mapped));
    EXPECT_TRUE(vlans_agree(mapped, gid));
  }
  EXPECT_FALSE(vlans_agree(tagged, v1.gid));
  EXPECT_FALSE(vlans_agree(tagged, other));
}

TEST_F(VersionOne, AnAnswerFromAnotherVlanIsRefused) {
  auto accept =
      make_answer(wire::ClcType::kAccept, offer, *judge_proposal(alone(), offer, 1), true, true);
  accept.gid = v1.gid;
  EXPECT_TRUE(judge_accept(accept, alone()));
  accept.gid.bytes[11] = 0;
  accept.gid.bytes[12] = 42;
  EXPECT_EQ(judge_accept(accept, alone()).error(), R::kVlan);
  EXPECT_EQ(judge_accept(accept, beside()).error(), R::kVlan);
}

TEST_F(VersionOne, AnySizeOfSubnetIsComparedToTheBit) {
  const auto judged = [](std::array<std::uint8_t, 4> network, std::uint8_t bits, const char* from) {
    const Subnets own{ipv4_area(network, bits), 0};
    return !judge_subnet(own.area, own, *SocketAddress::parse(from));
  };
  EXPECT_TRUE(judged({10, 9, 8, 7}, 32, "10.9.8.7:0"));
  EXPECT_FALSE(judged({10, 9, 8, 7}, 32, "10.9.8.6:0"));
  EXPECT_TRUE(judged({10, 9, 16, 0}, 20, "10.9.31.255:0"));
  EXPECT_FALSE(judged({10, 9, 16, 0}, 20, "10.9.32.0:0"));
  EXPECT_TRUE(judged({10, 9, 8, 6}, 31, "10.9.8.7:0"));
  EXPECT_FALSE(judged({10, 9, 8, 6}, 31, "10.9.8.8:0"));
  EXPECT_TRUE(judged({0, 0, 0, 0}, 0, "192.168.1.1:0"));
}

TEST_F(VersionOne, AWholeIpv6AddressIsAPrefixToo) {
  wire::IpArea one;
  one.ipv6.push({{0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, 128});
  EXPECT_EQ(judge_subnet(one, {one, 0}, *SocketAddress::parse("[fd00:1::2]:0")), std::nullopt);
  EXPECT_TRUE(judge_subnet(one, {one, 0}, *SocketAddress::parse("[fd00:1::3]:0")));
}

}  // namespace
}  // namespace fairlead::smc
