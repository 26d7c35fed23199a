// The bytes of a handshake: what goes to the stream and waits for it, what is read, and which bytes
// are left for whoever has the stream next.

#include "relay/connection/clc_exchange.h"

#include <cerrno>

#include "clc_text.h"

namespace fairlead::relay {
namespace {

using Fetched = ClcExchange::Fetched;
using State = smc::Handshake::State;
using Written = ClcExchange::Written;

constexpr TimePoint kNow{std::chrono::hours(1)};
constexpr Duration kTimeout = std::chrono::seconds(6);

class ClcExchangeTest : public testing::Test {
 protected:
  ClcExchangeTest() {
    proposal.v2.emplace();
    proposal.v2->ueids.push(wire::Eid{});
  }
  void begin_client() {
    exchange.begin(smc::Handshake::client(proposal, PeerId{{1}}, kNow, kTimeout));
  }
  void begin_server() { exchange.begin(smc::Handshake::server(PeerId{{1}}, kNow, kTimeout)); }
  void fetch_and_take(const std::string& bytes) {
    net.feed(bytes);
    ASSERT_EQ(exchange.fetch(net), Fetched::kBytes);
    exchange.take(kNow);
  }
  std::string unread() {
    return {reinterpret_cast<const char*>(exchange.unread().data()), exchange.unread().size()};
  }
  State state() const { return exchange.handshake().state(); }

  wire::Proposal proposal;
  FakeStream net;
  ClcExchange exchange;
};

TEST_F(ClcExchangeTest, ItBeginsWithItsHandshake) {
  EXPECT_FALSE(exchange.begun());
  begin_server();
  EXPECT_TRUE(exchange.begun());
  EXPECT_TRUE(exchange.handshake().proposal_awaited());
}

TEST_F(ClcExchangeTest, AStreamThatIsNotWritableIsNotWrittenTo) {
  begin_server();
  net.set_connecting();
  EXPECT_EQ(exchange.write(net), Written::kAll) << "there is nothing";
  begin_client();
  net.write_error = ECONNRESET;
  EXPECT_EQ(exchange.write(net), Written::kBlocked);
  EXPECT_EQ(net.error, 0);
}

TEST_F(ClcExchangeTest, AMessageGoesOnWhereItsStreamWasFull) {
  begin_client();
  net.room = 0;
  ASSERT_TRUE(net.writable()) << "it has not said so";
  EXPECT_EQ(exchange.write(net), Written::kBlocked);
  EXPECT_EQ(net.outgoing, "");
  net.allow(10);
  EXPECT_EQ(exchange.write(net), Written::kBlocked);
  EXPECT_EQ(net.outgoing, encoded(proposal).substr(0, 10));
  net.allow(1000);
  EXPECT_EQ(exchange.write(net), Written::kAll);
  EXPECT_EQ(net.outgoing, encoded(proposal));
  EXPECT_EQ(exchange.write(net), Written::kAll);
  EXPECT_EQ(net.outgoing, encoded(proposal)) << "it is written once";
}

TEST_F(ClcExchangeTest, AWriteMayMeetAReset) {
  begin_client();
  net.write_error = ECONNRESET;
  EXPECT_EQ(exchange.write(net), Written::kReset);
}

TEST_F(ClcExchangeTest, AStreamMayHaveNothingAlthoughItIsReadable) {
  ASSERT_TRUE(net.readable());
  EXPECT_EQ(exchange.fetch(net), Fetched::kNothing);
  EXPECT_EQ(unread(), "");
  net.set_connecting();
  net.incoming = "early";
  EXPECT_EQ(exchange.fetch(net), Fetched::kNothing) << "it is not readable";
  EXPECT_EQ(net.reads, 1);
}

TEST_F(ClcExchangeTest, WhatIsReadIsKeptInOrder) {
  const std::string bytes = std::string(kHandshakeReadBytes, 'a') + "b";
  net.feed(bytes);
  EXPECT_EQ(exchange.fetch(net), Fetched::kBytes);
  EXPECT_EQ(unread(), bytes.substr(0, kHandshakeReadBytes));
  EXPECT_EQ(exchange.fetch(net), Fetched::kBytes);
  EXPECT_EQ(unread(), bytes);
}

TEST_F(ClcExchangeTest, AnEndAndAResetAreToldApart) {
  net.feed("last");
  net.feed_end();
  EXPECT_EQ(exchange.fetch(net), Fetched::kBytes);
  EXPECT_EQ(exchange.fetch(net), Fetched::kEnd);
  net.feed_reset();
  EXPECT_EQ(exchange.fetch(net), Fetched::kReset);
  EXPECT_EQ(unread(), "last");
}

TEST_F(ClcExchangeTest, BytesBehindAMessageAreLeft) {
  begin_client();
  fetch_and_take(encoded(wire::Decline()) + "of the application");
  EXPECT_EQ(state(), State::kTcp);
  EXPECT_EQ(unread(), "of the application");
}

TEST_F(ClcExchangeTest, AMessageMayComeInParts) {
  begin_server();
  const std::string bytes = encoded(proposal);
  fetch_and_take(bytes.substr(0, 20));
  EXPECT_EQ(state(), State::kAwaitingPeer);
  EXPECT_EQ(unread(), "");
  fetch_and_take(bytes.substr(20));
  EXPECT_EQ(state(), State::kInHand);
  EXPECT_EQ(unread(), "");
}

TEST_F(ClcExchangeTest, WhatIsNoClcIsLeftWhole) {
  begin_server();
  fetch_and_take("GET / HTTP/1.1\r\n");
  EXPECT_EQ(state(), State::kFailed);
  EXPECT_EQ(unread(), "GET / HTTP/1.1\r\n");
}

TEST_F(ClcExchangeTest, WhatTurnsOutToBeNoClcIsLeftFromItsBeginning) {
  begin_server();
  std::string bytes = encoded(proposal);
  bytes[4] = '\x7f';  // the type
  fetch_and_take(bytes.substr(0, 3));
  fetch_and_take(bytes.substr(3, 2));
  ASSERT_EQ(state(), State::kAwaitingPeer);
  fetch_and_take(bytes.substr(5) + "and more");
  EXPECT_EQ(state(), State::kFailed);
  EXPECT_EQ(unread(), bytes + "and more");
}

TEST_F(ClcExchangeTest, AMessageThatIsNotExpectedIsLeftWhole) {
  begin_client();
  const std::string bytes = encoded(proposal);
  fetch_and_take(bytes.substr(0, 30));
  ASSERT_EQ(state(), State::kAwaitingPeer);
  fetch_and_take(bytes.substr(30) + "and more");
  EXPECT_EQ(state(), State::kFailed);
  EXPECT_EQ(unread(), bytes + "and more");
}

}  // namespace
}  // namespace fairlead::relay
