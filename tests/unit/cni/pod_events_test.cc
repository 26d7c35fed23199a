// Goal: one Event for each pod and reason, and for each hand-over of a sidecar, at a bounded rate,
// and no reason that a sidecar invented.
#include "cni/node/reports/fallback_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cni/node/reports/hand_over_events.h"

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

PodLine handed_over(const std::string& uid, SidecarCounts::HandOver hand_over) {
  PodLine line = pod(uid, {});
  line.counts.hand_over = hand_over;
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
  EXPECT_THAT(event.message, AllOf(HasSubstr(std::string(info.sentence)),
                                   HasSubstr("no_rdma_device"), HasSubstr(std::string(info.hint))));
}

TEST_F(FallbackEventsTest, WarnOnlyAboutWhatIsNotExpected) {
  for (const FallbackInfo& info : fallback_table()) {
    const std::string name(info.name);
    const auto due = events.due({pod("1", {{name, 1}})}, "n1");
    ASSERT_THAT(due, SizeIs(1)) << name;
    EXPECT_EQ(due[0].event.warning, !info.expected) << name;
  }
}

TEST_F(FallbackEventsTest, ComeOnceForEachReasonOfEachPodThatIsThere) {
  EXPECT_EQ(make_all({pod("1", {{"memory", 1}})}), 1u);
  EXPECT_EQ(make_all({pod("1", {{"memory", 9}})}), 0u);
  EXPECT_EQ(make_all({pod("1", {{"memory", 9}, {"no_pnet", 1}}), pod("2", {{"memory", 1}})}), 2u);
  EXPECT_EQ(make_all({}), 0u);
  EXPECT_EQ(make_all({pod("1", {{"memory", 1}})}), 1u);
}

TEST_F(FallbackEventsTest, AreDueAgainUntilTheyAreMade) {
  EXPECT_THAT(events.due({pod("1", {{"memory", 1}})}, "n1"), SizeIs(1));
  EXPECT_THAT(events.due({pod("1", {{"memory", 1}})}, "n1"), SizeIs(1));
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

TEST(HandOverEvents, SayWhatWentOnAndWhatWasLost) {
  HandOverEvents events;
  const auto due = events.due({handed_over("1", {12, 0, 84'000'000})}, "n1");
  ASSERT_THAT(due, SizeIs(1));
  const event::ClusterEvent& event = due[0].event;
  EXPECT_EQ(event.about.name, "web-1");
  EXPECT_EQ(event.reason, "FairleadHandOver");
  EXPECT_FALSE(event.warning);
  EXPECT_THAT(event.message, AllOf(HasSubstr("12 go on after 84 ms"), HasSubstr("0 were reset")));
  const auto lossy = events.due({handed_over("2", {12, 1, 84'000'000})}, "n1");
  ASSERT_THAT(lossy, SizeIs(1));
  EXPECT_TRUE(lossy[0].event.warning);
}

TEST(HandOverEvents, ComeOnceForEachHandOver) {
  HandOverEvents events;
  EXPECT_THAT(events.due({handed_over("1", {})}, "n1"), IsEmpty()) << "nothing was taken back";
  const std::vector<PodLine> first = {handed_over("1", {1, 0, 5})},
                             second = {handed_over("1", {1, 0, 6})};
  ASSERT_THAT(events.due(first, "n1"), SizeIs(1)) << "not made yet";
  events.made(events.due(first, "n1")[0]);
  EXPECT_THAT(events.due(first, "n1"), IsEmpty());
  EXPECT_THAT(events.due(second, "n1"), SizeIs(1));
  EXPECT_THAT(events.due({}, "n1"), IsEmpty());
  EXPECT_THAT(events.due(first, "n1"), SizeIs(1)) << "the pod was forgotten";
}

TEST(HandOverEvents, AreBoundedAndNeedAUid) {
  HandOverEvents events;
  std::vector<PodLine> pods(1, handed_over("", {1, 0, 1}));
  for (int i = 0; i < 20; ++i) pods.push_back(handed_over(std::to_string(i), {1, 0, 1}));
  std::size_t made = 0;
  for (;;) {
    const auto due = events.due(pods, "n1");
    EXPECT_LE(due.size(), HandOverEvents::kEventsPerReportMax);
    if (due.empty()) break;
    for (const HandOverEvent& one : due) events.made(one);
    made += due.size();
  }
  EXPECT_EQ(made, 20U);
}

TEST(HandOverEvents, OfSidecarsThatInventThemEndAndHoldUpNoOthers) {
  HandOverEvents events;
  std::size_t invented = 0, honest = 0;
  for (std::uint64_t report = 1; report <= 200; ++report) {
    std::vector<PodLine> pods;
    for (int i = 0; i < 20; ++i) pods.push_back(handed_over(std::to_string(i), {1, 0, report}));
    pods.push_back(handed_over("honest", {1, 0, 7}));
    for (const HandOverEvent& one : events.due(pods, "n1")) {
      (one.pod_uid == "honest" ? honest : invented) += 1;
      events.made(one);
    }
    EXPECT_EQ(honest, report < 3 ? 0U : 1U) << report;
  }
  EXPECT_EQ(invented, 20U * HandOverEvents::kEventsPerPodMax);
}

}  // namespace
}  // namespace fairlead::cni::node
