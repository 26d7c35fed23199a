// Which connections and handshakes a worker takes on, how those of one client leave room for
// others, and what is counted and logged of those that are refused.

#include "relay/worker/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "fake_stream.h"
#include "set_clock.h"

namespace fairlead::relay {
namespace {

using Refusal = Admission::Refusal;

SocketAddress address(const char* text) { return *SocketAddress::parse(text); }

const SocketAddress kClient = address("192.0.2.1:5000");
const SocketAddress kOther = address("192.0.2.2:5000");

std::vector<std::string> lines_written;

class AdmissionTest : public testing::Test {
 protected:
  void SetUp() override {
    lines_written.clear();
    log_set_receiver([](std::string_view line) { lines_written.emplace_back(line); });
  }
  void TearDown() override { log_set_receiver(nullptr); }

  static void begin(Admission& admission, Direction direction, int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(admission.has_room(direction)) << i;
      admission.connection_began(direction);
    }
  }
  // How many handshakes the client gets, until it is refused.
  static int take_all(Admission& admission, const std::optional<SocketAddress>& client) {
    int taken = 0;
    while (admission.begin_handshake(client)) ++taken;
    return taken;
  }

  WorkerStats stats;
  MemoryBudget budget{1 << 20, 0, stats};
  SetClock clock;
  PacedLines lines;
  FakeStream stream;
};

TEST_F(AdmissionTest, InboundConnectionsLeaveSomeForOutboundOnes) {
  Admission admission({.connections_max = 5, .kept_for_outbound = 2}, budget, stats, clock, lines);
  begin(admission, Direction::kInbound, 3);
  EXPECT_FALSE(admission.has_room(Direction::kInbound));
  begin(admission, Direction::kOutbound, 2);
  EXPECT_FALSE(admission.has_room(Direction::kOutbound));
  EXPECT_EQ(admission.connection_count(), 5U);
  admission.connection_ended(Direction::kOutbound);
  EXPECT_TRUE(admission.has_room(Direction::kOutbound));
  EXPECT_FALSE(admission.has_room(Direction::kInbound));
  admission.connection_ended(Direction::kInbound);
  EXPECT_TRUE(admission.has_room(Direction::kInbound));
}

TEST_F(AdmissionTest, OutboundConnectionsMayTakeAll) {
  Admission admission({.connections_max = 5, .kept_for_outbound = 2}, budget, stats, clock, lines);
  begin(admission, Direction::kOutbound, 5);
  EXPECT_FALSE(admission.has_room(Direction::kOutbound));
  EXPECT_FALSE(admission.has_room(Direction::kInbound));
}

TEST_F(AdmissionTest, WhereAllAreKeptThereIsNoneForInboundConnections) {
  Admission admission({.connections_max = 2, .kept_for_outbound = 2}, budget, stats, clock, lines);
  EXPECT_FALSE(admission.has_room(Direction::kInbound));
  EXPECT_TRUE(admission.has_room(Direction::kOutbound));
}

TEST_F(AdmissionTest, HandshakesHaveALimit) {
  Admission admission({.handshakes_max = 3}, budget, stats, clock, lines);
  EXPECT_EQ(take_all(admission, std::nullopt), 3);
  EXPECT_FALSE(admission.begin_handshake(kClient));
  admission.end_handshake(std::nullopt);
  EXPECT_EQ(take_all(admission, std::nullopt), 1);
}

TEST_F(AdmissionTest, AClientHasInHandNoMoreThanAreFree) {
  Admission admission({.handshakes_max = 8}, budget, stats, clock, lines);
  EXPECT_EQ(take_all(admission, kClient), 4);
  EXPECT_EQ(take_all(admission, kOther), 2);
  EXPECT_EQ(take_all(admission, address("192.0.2.3:1")), 1);
  EXPECT_EQ(take_all(admission, address("192.0.2.4:1")), 1);
  admission.end_handshake(kClient);
  EXPECT_FALSE(admission.begin_handshake(kClient)) << "it has more than are free";
  EXPECT_TRUE(admission.begin_handshake(address("192.0.2.5:1")));
}

TEST_F(AdmissionTest, PortsOfAClientAndAddressesOfAnIpv6BlockShare) {
  Admission admission({.handshakes_max = 8}, budget, stats, clock, lines);
  EXPECT_EQ(take_all(admission, address("[2001:db8::1]:1")), 4);
  EXPECT_FALSE(admission.begin_handshake(address("[2001:db8::ffff:2]:2")));
  EXPECT_TRUE(admission.begin_handshake(address("[2001:db8:0:1::1]:1")));
  EXPECT_TRUE(admission.begin_handshake(kClient));
  EXPECT_FALSE(admission.begin_handshake(address("192.0.2.1:6000")) &&
               admission.begin_handshake(address("192.0.2.1:7000")));
}

// The application's own connections are not limited by a share, but take from what is free.
TEST_F(AdmissionTest, OwnHandshakesAreNoClients) {
  Admission admission({.handshakes_max = 6}, budget, stats, clock, lines);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(admission.begin_handshake());
  EXPECT_EQ(take_all(admission, kClient), 1);
  EXPECT_EQ(take_all(admission, std::nullopt), 1);
}

TEST_F(AdmissionTest, TurnsAreLimitedForEachPeer) {
  Admission admission({.handshakes_per_peer_max = 2}, budget, stats, clock, lines);
  EXPECT_TRUE(admission.limiter().take(kClient, 1));
  EXPECT_TRUE(admission.limiter().take(kClient, 2));
  EXPECT_FALSE(admission.limiter().take(kClient, 3));
}

TEST_F(AdmissionTest, ADrainIsForGood) {
  Admission admission({.connections_max = 1}, budget, stats, clock, lines);
  EXPECT_FALSE(admission.draining());
  admission.start_drain();
  EXPECT_TRUE(admission.draining());
  EXPECT_TRUE(admission.has_room(Direction::kOutbound)) << "connections are TCP, but go on";
}

TEST_F(AdmissionTest, RefusalsAreCountedByWhatIsWanting) {
  Admission admission({}, budget, stats, clock, lines);
  admission.note_refusal(stream, Refusal::kConnections);
  admission.note_refusal(stream, Refusal::kMemory);
  admission.note_refusal(stream, Refusal::kDescriptors);
  admission.note_refusal(stream, Refusal::kDescriptors);
  EXPECT_EQ(stats.refused[RefusedFor::kLimit].get(), 4U);
  EXPECT_EQ(stats.refused_memory.get(), 1U);
  EXPECT_EQ(stats.refused_descriptors.get(), 2U);
}

TEST_F(AdmissionTest, EachKindOfRefusalIsLoggedWhenItBegins) {
  struct Expected {
    Refusal why;
    const char* reason;
    const char* hint;
  };
  Admission admission({.connections_max = 2}, budget, stats, clock, lines);
  admission.connection_began(Direction::kInbound);
  for (const Expected& expected :
       {Expected{Refusal::kConnections, "reason=connection_limit", "limits.connections"},
        Expected{Refusal::kMemory, "reason=memory", "memory.limit"},
        Expected{Refusal::kDescriptors, "reason=descriptors", "nofile"}}) {
    lines_written.clear();
    admission.note_refusal(stream, expected.why);
    ASSERT_EQ(lines_written.size(), 1U);
    EXPECT_NE(lines_written[0].find(expected.reason), std::string::npos) << lines_written[0];
    EXPECT_NE(lines_written[0].find(expected.hint), std::string::npos) << lines_written[0];
    EXPECT_NE(lines_written[0].find("connections=1"), std::string::npos) << lines_written[0];
    EXPECT_EQ(lines_written[0].find("memory_left_bytes=1048576") != std::string::npos,
              expected.why == Refusal::kMemory);
  }
}

TEST_F(AdmissionTest, OneRefusalInSoManyIsLogged) {
  Admission admission({}, budget, stats, clock, lines);
  for (std::uint64_t i = 0; i < kRefusalsPerLine; ++i)
    admission.note_refusal(stream, Refusal::kConnections);
  EXPECT_EQ(lines_written.size(), 1U);
  admission.note_refusal(stream, Refusal::kConnections);
  EXPECT_EQ(lines_written.size(), 2U);
  EXPECT_EQ(stats.refused[RefusedFor::kLimit].get(), kRefusalsPerLine + 1);
}

// At one moment: a flood of refusals writes no flood of lines.
TEST_F(AdmissionTest, LinesAboutRefusalsHaveAPaceAsWell) {
  Admission admission({}, budget, stats, clock, lines);
  for (std::uint64_t i = 0; i < 2 * kRemoteLines * kRefusalsPerLine; ++i)
    admission.note_refusal(stream, Refusal::kConnections);
  EXPECT_EQ(lines_written.size(), kRemoteLines);
  clock.at += kRemoteLineInterval;
  for (std::uint64_t i = 0; i < kRefusalsPerLine; ++i)
    admission.note_refusal(stream, Refusal::kConnections);
  ASSERT_EQ(lines_written.size(), kRemoteLines + 1);
  EXPECT_NE(lines_written.back().find("left_out=10"), std::string::npos) << lines_written.back();
}

}  // namespace
}  // namespace fairlead::relay
