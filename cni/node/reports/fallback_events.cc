#include "cni/node/reports/fallback_events.h"

#include <algorithm>

#include "cni/node/pods/pod_event.h"

namespace fairlead::cni::node {
namespace {

event::ClusterEvent event_about(const PodFinding& pod, const FallbackInfo& info,
                                const std::string& node) {
  event::ClusterEvent event = pod_event(node, pod.name_space, pod.name, pod.uid);
  event.warning = !info.expected;
  event.reason = "FairleadFallback";
  event.message = "A connection is TCP instead of SMC-R: " + std::string(info.sentence) +
                  " (reason " + std::string(info.name) + "). Hint: " + std::string(info.hint) + ".";
  return event;
}

}  // namespace

std::vector<FallbackEvent> FallbackEvents::due(const std::vector<PodLine>& pods,
                                               const std::string& node) {
  forget_others(made_, pods);
  std::vector<FallbackEvent> events;
  turns_.take(pods, [&](const PodLine& line) {
    add_due(line, node, events);
    return events.size() == kEventsPerReportMax;
  });
  return events;
}

void FallbackEvents::add_due(const PodLine& line, const std::string& node,
                             std::vector<FallbackEvent>& events) {
  if (line.pod.uid.empty() || line.pod.name.empty()) return;
  const auto made = made_.find(line.pod.uid);
  const std::size_t full = std::min(events.size() + kEventsPerPodMax, kEventsPerReportMax);
  for (const auto& [name, count] : line.counts.reasons) {
    if (events.size() == full) return;
    const FallbackInfo* info = find_fallback(name);
    if (info == nullptr || count == 0) continue;
    if (made != made_.end() && made->second.contains(info->name)) continue;
    events.push_back({line.pod.uid, info->name, event_about(line.pod, *info, node)});
  }
}

void FallbackEvents::made(const FallbackEvent& event) { made_[event.pod_uid].insert(event.reason); }

}  // namespace fairlead::cni::node
