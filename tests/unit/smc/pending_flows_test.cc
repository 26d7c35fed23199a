// Goal: failed flows are repeated as often as their limits say, and not before their time. Method:
// the notes alone.
#include "smc/group/pending_flows.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

constexpr TimePoint kNow = TimePoint{} + std::chrono::hours(1);

TEST(PendingFlows, AnUnansweredAddLinkIsRepeatedSomeTimes) {
  PendingFlows pending;
  pending.retry_link_later(kNow);
  EXPECT_FALSE(pending.link_again());  // nobody wanted a link
  pending.want_link(true);
  for (unsigned i = 0; i < kAddLinkRetriesMax; ++i) {
    pending.link_begun();
    EXPECT_FALSE(pending.link_wanted());
    pending.retry_link_later(kNow);
    EXPECT_EQ(pending.link_again(), kNow + kAddLinkRetryWait);
    pending.link_is_due();
    EXPECT_FALSE(pending.link_again());
    EXPECT_TRUE(pending.link_wanted());
  }
  pending.link_begun();
  pending.retry_link_later(kNow);
  EXPECT_FALSE(pending.link_again());
}

TEST(PendingFlows, ARequestThatTheServerHasWithdrawnIsForgotten) {
  PendingFlows pending;
  pending.set_request(2, wire::AddLink{.link = LinkNumber{9}});
  pending.withdraw_request(LinkNumber{8});
  EXPECT_TRUE(pending.has_request());
  pending.withdraw_request(LinkNumber{9});
  EXPECT_FALSE(pending.has_request());
  pending.withdraw_request(LinkNumber{9});
}

TEST(LinkLossGuard, WaitsForEachLinkThatWasLost) {
  LinkLossGuard guard;
  EXPECT_FALSE(guard.waits());
  EXPECT_FALSE(guard.deadline());
  guard.begin(LinkNumber{3}, kNow);
  EXPECT_TRUE(guard.waits_for(LinkNumber{3}));
  EXPECT_FALSE(guard.waits_for(LinkNumber{4}));
  EXPECT_EQ(guard.deadline(), kNow);
  guard.begin(LinkNumber{255}, kNow + std::chrono::seconds(1));
  EXPECT_EQ(guard.deadline(), kNow + std::chrono::seconds(1));
  guard.end(LinkNumber{3});
  EXPECT_TRUE(guard.waits_for(LinkNumber{255}));
  guard.end(LinkNumber{255});
  EXPECT_FALSE(guard.waits());
  guard.begin(LinkNumber{3}, kNow);
  guard.end();
  EXPECT_FALSE(guard.waits());
  EXPECT_FALSE(guard.deadline());
}

}  // namespace
}  // namespace fairlead::smc
