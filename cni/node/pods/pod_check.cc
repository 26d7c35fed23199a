#include "cni/node/pods/pod_check.h"

#include <algorithm>

#include "base/log.h"
#include "cni/state/garbage.h"

namespace fairlead::cni::node {
namespace {

// A DEL removes the parts first and the state afterwards.
bool is_still_there(const std::string& run_dir, const AttachmentState& before) {
  const auto now = peek_state(run_dir, before.attachment.container_id);
  return now && now->finished && now->identity == before.identity && lives(*now);
}

bool is_missing(const PartReport& part) { return part.state == PartState::kMissing; }

}  // namespace

PodCounts PodCheck::look() {
  PodCounts counts{};
  std::vector<PodFinding> found;
  const std::vector<std::string> containers = known_containers(run_dir_);
  std::erase_if(told_, [&](const auto& one) {
    return std::find(containers.begin(), containers.end(), one.first) == containers.end();
  });
  for (const std::string& container : containers) {
    const auto state = peek_state(run_dir_, container);
    if (!state || !state->finished || !lives(*state)) continue;
    const PodReport report = inspect(*state);
    if (std::any_of(report.begin(), report.end(), is_missing) && !is_still_there(run_dir_, *state))
      continue;
    PodFinding& pod = found.emplace_back();
    pod.name_space = state->pod_namespace;
    pod.name = state->pod_name;
    pod.uid = state->pod_uid;
    pod.netns = state->netns;
    pod.identity = state->identity;
    for (std::size_t part = 0; part < report.size(); ++part) {
      pod.states[part] = report[part].state;
      if (report[part].state != PartState::kNotMeant)
        ++counts.parts[part][static_cast<std::size_t>(report[part].state)];
    }
    pod.redirect_reason = state->redirect_reason;
    if (!pod.redirect_reason.empty()) ++counts.translated;
    tell(*state, report);
  }
  const std::lock_guard lock(mutex_);
  findings_ = std::move(found);
  return counts;
}

// A container of the pod with CAP_NET_ADMIN can make what is read arbitrarily large.
PodReport PodCheck::inspect(const AttachmentState& state) {
  auto report =
      calls_.ask(state.attachment.container_id, kCallMax,
                 [state, cgroup_root = cgroup_root_] { return inspect_pod(state, cgroup_root); });
  if (report) return std::move(*report);
  PodReport unknown;
  unknown.fill({PartState::kUnknown, "the check took too long"});
  return unknown;
}

std::vector<PodFinding> PodCheck::findings() const {
  const std::lock_guard lock(mutex_);
  return findings_;
}

void PodCheck::tell(const AttachmentState& state, const PodReport& report) {
  std::string now;
  for (const PodPart part : kPodParts)
    if (is_missing(report[static_cast<std::size_t>(part)]))
      now += (now.empty() ? "" : ",") + std::string(to_string(part));
  std::string& before = told_[state.attachment.container_id];
  if (before == now) return;
  before = now;
  if (now.empty()) {
    LogEvent(LogLevel::kInfo, "node", "pod_complete").field("pod", name_of(state));
    return;
  }
  const auto first = std::find_if(report.begin(), report.end(), is_missing);
  LogEvent(LogLevel::kWarn, "node", "pod_incomplete")
      .field("pod", name_of(state))
      .field("missing", now)
      .field("what", first->what);
}

}  // namespace fairlead::cni::node
