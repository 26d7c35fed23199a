#include "cni/plugin/pod_parts.h"

#include <algorithm>

#include "bpf/client_address_program.h"
#include "bpf/option_program.h"
#include "cni/redirect/netns.h"
#include "cni/redirect/redirect.h"
#include "cni/state/garbage.h"

namespace fairlead::cni {
namespace {

PartReport missing(std::string what) { return {PartState::kMissing, std::move(what)}; }
PartReport unknown(std::string what) { return {PartState::kUnknown, std::move(what)}; }

// ADD's message about a part that failed; empty if there is none.
std::string problem_of(const AttachmentState& state, Code code) {
  const auto found = std::find_if(state.problems.begin(), state.problems.end(),
                                  [code](const Problem& problem) { return problem.code == code; });
  return found == state.problems.end() ? std::string() : found->what;
}

PartReport inspect_redirect(const AttachmentState& state, const std::string& cgroup_root) {
  if (state.redirect.empty()) {
    for (const Code code : {Code::kRedirect, Code::kNetns})
      if (std::string what = problem_of(state, code); !what.empty())
        return missing(std::move(what));
    return missing("never installed");
  }
  const Result<Netns> netns = Netns::open(state.netns);
  if (!netns) return unknown(state.netns + ": " + to_string(netns.error()));
  const Result<NetnsVisit> visit = NetnsVisit::enter(*netns);
  if (!visit) return unknown(state.netns + ": " + to_string(visit.error()));
  const auto reading = read_redirect(
      {cgroup_seen_at(state.redirect_cgroup, cgroup_root), pin_name(state.attachment)});
  if (!reading) return unknown(reading.error().message);
  std::string changes = difference(without_gone_interfaces(state.redirect), *reading);
  if (!changes.empty()) return missing(std::move(changes));
  return {PartState::kGood, ""};
}

PartReport inspect_option(const AttachmentState& state, const std::string& cgroup_root) {
  if (state.option_cgroup.empty()) {
    std::string what = problem_of(state, Code::kOption);
    return missing(what.empty() ? "never attached" : std::move(what));
  }
  const std::string path = cgroup_seen_at(state.option_cgroup, cgroup_root);
  const Result<bool> attached = bpf::is_attached(path);
  if (!attached) return unknown(path + ": " + to_string(attached.error()));
  if (!*attached) return missing("not attached to " + path);
  return {PartState::kGood, ""};
}

PartReport inspect_client_address(const AttachmentState& state, const std::string& cgroup_root) {
  if (state.client_address_cgroup.empty()) {
    std::string what = problem_of(state, Code::kClientAddress);
    if (what.empty()) return {};
    return missing(std::move(what));
  }
  const std::string path = cgroup_seen_at(state.client_address_cgroup, cgroup_root);
  const Result<std::uint32_t> map = bpf::find_client_address_map(path);
  if (!map) return unknown(path + ": " + to_string(map.error()));
  if (*map != state.client_address_map || *map == 0) return missing("not attached to " + path);
  return {PartState::kGood, ""};
}

}  // namespace

std::string_view to_string(PodPart part) {
  switch (part) {
    case PodPart::kRedirect:
      return "redirect";
    case PodPart::kOptionProgram:
      return "option_program";
    case PodPart::kClientAddress:
      return "client_address";
  }
  return "redirect";
}

std::string_view to_string(PartState state) {
  switch (state) {
    case PartState::kGood:
      return "good";
    case PartState::kMissing:
      return "missing";
    case PartState::kUnknown:
      return "unknown";
    case PartState::kNotMeant:
      return "not_meant";
  }
  return "unknown";
}

PodReport inspect_pod(const AttachmentState& state, const std::string& cgroup_root) {
  return {inspect_redirect(state, cgroup_root), inspect_option(state, cgroup_root),
          inspect_client_address(state, cgroup_root)};
}

}  // namespace fairlead::cni
