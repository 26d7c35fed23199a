#include "cni/node/nri/runtime_pods.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "cni/plugin/pod_plan.h"
#include "cni/plugin/wishes.h"
#include "nri.pb.h"

namespace fairlead::cni::node::nri {
namespace {

namespace messages = fairlead::nri;

constexpr const char* kLogger = "nri";
constexpr const char* kOwnNetns = "/proc/self/ns/net";
constexpr std::size_t kNameBytesMax = 253;

template <class Annotations>
void copy_annotation(const Annotations& from, const std::string& key, StringMap& to) {
  const auto found = from.find(key);
  if (found != from.end()) to[key] = found->second.substr(0, kAnnotationBytesMax);
}

StringMap annotations_of(const messages::PodSandbox& pod) {
  StringMap annotations;
  copy_annotation(pod.annotations(), std::string(kubernetes::kStatusKey), annotations);
  copy_annotation(pod.annotations(), std::string(kubernetes::kInjectKey), annotations);
  for (const kubernetes::NodeAnnotationInfo& info : kubernetes::kNodeAnnotations)
    copy_annotation(pod.annotations(),
                    std::string(kubernetes::kAnnotationPrefix) + std::string(info.name),
                    annotations);
  return annotations;
}

template <class Namespaces>
std::string network_of(const Namespaces& namespaces) {
  for (const auto& one : namespaces)
    if (one.type() == "network") return one.path();
  return {};
}

// Containers of a pod have the network of its sandbox.
std::string network_of(const messages::PodSandbox& pod, const messages::Container& container) {
  const std::string path = network_of(pod.linux_pod().namespaces());
  return path.empty() ? network_of(container.linux_container().namespaces()) : path;
}

std::optional<NetnsIdentity> identity_of(const std::string& path) {
  if (!path.starts_with('/') || path.size() >= PATH_MAX) return std::nullopt;
  const Result<Netns> netns = Netns::open(path);
  return netns ? std::optional(netns->identity()) : std::nullopt;
}

bool is_name(const std::string& text) { return !text.empty() && text.size() <= kNameBytesMax; }

// Empty for a pod on the node's network.
std::optional<RuntimePod> describe(const messages::PodSandbox& pod,
                                   const messages::Container& container) {
  RuntimePod made{pod.namespace_(), pod.name(), pod.uid(), annotations_of(pod), {}, "", {}};
  if (!opted_in(made.annotations) || !is_name(made.name_space) || !is_name(made.name) ||
      !is_name(made.uid))
    return std::nullopt;
  made.netns = network_of(pod, container);
  const auto identity = identity_of(made.netns);
  if (!identity || identity == identity_of(kOwnNetns)) return std::nullopt;
  made.identity = *identity;
  for (int i = 0; i < std::min(pod.ips_size(), static_cast<int>(kPodAddressesMax)); ++i)
    if (is_name(pod.ips(i))) made.addresses.push_back(pod.ips(i));
  return made;
}

}  // namespace

void RuntimePods::connected(pid_t) { ++connection_; }

void RuntimePods::create_container(const messages::PodSandbox& pod,
                                   const messages::Container& container,
                                   messages::ContainerAdjustment&) {
  keep(pod, container);
}

void RuntimePods::existing_container(const messages::PodSandbox& pod,
                                     const messages::Container& container) {
  keep(pod, container);
}

// This runs for every container of the node, so others than sidecars cause no system call.
void RuntimePods::keep(const messages::PodSandbox& pod, const messages::Container& container) {
  if (container.name() != kubernetes::kSidecarName || !is_container_id(pod.id())) return;
  std::optional<RuntimePod> made = describe(pod, container);
  if (!made) return;
  {
    const std::lock_guard lock(mutex_);
    if (pods_.size() < kRuntimePodsMax || pods_.contains(pod.id())) {
      pods_[pod.id()] = {std::move(*made), connection_};
      return;
    }
  }
  lines_.write(LogLevel::kWarn, kLogger, "pod_not_kept", std::chrono::steady_clock::now(),
               [&](LogEvent& line) {
                 line.field("pod", pod.namespace_() + "/" + pod.name())
                     .field("what", "the table of the node's pods is full");
               });
}

void RuntimePods::synchronized() {
  const std::lock_guard lock(mutex_);
  std::erase_if(pods_, [this](const auto& one) { return one.second.connection != connection_; });
}

// The plugin's thread must not wait for these system calls.
std::vector<RuntimePod> RuntimePods::list() {
  std::vector<std::pair<std::string, RuntimePod>> known;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [sandbox, kept] : pods_) known.emplace_back(sandbox, kept.pod);
  }
  std::vector<RuntimePod> there;
  for (auto& [sandbox, pod] : known) {
    const Result<Netns> netns = Netns::open(pod.netns);
    if (netns && netns->identity() == pod.identity) {
      there.push_back(std::move(pod));
      continue;
    }
    // When a namespace has ended, a file of that name remains for a moment.
    if (!netns && netns.error().code != Errc::kNotFound && netns.error().code != Errc::kMalformed)
      continue;
    const std::lock_guard lock(mutex_);
    const auto found = pods_.find(sandbox);
    if (found != pods_.end() && found->second.pod.identity == pod.identity) pods_.erase(found);
  }
  return there;
}

}  // namespace fairlead::cni::node::nri
