// Goal: one Event for each pod and reason, at a bounded rate, and no reason that a sidecar
// invented.
#include "cni/node/reports/fallback_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace fairlead::cni::node {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

PodLine pod(const std::string& uid, std::map<std::string, std::uint64_t> reasons) {
  PodLine line;
  line.pod.name_space = "shop";
  line.pod.name = "web-" + uid;
  line.pod.uid = uid;
  line.answers = true;
  line.counts.reasons = std::move(reasons);
  return line;
}

class FallbackEventsTest : public testing::Test {
 protected:
  std::size_t make_all(const std::vector<PodLine>& pods) {
    const auto due = events.due(pods, "n1");
    for (const FallbackEvent& one : due) events.made(one);
    return due.size();
  }
  FallbackEvents events;
};

TEST_F(FallbackEventsTest, NameThePodTheReasonAndTheHint) {
  const auto due = events.due({pod("1", {{"no_rdma_device", 3}})}, "n1");
  ASSERT_THAT(due, SizeIs(1));
  const event::ClusterEvent& event = due[0].event;
  const FallbackInfo& info = fallback_info(FallbackReason::kNoRdmaDevice);
  EXPECT_EQ(event.about.kind, "Pod");
  EXPECT_EQ(event.about.name, "web-1");
  EXPECT_EQ(event.about.uid, "1");
  EXPECT_EQ(event.name_space, "shop");
  EXPECT_EQ(event.host, "n1");
  EXPECT_EQ(event.reason, "FairleadFallback");
  EXPECT_TRUE(event.warning);
  EXPECT_THAT(event.message, HasSubstr(std::string(info.sentence)));
  EXPECT_THAT(event.message, HasSubstr("no_rdma_device"));
  EXPECT_THAT(event.message, HasSubstr(std::string(info.hint)));
}

TEST_F(FallbackEventsTest, WarnOnlyAboutWhatIsNotExpected) {
  for (const FallbackInfo& info : fallback_table()) {
    const std::string name(info.name);
    const auto due = events.due({pod("1", {{name, 1}})}, "n1");
    ASSERT_THAT(due, SizeIs(1)) << name;
    EXPECT_EQ(due[0].event.warning, !info.expected) << name;
  }
}

TEST_F(FallbackEventsTest, ComeOnceForEachReasonOfEachPod) {
  EXPECT_EQ(make_all({pod("1", {{"memory", 1}})}), 1u);
  EXPECT_EQ(make_all({pod("1", {{"memory", 9}})}), 0u);
  EXPECT_EQ(make_all({pod("1", {{"memory", 9}, {"no_pnet", 1}}), pod("2", {{"memory", 1}})}), 2u);
}

TEST_F(FallbackEventsTest, AreDueAgainUntilTheyAreMade) {
  EXPECT_THAT(events.due({pod("1", {{"memory", 1}})}, "n1"), SizeIs(1));
  EXPECT_THAT(events.due({pod("1", {{"memory", 1}})}, "n1"), SizeIs(1));
}

TEST_F(FallbackEventsTest, ForgetPodsThatAreGone) {
  EXPECT_EQ(make_all({pod("1", {{"memory", 1}})}), 1u);
  EXPECT_EQ(make_all({}), 0u);
  EXPECT_EQ(make_all({pod("1", {{"memory", 1}})}), 1u);
}

TEST_F(FallbackEventsTest, AreLimitedForOneReport) {
  std::vector<PodLine> pods;
  for (std::size_t number = 0; number < FallbackEvents::kEventsPerReportMax + 3; ++number)
    pods.push_back(pod(std::to_string(number), {{"memory", 1}}));
  EXPECT_EQ(make_all(pods), FallbackEvents::kEventsPerReportMax);
  EXPECT_EQ(make_all(pods), 3u);
  EXPECT_EQ(make_all(pods), 0u);
}

std::map<std::string, std::uint64_t> all_reasons() {
  std::map<std::string, std::uint64_t> reasons;
  for (const FallbackInfo& info : fallback_table()) reasons.emplace(info.name, 1);
  return reasons;
}

TEST_F(FallbackEventsTest, OfOnePodLeaveRoomForOthers) {
  const auto due = events.due({pod("1", all_reasons()), pod("2", {{"memory", 1}})}, "n1");
  ASSERT_THAT(due, SizeIs(FallbackEvents::kEventsPerPodMax + 1));
  EXPECT_EQ(due.back().pod_uid, "2");
}

// Nothing is made here, so that the first pods stay due.
TEST_F(FallbackEventsTest, GiveEachPodItsTurn) {
  std::vector<PodLine> pods;
  for (std::size_t number = 0; number < FallbackEvents::kEventsPerReportMax; ++number)
    pods.push_back(pod("greedy-" + std::to_string(number), all_reasons()));
  pods.push_back(pod("late", {{"memory", 1}}));
  std::set<std::string> seen;
  const std::size_t reports =
      pods.size() * FallbackEvents::kEventsPerPodMax / FallbackEvents::kEventsPerReportMax + 1;
  for (std::size_t report = 0; report < reports; ++report)
    for (const FallbackEvent& one : events.due(pods, "n1")) seen.insert(one.pod_uid);
  EXPECT_THAT(seen, SizeIs(pods.size()));
}

TEST_F(FallbackEventsTest, LeaveOutUnknownReasonsCountsOfZeroAndPodsWithoutUid) {
  EXPECT_THAT(
      events.due({pod("1", {{"made_up", 1}, {"memory", 0}}), pod("", {{"memory", 1}})}, "n1"),
      IsEmpty());
}

}  // namespace
}  // namespace fairlead::cni::node
