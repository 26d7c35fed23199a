#include "smc/negotiate.h"

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
  const auto terms = judge_proposal(proposal_of(offer_of({"X", "B", "A"})), offer_of({"A", "B"}));
  ASSERT_TRUE(terms);
  EXPECT_EQ(wire::to_string(terms->eid), "B");
}

TEST(Proposal, AgreesOnTheSmallerLimits) {
  LocalOffer client = offer_of({"A"});
  client.max_connections = 100;
  LocalOffer server = offer_of({"A"});
  server.max_connections = 50;
  server.max_links = 2;
  const auto terms = judge_proposal(proposal_of(client), server);
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
    const auto terms = judge_proposal(proposal_of(client), server);
    ASSERT_TRUE(terms);
    EXPECT_EQ(terms->max_links, links);
  }
}

struct Refused {
  const char* name;
  void (*change)(wire::Proposal&);
  R reason;
};

class RefusedProposal : public testing::TestWithParam<Refused> {};

TEST_P(RefusedProposal, NamesTheReason) {
  wire::Proposal proposal = proposal_of(offer_of({"A"}));
  GetParam().change(proposal);
  const auto terms = judge_proposal(proposal, offer_of({"A"}));
  ASSERT_FALSE(terms);
  EXPECT_EQ(terms.error(), GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    Checks, RefusedProposal,
    testing::Values(
        Refused{"NoUsablePath", [](wire::Proposal& p) { p.v2_path = wire::ClcPath::kNone; },
                R::kPeerNoSmc},
        Refused{"SmcdOnly", [](wire::Proposal& p) { p.v2_path = wire::ClcPath::kSmcd; },
                R::kPeerNoSmc},
        Refused{"VersionOneOnly",
                [](wire::Proposal& p) {
                  p.version = 1;
                  p.v1_path = wire::ClcPath::kSmcr;
                  p.v2_path = wire::ClcPath::kNone;
                  p.v2.reset();
                },
                R::kNoRdmaDevice},
        Refused{"NoUeid", [](wire::Proposal& p) { p.v2->ueids.count = 0; }, R::kPeerNoUeid},
        Refused{"OtherUeid", [](wire::Proposal& p) { p.v2->ueids.items[0] = *wire::eid_from("Z"); },
                R::kNoDevice},
        Refused{"TooFewConnections", [](wire::Proposal& p) { p.v2->max_connections = 15; },
                R::kMaxConnectionsMismatch},
        Refused{"NoLinks", [](wire::Proposal& p) { p.v2->max_links = 0; }, R::kMaxLinksMismatch}),
    [](const auto& given) { return std::string(given.param.name); });

TEST(Proposal, ReleaseZeroHasFixedLimits) {
  wire::Proposal proposal = proposal_of(offer_of({"A"}));
  proposal.v2->release = 0;
  proposal.v2->max_connections = 0;
  const auto terms = judge_proposal(proposal, offer_of({"A"}));
  ASSERT_TRUE(terms);
  EXPECT_EQ(terms->release, 0);
  EXPECT_EQ(terms->max_connections, 255);
}

class Answer : public testing::Test {
 protected:
  LocalOffer offer = offer_of({"A"});
  wire::Proposal proposal = proposal_of(offer);
  Terms terms = *judge_proposal(proposal, offer);
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

}  // namespace
}  // namespace fairlead::smc
