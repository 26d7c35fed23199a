#include "cni/node/pods/sidecar_answers.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace fairlead::cni::node {

std::vector<std::size_t> SidecarAnswers::order(const std::vector<PodFinding>& pods) {
  std::vector<Asked> known(pods.size());
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (const Asked* before = find(pods[i].identity)) known[i] = *before;
    known[i].pod = pods[i].identity;
  }
  asked_ = std::move(known);
  std::vector<std::size_t> order(pods.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) {
    const bool stalled = asked_[i].at != 0 && !asked_[i].answers;
    return std::tuple(stalled, asked_[i].at);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return order;
}

void SidecarAnswers::record(const NetnsIdentity& pod, std::optional<SidecarCounts> counts) {
  const auto found =
      std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) { return one.pod == pod; });
  if (found == asked_.end()) return;
  found->at = ++questions_;
  found->answers = counts.has_value();
  if (counts) found->counts = std::move(*counts);
}

PodLine SidecarAnswers::line(PodFinding pod) const {
  PodLine line{std::move(pod), false, false, {}};
  if (const Asked* asked = find(line.pod.identity)) {
    line.asked = asked->at != 0;
    line.answers = asked->answers;
    if (asked->answers) line.counts = asked->counts;
  }
  return line;
}

const SidecarAnswers::Asked* SidecarAnswers::find(const NetnsIdentity& pod) const {
  const auto found =
      std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) { return one.pod == pod; });
  return found == asked_.end() ? nullptr : &*found;
}

}  // namespace fairlead::cni::node
