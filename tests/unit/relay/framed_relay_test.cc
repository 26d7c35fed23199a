// Two FramedRelays, and the streams between and beside them.
#include "relay/pipes/framed_relay.h"

#include <gtest/gtest.h>

#include "fake_stream.h"

namespace fairlead::relay {
namespace {

using Role = smc::Deferral::Role;

class FramedRelayTest : public testing::Test {
 protected:
  // Carries the bytes that the client's proxy wrote to the server's, without the preface, and vice
  // versa.
  void carry() {
    constexpr std::size_t kPreface = wire::kFramePreface.size();
    std::string& out = client_net.outgoing;
    const std::size_t skip = preface_taken ? 0 : std::min(out.size(), kPreface);
    preface_taken = preface_taken || skip == kPreface;
    if (out.size() > skip) server_net.feed(out.substr(skip));
    if (!server_net.outgoing.empty()) client_net.feed(server_net.outgoing);
    out.clear();
    server_net.outgoing.clear();
  }
  void settle() {
    for (int i = 0; i < 200; ++i) {
      client_step = client.pump(now);
      server_step = server.pump(now);
      carry();
    }
  }

  TimePoint now{std::chrono::hours(1)};
  TcpRelayResources shared;
  FakeStream client_app, client_net, server_net, server_app;
  FramedRelay client{Role::kClient, {1 << 30, 1 << 30, std::chrono::hours(1)},
                     client_app,    client_net,
                     shared,        now};
  FramedRelay server{Role::kServer, {}, server_app, server_net, shared, now};
  RelayStep client_step = RelayStep::kIdle, server_step = RelayStep::kIdle;
  bool preface_taken = false;
};

TEST_F(FramedRelayTest, TheFirstBytesGoInOneWrite) {
  client_app.feed("hello");
  client.pump(now);
  EXPECT_EQ(client_net.outgoing, std::string("\xfa\x1e\xad\x01\x01\0\0\x05hello", 13));
}

TEST_F(FramedRelayTest, ASilentClientSaysAtOnceThatFramesFollow) {
  client.pump(now);
  EXPECT_EQ(client_net.outgoing, "\xfa\x1e\xad\x01");
}

TEST_F(FramedRelayTest, BytesAndEndsPass) {
  client_app.feed("request");
  client_app.feed_end();
  settle();
  EXPECT_EQ(server_app.outgoing, "request");
  EXPECT_TRUE(server_app.shut_down);
  EXPECT_TRUE(client_net.shut_down);  // no handshake can follow
  EXPECT_EQ(server_step, RelayStep::kIdle);
  server_app.feed("answer");
  server_app.feed_end();
  settle();
  EXPECT_EQ(client_app.outgoing, "answer");
  EXPECT_TRUE(client_app.shut_down);
  EXPECT_EQ(client_step, RelayStep::kEnded);
  EXPECT_EQ(server_step, RelayStep::kEnded);
}

// The client may still hand over, and the stream is then that of a handshake.
TEST_F(FramedRelayTest, TheServersEndLeavesTheStreamOpen) {
  server_app.feed_end();
  settle();
  EXPECT_TRUE(client_app.shut_down);
  EXPECT_FALSE(server_net.shut_down);
  client_app.feed_end();
  settle();
  EXPECT_EQ(client_step, RelayStep::kEnded);
  EXPECT_EQ(server_step, RelayStep::kEnded);
}

TEST_F(FramedRelayTest, AFinBehindTheClientsEndIsNoReset) {
  client_app.feed_end();
  settle();
  server_net.feed_end();
  server_app.feed("answer");
  settle();
  EXPECT_EQ(server_step, RelayStep::kIdle);
  EXPECT_EQ(client_app.outgoing, "answer");
  server_app.feed_end();
  settle();
  EXPECT_EQ(server_step, RelayStep::kEnded);
  EXPECT_EQ(client_step, RelayStep::kEnded);
}

// The application takes what came before; what is no frame is met by no other process.
TEST_F(FramedRelayTest, AParkedStreamThatBrokeTheRulesEndsBehindItsBytes) {
  server_app.allow(2);
  server_net.feed(std::string("\x01\0\0\x05hello\xff\xff\xff\xff\xff", 14));
  server.pump(now);
  ASSERT_STREQ(server.towards_app().fault(), "frame type");
  ParkedFrames parked = server.park();
  EXPECT_TRUE(parked.peer_lost);
  auto rules = smc::Deferral::resume(Role::kServer, {}, now, parked.rules);
  ASSERT_TRUE(rules) << rules.error().what;
  FramedRelay next(std::move(*rules), std::move(parked), server_app, server_net, shared);
  server_net.feed(std::string("\x01\0\0\x05later", 9));
  EXPECT_EQ(next.pump(now), RelayStep::kIdle);
  server_app.allow(100);
  EXPECT_EQ(next.pump(now), RelayStep::kReset);
  EXPECT_EQ(server_app.outgoing, "hello");
}

// Many small frames cost one write, and the data keeps its order.
TEST_F(FramedRelayTest, SmallFramesAreWrittenTogether) {
  std::string frames;
  std::string data;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    frames += std::string("\x01\0\0\x01", 4) + letter;
    data += letter;
  }
  server_net.feed(frames);
  server.pump(now);
  EXPECT_EQ(server_app.outgoing, data);
}

// Otherwise a peer could keep a worker, and all its other connections, busy for long.
TEST_F(FramedRelayTest, ATurnTakesFewerBytesOfSmallFrames) {
  constexpr std::string_view kFrame("\x01\0\0\x01x", 5);
  std::string sent;
  while (sent.size() < kTurnBytesMax) sent += kFrame;
  server_net.feed(sent);
  EXPECT_EQ(server.pump(now), RelayStep::kMore);
  EXPECT_LE(server_app.outgoing.size(), kCopyBytes / kFrame.size());
  while (server.pump(now) == RelayStep::kMore) continue;
  EXPECT_EQ(server_app.outgoing, std::string(sent.size() / kFrame.size(), 'x'));
}

TEST_F(FramedRelayTest, UrgentBytesStayInPlace) {
  client_app.feed("ab");
  client_app.feed_urgent('!');
  client_app.feed("cd");
  server_app.allow(1);
  settle();
  server_app.allow(100);
  settle();
  EXPECT_EQ(server_app.outgoing, "ab!cd");
  EXPECT_EQ(server_app.urgent_out, std::vector<std::size_t>{2});
}

// The peer's frames are accepted up to the limit although the application reads nothing.
TEST_F(FramedRelayTest, AStalledApplicationDoesNotHideAHandOver) {
  server_app.allow(10);
  client_app.feed(std::string(smc::kFramedBytesMax + 5000, 'x'));
  settle();
  EXPECT_EQ(client_app.incoming.size(), 5000U);
  EXPECT_EQ(server_app.outgoing.size(), 10U);
  client.towards_net().hand_over();
  settle();
  EXPECT_TRUE(server.deferral().peer_handed_over());
  // The remaining bytes go into the following relay.
  Backlog left = server.towards_app().release_waiting();
  server_app.allow(1 << 20);
  EXPECT_EQ(left.flush(server_app), Backlog::State::kEmpty);
  EXPECT_EQ(server_app.outgoing.size(), smc::kFramedBytesMax);
}

// It was paid for before the connection began.
TEST_F(FramedRelayTest, AStalledApplicationCostsNoMoreThanFramesMayCarry) {
  server_app.allow(0);
  EXPECT_EQ(server.towards_app().ahead_bytes_max(), smc::kFramedBytesMax);
  std::uint64_t taken = 0;
  for (std::size_t size = 1; taken != smc::kFramedBytesMax; size = size * 7 % 1009 + 1) {
    const std::size_t count = std::min<std::size_t>(size, smc::kFramedBytesMax - taken);
    const char head[] = {1, 0, static_cast<char>(count >> 8), static_cast<char>(count)};
    server_net.feed(std::string(head, sizeof head) + std::string(count, 'x'));
    server.pump(now);
    taken += count;
  }
  EXPECT_EQ(server.deferral().bytes_received(), smc::kFramedBytesMax);
  EXPECT_EQ(server.towards_app().release_waiting().held_bytes(), smc::kFramedBytesMax);
}

TEST_F(FramedRelayTest, BehindThePeersEndNoMoreIsExpected) {
  server_app.allow(10);
  client_app.feed(std::string(20'000, 'x'));
  client_app.feed_end();
  settle();
  EXPECT_EQ(server.towards_app().ahead_bytes_max(), 20'480U);  // whole steps
  server_app.allow(100'000);
  settle();
  EXPECT_EQ(server.towards_app().ahead_bytes_max(), 0U);
}

TEST_F(FramedRelayTest, AnEndedClientTakesWhatItsApplicationReads) {
  client_app.feed_end();
  settle();
  client_app.allow(10);
  server_app.feed(std::string(3 * smc::kFramedBytesMax, 'y'));
  client_net.allow(SIZE_MAX);
  for (int i = 0; i < 20; ++i) settle();
  EXPECT_EQ(client_app.outgoing.size(), 10U);
  client_app.allow(1 << 20);
  for (int i = 0; i < 20; ++i) settle();
  EXPECT_EQ(client_app.outgoing.size(), 3 * smc::kFramedBytesMax);
}

TEST_F(FramedRelayTest, AStreamThatEndsWithoutAnEndIsReset) {
  client_app.feed("half");
  settle();
  server_net.feed_end();
  EXPECT_EQ(server.pump(now), RelayStep::kReset);
  EXPECT_EQ(server_app.outgoing, "half");
  EXPECT_FALSE(server_app.shut_down);
}

TEST_F(FramedRelayTest, AResetComesBehindWhatWasSaid) {
  client_app.feed("last words");
  client_app.feed_reset();
  client_step = client.pump(now);
  EXPECT_EQ(client_step, RelayStep::kReset);
  carry();
  server_net.feed_reset();
  EXPECT_EQ(server.pump(now), RelayStep::kReset);
  EXPECT_EQ(server_app.outgoing, "last words");
}

TEST_F(FramedRelayTest, WhatCameBeforeAnEndWaitsForAReaderThatStalls) {
  server_app.allow(4);
  client_app.feed("last words");
  client_app.feed_end();
  settle();
  server_net.feed_end();
  server_net.error = EPIPE;
  EXPECT_EQ(server.pump(now), RelayStep::kIdle);
  now += std::chrono::hours(1);
  EXPECT_EQ(server.pump(now), RelayStep::kIdle);
  EXPECT_TRUE(server.ending());
  server_app.allow(100);
  EXPECT_EQ(server.pump(now), RelayStep::kReset);
  EXPECT_EQ(server_app.outgoing, "last words");
  EXPECT_TRUE(server_app.shut_down);
}

// The frame of the end may be among what is not read yet.
TEST_F(FramedRelayTest, AFinOfThePeerMayHaveAnEndBeforeIt) {
  client_app.feed_end();
  settle();
  client_app.allow(0);
  client_app.set_not_writable();
  server_app.feed(std::string(100'000, 'y'));
  server_app.feed_end();
  settle();
  ASSERT_FALSE(client.deferral().peer_ended());
  client_net.feed_end();
  client_net.error = EPIPE;
  EXPECT_EQ(client.pump(now), RelayStep::kIdle);
  now += std::chrono::hours(1);
  EXPECT_EQ(client.pump(now), RelayStep::kIdle);
  client_app.allow(1 << 20);
  while (client_step != RelayStep::kReset) client_step = client.pump(now);
  EXPECT_EQ(client_app.outgoing.size(), 100'000U);
  EXPECT_TRUE(client_app.shut_down);
}

TEST_F(FramedRelayTest, AResetBehindTheEndThatWasReadEndsBothStreams) {
  client_app.feed_end();
  settle();
  server_net.feed_end();
  EXPECT_EQ(server.pump(now), RelayStep::kIdle);
  server_net.error = EPIPE;
  EXPECT_EQ(server.pump(now), RelayStep::kReset);
  EXPECT_TRUE(server_app.shut_down);
}

// The peer's proxy has gone without a word, and frames have no end.
TEST_F(FramedRelayTest, AnEndlessStreamKeepsNoReaderForLong) {
  server_app.allow(4);
  client_app.feed("last words");
  settle();
  server_net.feed_reset();
  EXPECT_EQ(server.pump(now), RelayStep::kIdle);
  now += kResetDelay;
  EXPECT_EQ(server.pump(now), RelayStep::kReset);
  EXPECT_FALSE(server_app.shut_down);
}

// It tells the peer's kernel that nothing is missing.
TEST_F(FramedRelayTest, AFinFollowsTheEndBeforeTheReset) {
  server_app.feed("all");
  server_app.feed_end();
  server_app.error = EPIPE;
  server_net.unsent_bytes = 1;
  EXPECT_EQ(server.pump(now), RelayStep::kIdle);
  EXPECT_TRUE(server_net.shut_down);
  server_net.unsent_bytes = 0;
  EXPECT_EQ(server.pump(now), RelayStep::kReset);
}

// Bytes beyond the limit of frames, and a reset after them, are for the relay after the hand-over.
TEST_F(FramedRelayTest, AResetBehindMoreThanFramesCarryWaitsForTheHandOver) {
  client_app.feed(std::string(smc::kFramedBytesMax + 5000, 'x'));
  client_app.feed_reset();
  settle();
  now += 2 * kResetDelay;
  settle();
  EXPECT_EQ(client_step, RelayStep::kIdle);
  EXPECT_EQ(client_app.incoming.size(), 5000U);
  EXPECT_FALSE(client.next_deadline());
  EXPECT_TRUE(client.deferral().may_hand_over());
}

TEST_F(FramedRelayTest, AnApplicationThatTakesNothingMoreWaitsForTheHandOverWithItsLastWords) {
  client_app.feed(std::string(smc::kFramedBytesMax + 5000, 'x'));
  settle();
  client_app.write_error = ECONNRESET;
  server_app.feed("unheard");
  settle();
  now += 2 * kResetDelay;
  settle();
  EXPECT_EQ(client_step, RelayStep::kIdle);
  EXPECT_EQ(client_app.incoming.size(), 5000U);
  EXPECT_TRUE(client.towards_app().discards());
}

// Data that arrives together with the reset is read, although a write fails by the reset first.
TEST_F(FramedRelayTest, APeerThatIsOverIsReadToItsEnd) {
  client.pump(now);
  client.towards_net().hand_over();
  client_net.feed(std::string("\x01\0\0\x05reply", 9));
  client_net.feed_reset();
  client.end_peer();
  EXPECT_EQ(client.pump(now), RelayStep::kReset);
  EXPECT_EQ(client_app.outgoing, "reply");
}

TEST_F(FramedRelayTest, AStreamThatRefusesTheHandOverIsReadAgain) {
  client.pump(now);
  ASSERT_FALSE(client_net.readable());
  client_net.write_error = ECONNRESET;
  client.towards_net().hand_over();
  EXPECT_TRUE(client_net.readable());
  client.pump(now);
  EXPECT_TRUE(client.towards_app().lost());
}

TEST_F(FramedRelayTest, AnEndBehindTheHandOverOwesAHandOver) {
  server_app.feed_end();
  settle();
  client.towards_net().hand_over();
  client_net.feed_end();
  client.pump(now);
  EXPECT_TRUE(client.towards_app().lost());
}

}  // namespace
}  // namespace fairlead::relay
