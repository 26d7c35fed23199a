// Lines about connections that stay TCP: what is written, collapsed and bounded.

#include "relay/worker/fallback_log.h"

#include <gtest/gtest.h>

#include <string>

namespace fairlead::relay {
namespace {

using R = FallbackReason;
using std::chrono::seconds;

class FallbackLogTest : public testing::Test {
 protected:
  static FallbackEvent event_of(R reason, const std::string& peer = "192.0.2.1:80") {
    FallbackEvent event;
    event.reason = reason;
    event.peer = *SocketAddress::parse(peer);
    event.connection = "c-100";
    return event;
  }
  std::string lines_of(const FallbackEvent& event, Duration at) {
    testing::internal::CaptureStderr();
    log.report(event, TimePoint(at));
    return testing::internal::GetCapturedStderr();
  }
  std::string success_of(const std::string& peer, Duration at) {
    testing::internal::CaptureStderr();
    log.report_success(Direction::kOutbound, *SocketAddress::parse(peer), "c-200", TimePoint(at));
    return testing::internal::GetCapturedStderr();
  }
  static bool has(const std::string& lines, const char* what) {
    return lines.find(what) != std::string::npos;
  }

  FallbackLog log;
};

TEST_F(FallbackLogTest, AStormOfOnePeerAndReasonIsOneLineThatTellsItsNumber) {
  EXPECT_TRUE(has(lines_of(event_of(R::kNoRoute), seconds(100)), "reason=no_route "));
  for (const std::string port : {"81", "82"})
    EXPECT_EQ(lines_of(event_of(R::kNoRoute, "192.0.2.1:" + port), seconds(101)), "");
  const std::string later = lines_of(event_of(R::kNoRoute), seconds(100) + kCollapse);
  EXPECT_TRUE(has(later, " repeated=2 ")) << later;
}

TEST_F(FallbackLogTest, AnotherReasonPeerOrDirectionHasItsOwnLine) {
  EXPECT_NE(lines_of(event_of(R::kNoRoute), seconds(100)), "");
  EXPECT_NE(lines_of(event_of(R::kMemory), seconds(100)), "");
  EXPECT_NE(lines_of(event_of(R::kNoRoute, "192.0.2.2:80"), seconds(100)), "");
  FallbackEvent inbound = event_of(R::kNoRoute);
  inbound.direction = Direction::kInbound;
  EXPECT_NE(lines_of(inbound, seconds(100)), "");
}

TEST_F(FallbackLogTest, ManyPeersAreBounded) {
  unsigned written = 0;
  for (unsigned peer = 0; peer < 2 * kFallbackLines; ++peer) {
    const std::string address = "192.0." + std::to_string(peer) + ".1:80";
    written += lines_of(event_of(R::kNoRoute, address), seconds(100)).empty() ? 0U : 1U;
  }
  EXPECT_EQ(written, kFallbackLines);
}

TEST_F(FallbackLogTest, OrdinaryLifeIsWorthOneLine) {
  ASSERT_TRUE(fallback_info(R::kPeerNotInjected).expected);
  EXPECT_TRUE(has(lines_of(event_of(R::kPeerNotInjected), seconds(100)), " INFO "));
  EXPECT_EQ(lines_of(event_of(R::kPeerNotInjected), seconds(200)), "") << "below the level";
}

TEST_F(FallbackLogTest, TheFirstSuccessAfterAFallbackIsNews) {
  EXPECT_EQ(success_of("192.0.2.1:80", seconds(99)), "");
  (void)lines_of(event_of(R::kNoRoute), seconds(100));
  EXPECT_EQ(success_of("192.0.2.2:80", seconds(101)), "");
  EXPECT_TRUE(has(success_of("192.0.2.1:81", seconds(101)), "event=recovered"));
  EXPECT_EQ(success_of("192.0.2.1:80", seconds(102)), "");
}

}  // namespace
}  // namespace fairlead::relay
