// Goal: what leaves a link group is bounded, and the end of the group always finds room. Method:
// more than the queues hold.
#include "smc/group/link_group_output.h"

#include <gtest/gtest.h>

#include "wire/llc.h"

namespace fairlead::smc {
namespace {

TEST(LinkGroupOutput, AnswersBeyondTheLimitAreDropped) {
  LinkGroupOutput out(wire::LlcVersion::k2);
  for (std::size_t i = 0; i < kLlcQueueMax; ++i) {
    EXPECT_FALSE(out.full());
    out.send(1, wire::TestLink{});
  }
  EXPECT_TRUE(out.full());
  out.send(1, wire::TestLink{});
  std::size_t sent = 0;
  while (out.poll_llc()) ++sent;
  EXPECT_EQ(sent, kLlcQueueMax);
}

TEST(LinkGroupOutput, TheEndIsNeverDropped) {
  LinkGroupOutput out(wire::LlcVersion::k1);
  for (std::size_t i = 0; i < 2 * kGroupEventsMax; ++i)
    out.emit(GroupEvent{GroupEvent::Kind::kLinkTested});
  out.emit(GroupEvent{GroupEvent::Kind::kTerminated});
  std::optional<GroupEvent> last;
  while (const auto event = out.poll_event()) last = event;
  ASSERT_TRUE(last);
  EXPECT_EQ(last->kind, GroupEvent::Kind::kTerminated);
}

}  // namespace
}  // namespace fairlead::smc
