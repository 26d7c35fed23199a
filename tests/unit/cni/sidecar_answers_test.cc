#include "cni/node/pods/sidecar_answers.h"

#include <gtest/gtest.h>

namespace fairlead::cni::node {
namespace {

using Order = std::vector<std::size_t>;

std::vector<PodFinding> pods(std::initializer_list<std::uint64_t> inodes) {
  std::vector<PodFinding> found;
  for (const std::uint64_t inode : inodes) {
    PodFinding pod;
    pod.identity = {1, inode};
    found.push_back(pod);
  }
  return found;
}

SidecarCounts with_smcr(std::uint64_t count) {
  SidecarCounts counts;
  counts.smcr = count;
  return counts;
}

TEST(SidecarAnswers, AsksThoseThatStallLast) {
  SidecarAnswers answers;
  const auto all = pods({10, 11, 12});
  EXPECT_EQ(answers.order(all), (Order{0, 1, 2}));
  answers.record({1, 10}, std::nullopt);
  answers.record({1, 11}, with_smcr(1));
  answers.record({1, 12}, with_smcr(2));
  EXPECT_EQ(answers.order(all), (Order{1, 2, 0}));
  EXPECT_EQ(answers.order(pods({10, 11, 12, 13})), (Order{3, 1, 2, 0}));  // a new one first
}

TEST(SidecarAnswers, APodThatWasNotAskedKeepsItsLastAnswer) {
  SidecarAnswers answers;
  const auto all = pods({10, 11});
  (void)answers.order(all);
  EXPECT_FALSE(answers.line(all[0]).asked);
  EXPECT_FALSE(answers.line(all[0]).answers);
  answers.record({1, 10}, with_smcr(7));
  (void)answers.order(all);
  const PodLine line = answers.line(all[0]);
  EXPECT_TRUE(line.asked);
  EXPECT_TRUE(line.answers);
  EXPECT_EQ(line.counts.smcr, 7u);
  answers.record({1, 10}, std::nullopt);
  EXPECT_TRUE(answers.line(all[0]).asked);
  EXPECT_FALSE(answers.line(all[0]).answers);
  EXPECT_EQ(answers.line(all[0]).counts.smcr, 0u);
}

TEST(SidecarAnswers, ForgetsPodsThatHaveEnded) {
  SidecarAnswers answers;
  (void)answers.order(pods({10}));
  answers.record({1, 10}, with_smcr(7));
  (void)answers.order(pods({11}));
  answers.record({1, 10}, with_smcr(8));
  const auto again = pods({10});
  (void)answers.order(again);
  EXPECT_FALSE(answers.line(again[0]).asked);
}

}  // namespace
}  // namespace fairlead::cni::node
