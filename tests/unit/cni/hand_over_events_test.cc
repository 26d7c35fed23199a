// Goal: one Event for each hand-over of a sidecar, at a bounded rate.
#include "cni/node/reports/hand_over_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fairlead::cni::node {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

PodLine pod(const std::string& uid, SidecarCounts::HandOver hand_over) {
  PodLine line;
  line.pod.name_space = "shop";
  line.pod.name = "web-" + uid;
  line.pod.uid = uid;
  line.answers = true;
  line.counts.hand_over = hand_over;
  return line;
}

TEST(HandOverEvents, SayWhatWentOnAndWhatWasLost) {
  HandOverEvents events;
  const auto due = events.due({pod("1", {12, 0, 84'000'000})}, "n1");
  ASSERT_THAT(due, SizeIs(1));
  const event::ClusterEvent& event = due[0].event;
  EXPECT_EQ(event.about.name, "web-1");
  EXPECT_EQ(event.reason, "FairleadHandOver");
  EXPECT_FALSE(event.warning);
  EXPECT_THAT(event.message, HasSubstr("12 go on after 84 ms"));
  EXPECT_THAT(event.message, HasSubstr("0 were reset"));
  const auto lossy = events.due({pod("2", {12, 1, 84'000'000})}, "n1");
  ASSERT_THAT(lossy, SizeIs(1));
  EXPECT_TRUE(lossy[0].event.warning);
}

TEST(HandOverEvents, ComeOnceForEachHandOver) {
  HandOverEvents events;
  EXPECT_THAT(events.due({pod("1", {})}, "n1"), IsEmpty()) << "nothing was taken back";
  const std::vector<PodLine> first = {pod("1", {1, 0, 5})}, second = {pod("1", {1, 0, 6})};
  ASSERT_THAT(events.due(first, "n1"), SizeIs(1)) << "not made yet";
  events.made(events.due(first, "n1")[0]);
  EXPECT_THAT(events.due(first, "n1"), IsEmpty());
  EXPECT_THAT(events.due(second, "n1"), SizeIs(1));
  EXPECT_THAT(events.due({}, "n1"), IsEmpty());
  EXPECT_THAT(events.due(first, "n1"), SizeIs(1)) << "the pod was forgotten";
}

TEST(HandOverEvents, AreBoundedAndNeedAUid) {
  HandOverEvents events;
  std::vector<PodLine> pods(1, pod("", {1, 0, 1}));
  for (int i = 0; i < 20; ++i) pods.push_back(pod(std::to_string(i), {1, 0, 1}));
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
    for (int i = 0; i < 20; ++i) pods.push_back(pod(std::to_string(i), {1, 0, report}));
    pods.push_back(pod("honest", {1, 0, 7}));
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
