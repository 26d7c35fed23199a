#include "smc/clc/handshake.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "smc/clc/negotiate.h"

namespace fairlead::smc {
namespace {

using State = Handshake::State;
constexpr Duration kPatience = std::chrono::milliseconds(100);
constexpr Duration kTimeout = std::chrono::seconds(6);

// A client and a server; the test transfers their bytes.
class HandshakePair : public testing::Test {
 protected:
  static LocalOffer make_offer() {
    LocalOffer offer;
    offer.peer_id.bytes[0] = 9;
    offer.ueids.push_back(*wire::eid_from("A"));
    return offer;
  }
  // Moves all output of one into the other; returns the number of bytes that were not accepted.
  std::size_t carry(Handshake& from, Handshake& to, const std::string& behind = "") {
    std::vector<std::byte> bytes(from.output().begin(), from.output().end());
    from.output_written(bytes.size());
    for (char c : behind) bytes.push_back(static_cast<std::byte>(c));
    return bytes.size() - to.handle_bytes(bytes, now);
  }
  wire::AcceptConfirm answer(wire::ClcType type, bool first_contact) {
    wire::AcceptConfirm message = make_answer(type, offer, terms, first_contact, true);
    message.alert_token = AlertToken{5};
    if (type == wire::ClcType::kConfirm && first_contact) message.gids.push(Gid{});
    return message;
  }
  void until_accept(bool first_contact) {
    carry(client, server);
    server.send_accept(answer(wire::ClcType::kAccept, first_contact), now);
    carry(server, client);
  }
  // The Confirm is not transferred yet.
  void until_confirm() {
    until_accept(true);
    client.send_confirm(answer(wire::ClcType::kConfirm, true));
    client.await_link(now);
  }

  TimePoint now{std::chrono::hours(1)};
  LocalOffer offer = make_offer();
  wire::Proposal proposal = make_proposal(offer, Gid{}, Mac{}, {});
  Terms terms = *judge_proposal(proposal, offer, 2);
  Handshake client = Handshake::client(proposal, offer.peer_id, now, kTimeout);
  Handshake server = Handshake::server(offer.peer_id, now, kTimeout);
};

wire::Decline declined_by(const Handshake& handshake) {
  return wire::decode_decline(handshake.output()).value();
}

TEST_F(HandshakePair, FirstContactIsEstablishedWhenTheLinkIsConfirmed) {
  EXPECT_EQ(carry(client, server), 0U);
  ASSERT_EQ(server.state(), State::kInHand);
  EXPECT_EQ(server.proposal(), proposal);
  server.send_accept(answer(wire::ClcType::kAccept, true), now);
  EXPECT_EQ(carry(server, client), 0U);
  ASSERT_EQ(client.state(), State::kInHand);
  client.send_confirm(answer(wire::ClcType::kConfirm, true));
  client.await_link(now);
  EXPECT_EQ(carry(client, server), 0U);
  ASSERT_EQ(server.state(), State::kInHand);
  server.await_link(now);
  server.link_confirmed();
  client.link_confirmed();
  EXPECT_EQ(server.state(), State::kEstablished);
  EXPECT_EQ(client.state(), State::kEstablished);
  EXPECT_FALSE(client.next_deadline());
}

TEST_F(HandshakePair, ReuseIsEstablishedByTheConfirm) {
  until_accept(false);
  client.send_confirm(answer(wire::ClcType::kConfirm, false));
  client.establish();
  carry(client, server);
  server.establish();
  EXPECT_EQ(client.state(), State::kEstablished);
  EXPECT_EQ(server.state(), State::kEstablished);
}

TEST_F(HandshakePair, TakesMessagesByteByByte) {
  const std::vector<std::byte> bytes(client.output().begin(), client.output().end());
  for (const std::byte& byte : bytes) {
    EXPECT_EQ(server.state(), State::kAwaitingPeer);
    EXPECT_EQ(server.handle_bytes({&byte, 1}, now), 1U);
  }
  EXPECT_EQ(server.state(), State::kInHand);
}

TEST_F(HandshakePair, LeavesTheApplicationsBytesBehindADecline) {
  carry(client, server);
  server.decline(FallbackReason::kNoRdmaDevice);
  EXPECT_EQ(carry(server, client, "220 ready"), 9U);
  EXPECT_EQ(client.state(), State::kTcp);
  EXPECT_EQ(client.outcome().side, Side::kPeer);
  EXPECT_EQ(client.outcome().reason, FallbackReason::kNoRdmaDevice);
  EXPECT_EQ(client.outcome().peer_code, 0x03030002U);
}

TEST_F(HandshakePair, OurOwnReasonsAreSentAsCodesOfTheProtocol) {
  carry(client, server);
  server.decline(FallbackReason::kDraining);
  EXPECT_EQ(server.outcome().reason, FallbackReason::kDraining);
  carry(server, client);
  EXPECT_EQ(client.outcome().peer_code, fallback_info(FallbackReason::kDraining).wire_code);
  EXPECT_LT(client.outcome().peer_code, 0x0f000000U);
}

TEST_F(HandshakePair, AnOutOfSyncDeclineTellsTheServerToDropTheGroup) {
  until_accept(false);
  client.decline(FallbackReason::kSyncError, true);
  carry(client, server);
  EXPECT_EQ(server.state(), State::kTcp);
  EXPECT_TRUE(server.outcome().out_of_sync);
}

TEST_F(HandshakePair, AVersionOneDeclineMayBeTheVeryFirstMessage) {
  wire::Decline decline{.version = 1, .reason = 0x03030000};
  std::array<std::byte, wire::kDeclineBytesMax> bytes;
  const std::size_t count = wire::encode(decline, bytes);
  EXPECT_EQ(count, 28U);
  EXPECT_EQ(server.handle_bytes(std::span(bytes).first(count), now), count);
  EXPECT_EQ(server.state(), State::kTcp);
  EXPECT_EQ(server.outcome().reason, FallbackReason::kNoDevice);
}

TEST_F(HandshakePair, BehindAProposalTheAcceptCanBeDeclined) {
  carry(client, server);
  Handshake next = Handshake::behind_proposal(offer.peer_id, now, kPatience);
  EXPECT_TRUE(next.output_empty());
  server.send_accept(answer(wire::ClcType::kAccept, true), now);
  carry(server, next);
  ASSERT_EQ(next.state(), State::kInHand);
  next.decline(FallbackReason::kDraining);
  EXPECT_EQ(carry(next, server, "hello"), 5U);
  EXPECT_EQ(server.state(), State::kTcp);
  EXPECT_EQ(next.state(), State::kTcp);
}

TEST_F(HandshakePair, BehindAProposalADeclineIsHeardAndSilenceEnds) {
  carry(client, server);
  Handshake next = Handshake::behind_proposal(offer.peer_id, now, kPatience);
  Handshake alone = Handshake::behind_proposal(offer.peer_id, now, kPatience);
  server.decline(FallbackReason::kNoDevice);
  carry(server, next);
  EXPECT_EQ(next.state(), State::kTcp);
  alone.handle_deadline(now + kPatience);
  EXPECT_EQ(alone.state(), State::kFailed);
}

TEST_F(HandshakePair, BehindADeclineNothingIsSaid) {
  const Handshake next = Handshake::behind_decline(offer.peer_id, FallbackReason::kDraining);
  EXPECT_EQ(next.state(), State::kTcp);
  EXPECT_TRUE(next.output_empty());
  EXPECT_EQ(next.outcome().reason, FallbackReason::kDraining);
  EXPECT_FALSE(next.next_deadline().has_value());
  EXPECT_FALSE(next.peer_may_have_declined());
}

TEST_F(HandshakePair, BehindAnAcceptTheConfirmCanBeDeclined) {
  until_accept(true);
  Handshake next = Handshake::behind_accept(offer.peer_id, now, kPatience);
  client.send_confirm(answer(wire::ClcType::kConfirm, true));
  client.await_link(now);
  carry(client, next);
  ASSERT_EQ(next.state(), State::kInHand);
  EXPECT_TRUE(next.answer().first_contact);
  next.decline(FallbackReason::kDraining);
  EXPECT_EQ(carry(next, client, "hello"), 5U);
  EXPECT_EQ(client.state(), State::kTcp);
}

TEST_F(HandshakePair, ARefusalIsADeclineBeforeAnyProposal) {
  Handshake refusal = Handshake::refusal(offer.peer_id, FallbackReason::kPolicyExcluded, "why");
  ASSERT_EQ(refusal.state(), State::kTcp);
  EXPECT_EQ(refusal.outcome().side, Side::kLocal);
  EXPECT_EQ(refusal.outcome().reason, FallbackReason::kPolicyExcluded);
  EXPECT_STREQ(refusal.outcome().detail, "why");
  EXPECT_FALSE(refusal.next_deadline().has_value());
  EXPECT_EQ(declined_by(refusal).version, 1);  // as Linux: nothing is known of the server
  EXPECT_EQ(declined_by(refusal).peer_id, offer.peer_id);
  EXPECT_EQ(carry(refusal, server, "GET /"), 5U);
  EXPECT_EQ(server.state(), State::kTcp);
  EXPECT_EQ(server.outcome().peer_code, fallback_info(FallbackReason::kPolicyExcluded).wire_code);
}

TEST_F(HandshakePair, ASilentPeerFailsEachWait) {
  server.handle_deadline(now + kTimeout - Duration(1));
  EXPECT_EQ(server.state(), State::kAwaitingPeer);
  server.handle_deadline(now + kTimeout);
  EXPECT_EQ(server.state(), State::kFailed);
  EXPECT_EQ(server.outcome().reason, FallbackReason::kHandshakeTimeout);
  client.handle_deadline(now + kTimeout);
  EXPECT_EQ(client.state(), State::kFailed);
}

TEST_F(HandshakePair, AnUnconfirmedLinkEndsInADeclineAfterAGrace) {
  until_confirm();
  client.output_written(client.output().size());
  client.handle_deadline(now + kLinkWaitClient);
  EXPECT_EQ(client.state(), State::kAwaitingLink);  // the peer's Decline would go first
  client.handle_deadline(now + kLinkWaitClient + kDeclineWait);
  EXPECT_EQ(client.state(), State::kTcp);
  EXPECT_EQ(client.outcome().reason, FallbackReason::kConfirmLinkTimeout);
  EXPECT_FALSE(client.output_empty());
}

// The two Declines may cross, and the peer's is then not the application's data.
TEST_F(HandshakePair, EitherSideMayHaveDeclinedFromTheConfirmOn) {
  Handshake refusing = Handshake::server(offer.peer_id, now, kTimeout);
  const std::vector<std::byte> proposed(client.output().begin(), client.output().end());
  refusing.handle_bytes(proposed, now);
  refusing.decline(FallbackReason::kNoRdmaDevice);
  EXPECT_FALSE(refusing.peer_may_have_declined());  // the client waits for the Accept
  until_confirm();
  carry(client, server);
  server.decline(FallbackReason::kConfirmLinkTimeout);
  EXPECT_TRUE(server.peer_may_have_declined());  // before it waits for the link itself
  client.decline(FallbackReason::kConfirmLinkTimeout);
  EXPECT_TRUE(client.peer_may_have_declined());
}

TEST_F(HandshakePair, BytesThatAreNotClcFailAndAreKept) {
  const std::string text = "GET / HTTP/1.1";
  server.handle_bytes(std::as_bytes(std::span(text.data(), text.size())), now);
  EXPECT_EQ(server.state(), State::kFailed);
  EXPECT_EQ(server.outcome().reason, FallbackReason::kMalformedClc);
}

TEST_F(HandshakePair, AMessageOutOfTurnFails) {
  wire::AcceptConfirm accept = answer(wire::ClcType::kAccept, true);
  std::array<std::byte, wire::kConfirmBytesMax> bytes;
  const std::size_t count = wire::encode(accept, bytes);
  server.handle_bytes(std::span(bytes).first(count), now);
  EXPECT_EQ(server.state(), State::kFailed);
}

TEST_F(HandshakePair, ADeclineSpeaksTheVersionOfThePeerAndNamesItsSender) {
  struct Case {
    bool offers_version_2;
    std::uint8_t answered;
  };
  for (const Case& one_case : {Case{false, 1}, Case{true, 1}, Case{true, 2}}) {
    LocalOffer speaks = offer;
    speaks.version_2 = one_case.offers_version_2;
    const wire::Proposal asked = make_proposal(speaks, Gid{}, Mac{}, {}, OfferV1{});
    Handshake one = Handshake::client(asked, offer.peer_id, now, kTimeout);
    Handshake other = Handshake::server(offer.peer_id, now, kTimeout);
    carry(one, other);
    Handshake refusing = other;
    refusing.decline(FallbackReason::kNoDevice);
    EXPECT_EQ(declined_by(refusing).version, one_case.offers_version_2 ? 2 : 1);
    EXPECT_EQ(declined_by(refusing).peer_id, offer.peer_id);
    terms = *judge_proposal(asked, speaks, one_case.answered);
    other.send_accept(answer(wire::ClcType::kAccept, false), now);
    carry(other, one);
    ASSERT_EQ(one.state(), State::kInHand);
    one.decline(FallbackReason::kNoDevice);
    EXPECT_EQ(declined_by(one).version, one_case.answered);
  }
}

TEST_F(HandshakePair, TheOutputIsWhatIsNotWrittenYet) {
  const std::size_t all = client.output().size();
  const std::byte fourth = client.output()[3];
  client.output_written(3);
  EXPECT_EQ(client.output().size(), all - 3);
  EXPECT_EQ(client.output()[0], fourth);
  EXPECT_FALSE(client.output_empty());
  client.output_written(all - 3);
  EXPECT_TRUE(client.output().empty());
  EXPECT_TRUE(client.output_empty());
}

TEST_F(HandshakePair, TheLargestProposalLeavesRoomForWhatFollows) {
  LocalOffer large = offer;
  while (large.ueids.size() < wire::kUeidsMax)
    large.ueids.push_back(*wire::eid_from("B" + std::to_string(large.ueids.size())));
  OfferV1 v1;
  for (std::size_t i = 0; i < wire::kIpv6PrefixesMax; ++i) v1.area.ipv6.push({});
  const wire::Proposal asked = make_proposal(large, Gid{}, Mac{}, {}, v1);
  client = Handshake::client(asked, offer.peer_id, now, kTimeout);
  carry(client, server);
  EXPECT_EQ(server.proposal(), asked);
  server.send_accept(answer(wire::ClcType::kAccept, true), now);
  carry(server, client);
  wire::AcceptConfirm confirm = answer(wire::ClcType::kConfirm, true);
  while (confirm.gids.count < wire::kConfirmGidsMax) confirm.gids.push(Gid{});
  client.send_confirm(confirm);
  client.decline(FallbackReason::kNoDevice);
  EXPECT_EQ(client.output().size(), wire::kConfirmBytesMax + wire::kDeclineBytesMax);
  carry(client, server);
  ASSERT_EQ(server.state(), State::kInHand);
  EXPECT_EQ(server.answer().gids.count, wire::kConfirmGidsMax);
}

TEST_F(HandshakePair, AConfirmThatIsNotWrittenYetIsVoidWhenThePeerDeclines) {
  for (const std::size_t written : {0U, 3U}) {
    Handshake one = Handshake::client(proposal, offer.peer_id, now, kTimeout);
    Handshake other = Handshake::server(offer.peer_id, now, kTimeout);
    carry(one, other);
    Handshake refusing = other;
    other.send_accept(answer(wire::ClcType::kAccept, true), now);
    carry(other, one);
    one.send_confirm(answer(wire::ClcType::kConfirm, true));
    one.await_link(now);
    one.output_written(written);
    refusing.decline(FallbackReason::kNoDevice);
    carry(refusing, one);
    ASSERT_EQ(one.state(), State::kTcp);
    EXPECT_EQ(one.next_deadline(), std::nullopt);
    EXPECT_EQ(one.output_empty(), written == 0);  // half a message has to be finished
    EXPECT_TRUE(one.unconsumed().empty());
  }
}

TEST_F(HandshakePair, ASecondAnswerWhileTheLinkIsAwaitedFails) {
  carry(client, server);
  server.send_accept(answer(wire::ClcType::kAccept, true), now);
  const std::vector<std::byte> accept(server.output().begin(), server.output().end());
  client.handle_bytes(accept, now);
  client.send_confirm(answer(wire::ClcType::kConfirm, true));
  client.await_link(now);
  client.handle_bytes(accept, now);
  EXPECT_EQ(client.state(), State::kFailed);
  EXPECT_EQ(client.outcome().reason, FallbackReason::kMalformedClc);
  EXPECT_EQ(client.next_deadline(), std::nullopt);
  EXPECT_EQ(client.unconsumed().size(), accept.size());
}

TEST_F(HandshakePair, EachWaitHasItsDeadlineAndNothingElseHasOne) {
  const TimePoint later = now + std::chrono::seconds(1);
  EXPECT_EQ(client.next_deadline(), now + kTimeout);
  EXPECT_EQ(server.next_deadline(), now + kTimeout);
  carry(client, server);
  EXPECT_EQ(server.next_deadline(), std::nullopt);
  server.handle_deadline(now + std::chrono::hours(1));
  EXPECT_EQ(server.state(), State::kInHand);
  server.send_accept(answer(wire::ClcType::kAccept, true), later);
  EXPECT_EQ(server.next_deadline(), later + kTimeout);
  carry(server, client);
  EXPECT_EQ(client.next_deadline(), std::nullopt);
  client.send_confirm(answer(wire::ClcType::kConfirm, true));
  client.await_link(later);
  EXPECT_EQ(client.next_deadline(), later + kLinkWaitClient);
  carry(client, server);
  server.await_link(later);
  EXPECT_EQ(server.next_deadline(), later + kLinkWaitServer);
  server.handle_deadline(later + kLinkWaitServer);
  EXPECT_EQ(server.next_deadline(), later + kLinkWaitServer + kDeclineWait);
  server.handle_deadline(later + kLinkWaitServer + kDeclineWait - Duration(1));
  EXPECT_EQ(server.state(), State::kAwaitingLink);
  server.handle_deadline(later + kLinkWaitServer + kDeclineWait);
  EXPECT_EQ(server.state(), State::kTcp);
  EXPECT_EQ(server.next_deadline(), std::nullopt);
  client.link_confirmed();
  EXPECT_EQ(client.next_deadline(), std::nullopt);
}

TEST_F(HandshakePair, AServerAwaitsTheProposalUntilItsFirstByte) {
  EXPECT_TRUE(server.proposal_awaited());
  EXPECT_FALSE(client.proposal_awaited());
  EXPECT_EQ(server.handle_bytes(client.output().first(1), now), 1U);
  EXPECT_FALSE(server.proposal_awaited());
  Handshake other = Handshake::server(offer.peer_id, now, kTimeout);
  carry(client, other);
  EXPECT_FALSE(other.proposal_awaited());
  other.send_accept(answer(wire::ClcType::kAccept, true), now);
  EXPECT_FALSE(other.proposal_awaited());
}

TEST_F(HandshakePair, NothingIsTakenWhereNothingIsAwaited) {
  carry(client, server);
  const std::string text = "early";
  EXPECT_EQ(server.handle_bytes(std::as_bytes(std::span(text.data(), text.size())), now), 0U);
  EXPECT_EQ(server.state(), State::kInHand);
}

}  // namespace
}  // namespace fairlead::smc
