#include "cni/node/reports/hand_over_events.h"

#include "cni/node/pods/pod_event.h"

namespace fairlead::cni::node {
namespace {

constexpr std::uint64_t kNanosecondsPerMillisecond = 1'000'000;

event::ClusterEvent event_about(const PodFinding& pod, const SidecarCounts::HandOver& hand_over,
                                const std::string& node) {
  event::ClusterEvent event = pod_event(node, pod.name_space, pod.name, pod.uid);
  event.warning = hand_over.lost != 0;
  event.reason = "FairleadHandOver";
  event.message = "The sidecar was replaced. Of its connections, " +
                  std::to_string(hand_over.kept) + " go on after " +
                  std::to_string(hand_over.parked_nanoseconds / kNanosecondsPerMillisecond) +
                  " ms, and " + std::to_string(hand_over.lost) + " were reset.";
  return event;
}

}  // namespace

std::vector<HandOverEvent> HandOverEvents::due(const std::vector<PodLine>& pods,
                                               const std::string& node) {
  forget_others(made_, pods);
  std::vector<HandOverEvent> events;
  turns_.take(pods, [&](const PodLine& line) {
    if (!is_due(line)) return false;
    const SidecarCounts::HandOver& hand_over = line.counts.hand_over;
    events.push_back(
        {line.pod.uid, hand_over.parked_nanoseconds, event_about(line.pod, hand_over, node)});
    return events.size() == kEventsPerReportMax;
  });
  return events;
}

bool HandOverEvents::is_due(const PodLine& line) const {
  const SidecarCounts::HandOver& hand_over = line.counts.hand_over;
  if (line.pod.uid.empty() || line.pod.name.empty()) return false;
  if (hand_over.kept == 0 && hand_over.lost == 0) return false;
  const auto made = made_.find(line.pod.uid);
  return made == made_.end() || (made->second.count < kEventsPerPodMax &&
                                 made->second.parked_nanoseconds != hand_over.parked_nanoseconds);
}

void HandOverEvents::made(const HandOverEvent& event) {
  Made& made = made_[event.pod_uid];
  made.parked_nanoseconds = event.parked_nanoseconds;
  ++made.count;
}

}  // namespace fairlead::cni::node
