#include "cni/node/agent/repair.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/result.h"
#include "cni/plugin/pod_cgroup.h"
#include "cni/plugin/pod_setup.h"
#include "cni/plugin/wishes.h"
#include "cni/rnics/verbs.h"
#include "cni/state/state.h"

namespace fairlead::cni::node {
namespace {

// Containers and networks of a runtime have other names, so its DEL and GC do not affect these
// states. The garbage collection removes them when the network namespace is gone.
constexpr const char* kContainerPrefix = "repaired-";
constexpr const char* kNetwork = "fairlead-node";

struct Known {
  std::set<std::string> uids;
  std::vector<NetnsIdentity> namespaces;
};

Known known_pods(const std::string& run_dir) {
  Known known;
  for (const std::string& container : known_containers(run_dir)) {
    const auto state = peek_state(run_dir, container);
    if (!state) continue;
    known.namespaces.push_back(state->identity);
    if (!state->pod_uid.empty()) known.uids.insert(state->pod_uid);
  }
  return known;
}

Request request_for(const NodePod& pod, const PodNetns& netns) {
  Request request;
  request.verb = Verb::kAdd;
  request.network = kNetwork;
  request.attachment = {kContainerPrefix + pod.uid, netns.ifname};
  request.netns = netns.path;
  request.arguments = {
      {"K8S_POD_NAMESPACE", pod.name_space}, {"K8S_POD_NAME", pod.name}, {"K8S_POD_UID", pod.uid}};
  Json ips = Json::array();
  for (const std::string& address : netns.addresses)
    ips.push_back(
        {{"address", address + (address.find(':') == std::string::npos ? "/32" : "/128")}});
  request.previous_result = Json{{"ips", std::move(ips)}};
  return request;
}

Outcome<AttachmentState> set_up(const Request& request, const RepairPlaces& places,
                                const NodeConfig& config, const NodePod& pod) {
  const auto wishes = SMC_TRY(read_wishes(pod.annotations));
  auto container =
      SMC_TRY(ContainerState::open(config.run_dir, request.attachment.container_id, true));
  auto state =
      set_up_pod(request, config, wishes, *container, find_pod_cgroup(places.cgroup_root, pod.uid));
  if (state && state->redirect.empty()) {
    undo_pod(*state);
    container->remove(request.attachment.ifname);
  }
  return state;
}

Repaired repair_pod(const NodePod& pod, const PodNetns& netns, const RepairPlaces& places,
                    const NodeConfig& config) {
  if (!is_container_id(kContainerPrefix + pod.uid)) return {&pod, false, "its uid is no name"};
  const auto state = set_up(request_for(pod, netns), places, config, pod);
  if (!state) return {&pod, false, state.error().message};
  return {&pod, !state->redirect.empty(),
          state->problems.empty() ? "" : state->problems.front().what};
}

bool is_known(const Known& known, const NodePod& pod) {
  return known.uids.contains(pod.uid) ||
         // Compared because some runtimes pass the plugin no uid.
         (!pod.netns.empty() && std::find(known.namespaces.begin(), known.namespaces.end(),
                                          pod.identity) != known.namespaces.end());
}

class Places {
 public:
  explicit Places(const std::string& folder) : folder_(folder) {}

  Result<PodNetns, std::string> find(const NodePod& pod) {
    if (!pod.netns.empty()) return look_into(pod.netns, pod.identity, pod.addresses);
    if (!namespaces_) namespaces_ = NetnsAddresses::read(folder_);
    auto netns = namespaces_->find(pod.addresses);
    if (netns) netns->addresses = pod.addresses;
    return netns;
  }

 private:
  const std::string& folder_;
  std::optional<NetnsAddresses> namespaces_;
};

}  // namespace

std::vector<NodePod> without_state(const std::string& run_dir, std::vector<NodePod> pods) {
  const Known known = known_pods(run_dir);
  std::erase_if(pods, [&known](const NodePod& pod) {
    return (pod.unread.empty() && !opted_in(pod.annotations)) || is_known(known, pod);
  });
  return pods;
}

std::vector<Repaired> repair(const RepairPlaces& places, const NodeConfig& config,
                             const std::vector<NodePod>& pods) {
  if (::access((config.run_dir + "/" + kEnabledName).c_str(), F_OK) != 0) return {};
  const Known known = known_pods(config.run_dir);
  Places searched(places.netns_dir);
  std::vector<Repaired> all;
  for (const NodePod& pod : pods) {
    if (!pod.unread.empty()) {
      if (!is_known(known, pod)) all.push_back({&pod, false, pod.unread});
      continue;
    }
    const bool has_network = !pod.netns.empty() || !pod.addresses.empty();
    if (!pod.sidecar_runs || !has_network || !opted_in(pod.annotations) || is_known(known, pod))
      continue;
    const auto netns = searched.find(pod);
    if (!netns) {
      all.push_back({&pod, false, netns.error()});
      continue;
    }
    // Compared because some runtimes pass the plugin no uid.
    if (std::find(known.namespaces.begin(), known.namespaces.end(), netns->identity) !=
        known.namespaces.end())
      continue;
    all.push_back(repair_pod(pod, *netns, places, config));
  }
  return all;
}

}  // namespace fairlead::cni::node
