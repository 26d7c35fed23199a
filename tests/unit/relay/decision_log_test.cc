#include "relay/worker/decision_log.h"

#include <gtest/gtest.h>

namespace fairlead::relay {
namespace {

TEST(DecisionLog, ShowsTheNewestFirstInWords) {
  DecisionLog log;
  Decision first;
  first.session = 0x18f;
  first.reason = FallbackReason::kNoRdmaDevice;
  first.steps = {"one", "two"};
  log.add(first);
  Decision second;
  second.session = 2;
  second.transport = Transport::kSmcr;
  log.add(second);
  const std::vector<DecisionRow> rows = log.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, "c-2");
  EXPECT_EQ(rows[0].reason, "");
  EXPECT_EQ(rows[1].id, "c-18f");
  EXPECT_EQ(rows[1].reason, "no_rdma_device");
  EXPECT_EQ(rows[1].reason_code, 0x03030002U);
  EXPECT_EQ(rows[1].steps, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(rows[1].time, "1970-01-01T00:00:00.000Z");
}

TEST(DecisionLog, ForgetsTheOldest) {
  DecisionLog log;
  for (std::uint64_t i = 0; i < kDecisionsMax + 10; ++i) {
    Decision decision;
    decision.session = i;
    log.add(decision);
  }
  const std::vector<DecisionRow> rows = log.rows();
  ASSERT_EQ(rows.size(), kDecisionsMax);
  EXPECT_EQ(rows.front().id, session_id(kDecisionsMax + 9));
  EXPECT_EQ(rows.back().id, session_id(10));
}

}  // namespace
}  // namespace fairlead::relay
