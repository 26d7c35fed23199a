// Goal: the status of a DaemonSet shows whether all of its nodes are done, and no other status
// counts as that.
#include "cni/node/agent/withdraw.h"

#include <gtest/gtest.h>

#include <string>

namespace fairlead::cni::node {
namespace {

std::string daemonset(int generation, int observed, int wanted, int updated, int ready) {
  return R"({"metadata":{"generation":)" + std::to_string(generation) +
         R"(},"status":{"observedGeneration":)" + std::to_string(observed) +
         R"(,"desiredNumberScheduled":)" + std::to_string(wanted) +
         R"(,"updatedNumberScheduled":)" + std::to_string(updated) + R"(,"numberReady":)" +
         std::to_string(ready) + "}}";
}

TEST(Rollout, IsCompleteWhenEveryNodeHasAReadyPodOfTheNewTemplate) {
  EXPECT_TRUE(read_rollout(daemonset(2, 2, 3, 3, 3)).complete());
  EXPECT_TRUE(read_rollout(daemonset(2, 2, 0, 0, 0)).complete()) << "no node is one of its";
  EXPECT_FALSE(read_rollout(daemonset(2, 1, 3, 3, 3)).complete()) << "of the template before";
  EXPECT_FALSE(read_rollout(daemonset(2, 2, 3, 2, 3)).complete());
  EXPECT_FALSE(read_rollout(daemonset(2, 2, 3, 3, 2)).complete());
  EXPECT_EQ(read_rollout(daemonset(2, 2, 3, 3, 2)).done, 2);
}

TEST(Rollout, OfWhatIsNoDaemonSetIsNeverComplete) {
  for (const auto* text : {"", "[]", "null", "{\"status\":3", "\"x\""})
    EXPECT_FALSE(read_rollout(text).complete()) << text;
  EXPECT_FALSE(read_rollout(R"({"metadata":{"generation":1}})").complete());
  EXPECT_FALSE(read_rollout(R"({"metadata":[],"status":{"observedGeneration":"1"}})").complete());
  EXPECT_FALSE(read_rollout(R"({"metadata":{"generation":1},"status":"x"})").complete());
}

}  // namespace
}  // namespace fairlead::cni::node
