// Descriptions of parked connections: what comes back, and bytes that are no description.
#include "parking/description.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string_view>
#include <tuple>

namespace fairlead::parking {
namespace {

using relay::ParkedConnection;
using relay::ParkedFrames;
using relay::ParkedSockets;
using relay::ParkedTcp;
using relay::ParkedUndialled;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

event::ParkedStream stream(const char* peer, int error = 0) {
  return {FileDescriptor(::eventfd(0, EFD_CLOEXEC)), *SocketAddress::parse(peer), error};
}

ParkedSockets tcp() {
  ParkedSockets sockets;
  sockets.state.direction = Direction::kInbound;
  sockets.state.destination = *SocketAddress::parse("[fd00::1]:80");
  sockets.state.arrival = relay::Arrival::kRedirected;
  sockets.state.age = std::chrono::seconds(5);
  sockets.state.tx = 1;
  sockets.state.rx = 2;
  sockets.state.framed_tx = 3;
  sockets.state.reason = FallbackReason::kDisabled;
  sockets.state.client_address = ClientAddress::kShown;
  sockets.state.client_slot = 17;
  ParkedTcp mode;
  mode.towards_app.waiting = {bytes_of("hello"), 4, 100};
  mode.towards_net.undecided = bytes_of("\xe2");
  mode.towards_net.late_decline = mode.towards_net.late_return = true;
  mode.towards_net.end_read = true;
  sockets.state.mode = std::move(mode);
  sockets.app = stream("127.0.0.1:6379");
  sockets.net = stream("[fd00::2]:40000", ECONNRESET);
  return sockets;
}

ParkedSockets frames() {
  ParkedSockets sockets;
  sockets.state.destination = *SocketAddress::parse("10.0.0.2:80");
  ParkedFrames mode;
  mode.rules.sent = {10, false, false};
  mode.rules.received = {20, true, false};
  mode.rules.turns = 3;
  mode.rules.answered = true;
  mode.rules.head[0] = std::byte{1};
  mode.rules.head_bytes = 1;
  mode.rules.windows = true;
  mode.rules.sent_max = 5000;
  mode.rules.received_max = 6000;
  mode.to_net.bytes = bytes_of("abc");
  mode.to_app = {bytes_of("xyz"), std::nullopt, 7};
  mode.app_bytes = 10;
  mode.preface_due = true;
  mode.app_finished = true;
  sockets.state.mode = std::move(mode);
  sockets.app = stream("10.0.0.1:40000");
  sockets.net = stream("10.0.0.2:80");
  return sockets;
}

ParkedSockets undialled() {
  ParkedSockets sockets;
  sockets.state.destination = *SocketAddress::parse("10.0.0.2:81");
  sockets.app = stream("10.0.0.1:40001");
  return sockets;
}

Parked parked() {
  Parked all;
  all.listeners.push_back(
      {*SocketAddress::parse("[::]:4540"), FileDescriptor(::eventfd(0, EFD_CLOEXEC))});
  all.connections.push_back(tcp());
  all.connections.push_back(frames());
  all.connections.push_back(undialled());
  all.proxy_version = "1.2.3";
  all.parked_at = TimePoint(std::chrono::seconds(99));
  all.ended = 4;
  return all;
}

std::vector<FileDescriptor> descriptors(std::size_t count) {
  std::vector<FileDescriptor> made;
  for (std::size_t i = 0; i < count; ++i) made.emplace_back(::dup(STDERR_FILENO));
  return made;
}

constexpr std::size_t kDescriptors = 6;

auto facts_of(const ParkedConnection& one) {
  return std::tuple(one.direction, one.destination, one.arrival, one.age, one.tx, one.rx,
                    one.framed_tx, one.reason, one.client_address, one.client_slot);
}
auto facts_of(const relay::BacklogContent& one) {
  return std::tuple(one.bytes, one.urgent_at, one.written);
}
auto facts_of(const relay::ParkedTcpHalf& one) {
  return std::tuple(facts_of(one.waiting), one.undecided, one.late_decline, one.late_return,
                    one.end_read, one.end_passed_on);
}
auto facts_of(const ParkedFrames& one) {
  const auto& rules = one.rules;
  return std::tuple(std::tuple(rules.sent.bytes, rules.sent.ended, rules.received.bytes,
                               rules.received.ended, rules.turns, rules.answered, rules.head,
                               rules.head_bytes, rules.windows, rules.sent_max, rules.received_max),
                    facts_of(one.to_net), facts_of(one.to_app), one.app_bytes, one.preface_due,
                    one.behind, one.app_refuses, one.app_finished, one.peer_over);
}

TEST(DescriptionTest, EverythingComesBack) {
  EncodedDescription encoded = encode(parked());
  ASSERT_EQ(encoded.descriptors.size(), kDescriptors);
  const auto decoded = decode(encoded.bytes, std::move(encoded.descriptors));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->proxy_version, "1.2.3");
  EXPECT_EQ(decoded->parked_at, TimePoint(std::chrono::seconds(99)));
  EXPECT_EQ(decoded->ended, 4U);
  ASSERT_EQ(decoded->listeners.size(), 1U);
  EXPECT_EQ(to_string(decoded->listeners[0].address), "[::]:4540");
  ASSERT_EQ(decoded->connections.size(), 3U);

  const ParkedConnection& first = decoded->connections[0].state;
  EXPECT_EQ(facts_of(first), facts_of(tcp().state));
  const auto& mode = std::get<ParkedTcp>(first.mode);
  const ParkedSockets tcp_before = tcp();
  const auto& mode_before = std::get<ParkedTcp>(tcp_before.state.mode);
  EXPECT_EQ(facts_of(mode.towards_app), facts_of(mode_before.towards_app));
  EXPECT_EQ(facts_of(mode.towards_net), facts_of(mode_before.towards_net));
  EXPECT_EQ(decoded->connections[0].net->error, ECONNRESET);
  EXPECT_EQ(to_string(decoded->connections[0].app->peer), "127.0.0.1:6379");

  const ParkedSockets frames_before = frames();
  EXPECT_EQ(facts_of(std::get<ParkedFrames>(decoded->connections[1].state.mode)),
            facts_of(std::get<ParkedFrames>(frames_before.state.mode)));

  const ParkedSockets& last = decoded->connections[2];
  EXPECT_TRUE(std::holds_alternative<ParkedUndialled>(last.state.mode));
  EXPECT_TRUE(last.app && !last.net);
}

TEST(DescriptionTest, TheNumberOfDescriptorsIsThatOfTheDescription) {
  const EncodedDescription encoded = encode(parked());
  EXPECT_FALSE(decode(encoded.bytes, descriptors(kDescriptors - 1)));
  EXPECT_FALSE(decode(encoded.bytes, descriptors(kDescriptors + 1)));
  EXPECT_TRUE(decode(encoded.bytes, descriptors(kDescriptors)));
}

TEST(DescriptionTest, NoCutLosesAConnection) {
  const EncodedDescription encoded = encode(parked());
  for (std::size_t count = 0; count < encoded.bytes.size(); ++count) {
    const auto decoded = decode(std::span(encoded.bytes).first(count), descriptors(kDescriptors));
    EXPECT_TRUE(!decoded || decoded->connections.size() == 3) << count;
  }
}

TEST(DescriptionTest, AnotherVersionIsNotUnderstood) {
  std::vector<std::byte> bytes = encode(parked()).bytes;
  // The last value of a field counts, in protobuf.
  bytes.push_back(std::byte{0x08});
  for (const std::uint32_t version : {0U, kDescriptionVersion + 1}) {
    bytes.push_back(static_cast<std::byte>(version));
    const auto decoded = decode(bytes, descriptors(kDescriptors));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, Errc::kUnsupported);
    bytes.pop_back();
  }
}

// The last value of a field counts, in protobuf: here the version, which an older proxy without
// windows has written, and field 100, which a newer proxy may write.
TEST(DescriptionTest, ThoseOfOtherProxiesAreUnderstood) {
  for (const std::vector<int>& more : {std::vector{0x08, 1}, std::vector{0xa0, 0x06, 0x01}}) {
    std::vector<std::byte> bytes = encode(parked()).bytes;
    for (const int byte : more) bytes.push_back(static_cast<std::byte>(byte));
    EXPECT_TRUE(decode(bytes, descriptors(kDescriptors))) << more[0];
  }
}

bool leaves_out(EncodedDescription& encoded) {
  const auto decoded = decode(encoded.bytes, std::move(encoded.descriptors));
  if (!decoded) return true;
  EXPECT_EQ(decoded->refused.has_value(), decoded->connections.empty());
  return decoded->refused.has_value();
}

// One that cannot be costs no other.
TEST(DescriptionTest, AnImpossibleConnectionIsLeftOut) {
  Parked all = parked();
  std::get<ParkedTcp>(all.connections[0].state.mode).towards_app.waiting.urgent_at = 5;
  EncodedDescription encoded = encode(std::move(all));
  const auto decoded = decode(encoded.bytes, std::move(encoded.descriptors));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->connections.size(), 2U);
  EXPECT_EQ(decoded->ended, 5U);
  ASSERT_TRUE(decoded->refused);
  EXPECT_STREQ(decoded->refused->what, "waiting.urgent_at: behind the bytes");
  EXPECT_EQ(decoded->connections[0].app->peer, *SocketAddress::parse("10.0.0.1:40000"));
}

TEST(DescriptionTest, ImpossibleConnectionsAreRefused) {
  const auto refused = [](auto change) {
    Parked all;
    all.connections.push_back(tcp());
    change(all.connections[0]);
    EncodedDescription encoded = encode(std::move(all));
    return leaves_out(encoded);
  };
  const auto half = [](ParkedSockets& of) -> relay::ParkedTcpHalf& {
    return std::get<ParkedTcp>(of.state.mode).towards_app;
  };
  EXPECT_FALSE(refused([](ParkedSockets&) {}));
  EXPECT_TRUE(refused([](ParkedSockets& of) { of.net.reset(); }));
  EXPECT_TRUE(refused([](ParkedSockets& of) { of.state.mode = ParkedUndialled{}; }));
  EXPECT_TRUE(refused([&](ParkedSockets& of) { half(of).waiting.urgent_at = 5; }));
  EXPECT_TRUE(refused([&](ParkedSockets& of) { half(of).undecided = bytes_of("x"); }));
  EXPECT_TRUE(refused([&](ParkedSockets& of) { half(of).end_passed_on = true; }));
  EXPECT_TRUE(refused([](ParkedSockets& of) { of.net->error = 5000; }));
  EXPECT_TRUE(refused([](ParkedSockets& of) {
    ParkedFrames frames;
    frames.behind = bytes_of("x");
    of.state.mode = std::move(frames);
  }));
}

// Of a CLC handshake it is only described who has handed over, and whether a server has accepted.
TEST(DescriptionTest, OnlyHandshakesThatMayBeAreTakenBack) {
  const auto refused = [](Direction direction, bool sent, bool received, bool peer_over,
                          bool accept_sent = false, bool declined = false) {
    Parked all;
    all.connections.push_back(frames());
    relay::ParkedConnection& state = all.connections[0].state;
    state.direction = direction;
    auto& mode = std::get<ParkedFrames>(state.mode);
    mode.rules = {};
    mode.rules.sent.handed_over = sent;
    mode.rules.received.handed_over = received;
    mode.peer_over = peer_over;
    mode.accept_sent = accept_sent;
    mode.declined = declined;
    EncodedDescription encoded = encode(std::move(all));
    return leaves_out(encoded);
  };
  EXPECT_FALSE(refused(Direction::kOutbound, false, false, false));
  EXPECT_FALSE(refused(Direction::kOutbound, true, false, false));
  EXPECT_FALSE(refused(Direction::kOutbound, true, true, false));
  EXPECT_FALSE(refused(Direction::kInbound, true, true, false));
  EXPECT_FALSE(refused(Direction::kInbound, true, true, false, true));
  EXPECT_FALSE(refused(Direction::kInbound, true, true, true)) << "it has failed";
  EXPECT_TRUE(refused(Direction::kOutbound, false, true, false));
  EXPECT_TRUE(refused(Direction::kInbound, true, false, false));
  EXPECT_TRUE(refused(Direction::kOutbound, true, true, false, true)) << "a client accepts nothing";
  EXPECT_TRUE(refused(Direction::kInbound, false, true, false, true)) << "not handed over";
  EXPECT_TRUE(refused(Direction::kInbound, true, true, true, true)) << "it has failed";
  EXPECT_FALSE(refused(Direction::kOutbound, true, false, false, false, true));
  EXPECT_TRUE(refused(Direction::kOutbound, false, false, false, false, true));
  EXPECT_TRUE(refused(Direction::kInbound, true, true, false, false, true)) << "a server's Decline";
}

TEST(DescriptionTest, ConnectionsWithMostInHandAreLeftOut) {
  const auto with = [](std::size_t bytes) {
    ParkedSockets one = frames();
    std::get<ParkedFrames>(one.state.mode).to_app.bytes.resize(bytes);
    return one;
  };
  Parked all;
  for (const std::size_t bytes : {50'000U, 10U, 90'000U, 20U})
    all.connections.push_back(with(bytes));
  EXPECT_EQ(drop_largest(all, 1'000'000), 0U);
  EXPECT_EQ(all.connections.size(), 4U);
  EXPECT_EQ(drop_largest(all, 60'000), 1U);
  EXPECT_EQ(drop_largest(all, 10'000), 1U);
  EXPECT_EQ(all.ended, 2U);
  ASSERT_EQ(all.connections.size(), 2U);
  for (const ParkedSockets& one : all.connections)
    EXPECT_LT(relay::waiting_bytes(one.state.mode), 100U);
  EXPECT_LE(encode(std::move(all)).bytes.size(), 10'000U);
}

// Whatever they are, bytes give an error or connections.
TEST(DescriptionTest, ForgedBytesDoNoHarm) {
  const EncodedDescription encoded = encode(parked());
  std::mt19937 random(1);
  unsigned taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = encoded.bytes;
    for (unsigned changes = 1 + random() % 4; changes != 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    taken += decode(bytes, {}).has_value() ? 1U : 0U;
    if (i % 16 == 0) taken += decode(bytes, descriptors(kDescriptors)).has_value() ? 1U : 0U;
  }
  EXPECT_GT(taken, 0U);
}

}  // namespace
}  // namespace fairlead::parking
