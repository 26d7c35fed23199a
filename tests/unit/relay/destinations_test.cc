#include "relay/worker/destinations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bpf/destination_hints.h"

namespace fairlead::relay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SocketAddress address(unsigned number) {
  return SocketAddress::parse("10.0." + std::to_string(number / 200) + "." +
                              std::to_string(1 + number % 200) + ":80")
      .value();
}

class DestinationsTest : public testing::Test {
 protected:
  // The lifetime in seconds that a connection over TCP causes, 0 for none.
  unsigned tcp(const SocketAddress& to, FallbackReason why = FallbackReason::kPeerNotInjected,
               Side side = Side::kLocal) {
    levels.clear();
    if (!destinations.led_to_tcp(to, side, why, now)) return 0;
    return levels.empty() ? 0 : fairlead_direct_seconds(levels.back());
  }
  bool is_direct(const SocketAddress& to) const {
    for (const DestinationRow& row : destinations.rows(now))
      if (row.destination == to_string(to)) return true;
    return false;
  }

  TimePoint now{seconds(1000)};
  std::vector<unsigned> levels;
  std::vector<SocketAddress> answering, redirected;
  unsigned all_redirected = 0;
  bool hears = true;
  Destinations destinations{
      {.leave_alone = [this](const SocketAddress&, unsigned level) -> Result<void> {
         if (!hears) return Error{Errc::kUnsupported, "gone"};
         levels.push_back(level);
         return {};
       },
       .answers = [this](const SocketAddress& to) -> Result<void> {
         if (!hears) return Error{Errc::kUnsupported, "gone"};
         answering.push_back(to);
         return {};
       },
       .forget = [this](const SocketAddress& to) -> Result<void> {
         redirected.push_back(to);
         return {};
       },
       .forget_all = [this]() -> Result<void> {
         ++all_redirected;
         return {};
       }}};
  const SocketAddress server = address(0);
};

TEST_F(DestinationsTest, EachProofLeavesADestinationAloneForLonger) {
  std::vector<unsigned> lifetimes;
  for (int i = 0; i < 7; ++i) {
    lifetimes.push_back(tcp(server));
    EXPECT_TRUE(is_direct(server));
    now += seconds(lifetimes.back());
    EXPECT_FALSE(is_direct(server));
  }
  EXPECT_EQ(lifetimes, (std::vector<unsigned>{5, 30, 180, 600, 600, 600, 600}));
}

TEST_F(DestinationsTest, APeerWithoutADeviceMayOnlyDrain) {
  std::vector<unsigned> lifetimes;
  for (int i = 0; i < 3; ++i) {
    lifetimes.push_back(tcp(server, FallbackReason::kNoRdmaDevice, Side::kPeer));
    now += seconds(lifetimes.back());
  }
  EXPECT_EQ(lifetimes, (std::vector<unsigned>{5, 30, 30}));
}

TEST_F(DestinationsTest, ConnectionsThatBeganTogetherAreOneProof) {
  EXPECT_EQ(tcp(server), 5U);
  now += milliseconds(1);
  EXPECT_EQ(tcp(server), 5U);
  now += seconds(6);
  EXPECT_EQ(tcp(server), 30U);
}

TEST_F(DestinationsTest, AReasonThatMayPassProvesNothing) {
  for (const FallbackReason reason :
       {FallbackReason::kMemory, FallbackReason::kDraining, FallbackReason::kHandshakeTimeout,
        FallbackReason::kOptionWithheld, FallbackReason::kPortDown}) {
    EXPECT_EQ(tcp(server, reason), 0U) << fallback_info(reason).name;
    EXPECT_FALSE(is_direct(server));
  }
  for (const FallbackReason reason :
       {FallbackReason::kPeerNotInjected, FallbackReason::kNoRdmaDevice,
        FallbackReason::kPolicyExcluded, FallbackReason::kNoDevice, FallbackReason::kDisabled})
    EXPECT_TRUE(fallback_info(reason).lasts) << fallback_info(reason).name;
}

TEST_F(DestinationsTest, OneServerOfAnAddressThatGainsLeadsAllThroughTheProxy) {
  EXPECT_EQ(tcp(server), 5U);
  destinations.led_to_smc(server, now);
  EXPECT_FALSE(is_direct(server));
  EXPECT_EQ(redirected, std::vector{server});
  now += kGainRemembered - seconds(1);
  EXPECT_EQ(tcp(server), 0U);
  now += seconds(1);
  EXPECT_EQ(tcp(server), 5U);
}

TEST_F(DestinationsTest, WhatHasAnsweredIsToldNowAndThen) {
  destinations.answered(server, now);
  destinations.answered(server, now);
  EXPECT_EQ(answering.size(), 1U);
  now += bpf::kAnswersLifetime / 2 + milliseconds(1);
  destinations.answered(server, now);
  EXPECT_EQ(answering.size(), 2U);
}

TEST_F(DestinationsTest, WhatAnswersNoMoreIsHeldAgain) {
  destinations.failed(server, now);
  EXPECT_TRUE(redirected.empty()) << "it was held";
  destinations.answered(server, now);
  destinations.failed(server, now);
  EXPECT_EQ(redirected, std::vector{server});
  destinations.answered(server, now);
  EXPECT_EQ(answering.size(), 2U);
}

TEST_F(DestinationsTest, WhatIsDirectNeedNotAnswer) {
  EXPECT_EQ(tcp(server), 5U);
  destinations.answered(server, now);
  EXPECT_TRUE(answering.empty());
}

TEST_F(DestinationsTest, OtherPortsAndAddressesAreOthers) {
  EXPECT_EQ(tcp(server), 5U);
  EXPECT_FALSE(is_direct(server.with_port(81)));
  EXPECT_FALSE(is_direct(address(1)));
}

TEST_F(DestinationsTest, WithoutProgramsNothingIsLearned) {
  hears = false;
  EXPECT_EQ(tcp(server), 0U);
  EXPECT_FALSE(is_direct(server));
  hears = true;
  EXPECT_EQ(tcp(server), 5U);
}

TEST_F(DestinationsTest, AChangeForAllForgetsAll) {
  EXPECT_EQ(tcp(server), 5U);
  destinations.forget_all();
  EXPECT_EQ(all_redirected, 1U);
  EXPECT_FALSE(is_direct(server));
  EXPECT_EQ(tcp(server), 5U);
}

TEST_F(DestinationsTest, TheTableIsBoundedAndKeepsWhatMattersLongest) {
  destinations.led_to_smc(server, now);
  for (unsigned i = 1; i <= 2 * kDestinationsMax; ++i) {
    EXPECT_EQ(tcp(address(i)), 5U);
    now += milliseconds(1);
  }
  const std::vector<DestinationRow> rows = destinations.rows(now);
  EXPECT_EQ(rows.size(), kDestinationsMax - 1);
  EXPECT_TRUE(is_direct(address(2 * kDestinationsMax)));
  EXPECT_EQ(tcp(server), 0U);
}

TEST_F(DestinationsTest, ARowTellsReasonAndTimes) {
  EXPECT_EQ(tcp(server, FallbackReason::kNoRdmaDevice), 5U);
  now += seconds(2);
  const std::vector<DestinationRow> rows = destinations.rows(now);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].destination, "10.0.0.1:80");
  EXPECT_EQ(rows[0].reason, "no_rdma_device");
  EXPECT_EQ(rows[0].reason_code, fallback_info(FallbackReason::kNoRdmaDevice).code);
  EXPECT_DOUBLE_EQ(rows[0].learned_seconds, 2);
  EXPECT_DOUBLE_EQ(rows[0].left_seconds, 3);
}

}  // namespace
}  // namespace fairlead::relay
