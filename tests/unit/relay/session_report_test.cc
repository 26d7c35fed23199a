// What is told of one session: the line of a fallback, the decision and the counters.

#include "relay/connection/session_report.h"

#include <algorithm>
#include <string>

#include "stage_fixture.h"

namespace fairlead::relay {
namespace {

using R = FallbackReason;

class SessionReportTest : public StageTest {
 protected:
  SessionReportTest() { open_both(Direction::kOutbound); }

  // The line of the fallback, "" if there is none.
  std::string line_of(const UseTcp& why) {
    testing::internal::CaptureStderr();
    session->report.tcp_chosen(why, *session->net, destination, network.now());
    return testing::internal::GetCapturedStderr();
  }
  static UseTcp because(R reason) { return UseTcp{.cause = {.reason = reason}}; }
  static UseTcp with_device() {
    UseTcp why = because(R::kNoRoute);
    why.cause.device = "rnic0";
    why.cause.pnet = "NET";
    return why;
  }
};

TEST_F(SessionReportTest, AFallbackNamesItsDeviceAndNetwork) {
  const std::string line = line_of(with_device());
  EXPECT_NE(line.find(" pnet=NET rnic=rnic0 "), std::string::npos) << line;
  const std::string without = line_of(because(R::kMemory));
  EXPECT_NE(without.find(" pnet=- rnic=- "), std::string::npos) << without;
}

TEST_F(SessionReportTest, TheConfiguredNetworkGoesBeforeThatOfTheDevice) {
  config.pnet.id = "OURS";
  const std::string line = line_of(with_device());
  EXPECT_NE(line.find(" pnet=OURS rnic=rnic0 "), std::string::npos) << line;
}

TEST_F(SessionReportTest, ADecisionHasTheStepsOfItsSetUp) {
  session->report.note("one step");
  session->report.note("another step");
  (void)line_of(because(R::kNoRoute));
  const auto rows = decisions.rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].reason, fallback_info(R::kNoRoute).name);
  ASSERT_EQ(rows[0].steps.size(), 2U);
  EXPECT_EQ(rows[0].steps[1], "another step");
  session->report.setup_ended();
  session->report.note("too late");
  EXPECT_FALSE(session->report.setting_up());
}

TEST_F(SessionReportTest, AFallbackOfThePeerIsCountedAsThePeers) {
  UseTcp why = because(R::kPeerNoSmc);
  why.cause.side = Side::kPeer;
  (void)line_of(why);
  EXPECT_EQ(stats.fallback[Direction::kOutbound][Side::kPeer][R::kPeerNoSmc].get(), 1U);
  EXPECT_EQ(stats.fallback[Direction::kOutbound][Side::kLocal][R::kPeerNoSmc].get(), 0U);
}

TEST_F(SessionReportTest, TheFirstAnswerAndTheLongestWaitAreObserved) {
  using std::chrono::milliseconds;
  const auto observed = [](const Histogram& histogram, std::size_t bucket) {
    std::uint64_t others = 0;
    for (std::size_t i = 0; i < Histogram::kBucketCount; ++i)
      others += i == bucket ? 0 : histogram.bucket(i);
    EXPECT_EQ(others, 0U);
    return histogram.bucket(bucket);
  };
  const auto bucket_of = [](double seconds) {
    return static_cast<std::size_t>(
        std::lower_bound(kWaitBucketsSeconds.begin(), kWaitBucketsSeconds.end(), seconds) -
        kWaitBucketsSeconds.begin());
  };
  const TimePoint begin = network.now();
  session->report.count(Transport::kShort, 10, 0, begin);
  session->report.count(Transport::kShort, 10, 5, begin + milliseconds(2));
  session->report.count(Transport::kSmcr, 20, 5, begin + milliseconds(3));
  session->report.count(Transport::kSmcr, 20, 6, begin + milliseconds(210));
  session->report.ended(begin + milliseconds(300));
  EXPECT_EQ(observed(stats.first_answer[Direction::kOutbound], bucket_of(0.002)), 1U);
  EXPECT_EQ(observed(stats.longest_wait[Direction::kOutbound], bucket_of(0.207)), 1U);
}

TEST_F(SessionReportTest, BytesAreCountedOnceAcrossTransports) {
  session->report.count(Transport::kShort, 10, 20, network.now());
  session->report.count(Transport::kTcp, 15, 20, network.now());
  const auto tx = [&](Transport transport) {
    return stats.traffic[Direction::kOutbound][transport].tx_bytes.get();
  };
  EXPECT_EQ(tx(Transport::kShort), 10U);
  EXPECT_EQ(tx(Transport::kTcp), 5U);
  EXPECT_EQ(session->report.bytes(), 35U);
}

TEST_F(SessionReportTest, AShortConnectionIsCountedWhenItEnds) {
  const auto& traffic = stats.traffic[Direction::kOutbound][Transport::kShort];
  session->report.carried(Transport::kShort);
  EXPECT_EQ(traffic.connections_total.get(), 0U);
  EXPECT_EQ(traffic.connections_active.get(), 1);
  session->report.short_ended(destination, SessionReport::ShortEnd::kBeforeEarned, network.now());
  EXPECT_EQ(traffic.connections_total.get(), 1U);
  EXPECT_EQ(traffic.connections_active.get(), 0);
}

}  // namespace
}  // namespace fairlead::relay
