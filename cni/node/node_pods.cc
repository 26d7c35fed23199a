#include "cni/node/node_pods.h"

#include <utility>

#include "base/kubernetes_names.h"
#include "cni/json_text.h"

namespace fairlead::cni::node {
namespace {

constexpr std::size_t kPodBytesOfValue = 8;  // with its key; most have more

// True if the kubelet has reported the sidecar ready. From then on it accepts redirected
// connections.
bool runs(const Json& containers) {
  for (const Json& container : containers)
    if (text_of(member(container, "name")) == kubernetes::kSidecarName)
      return member(container, "started") == true &&
             member(member(container, "state"), "running").is_object();
  return false;
}

NodePod read_pod(const Json& object) {
  const Json& metadata = member(object, "metadata");
  const Json& status = member(object, "status");
  NodePod pod;
  pod.name_space = text_of(member(metadata, "namespace"));
  pod.name = text_of(member(metadata, "name"));
  pod.uid = text_of(member(metadata, "uid"));
  pod.annotations = strings_of(member(metadata, "annotations"));
  if (member(member(object, "spec"), "hostNetwork") != true)
    for (const Json& address : member(status, "podIPs"))
      if (std::string ip = text_of(member(address, "ip")); !ip.empty())
        pod.addresses.push_back(std::move(ip));
  pod.sidecar_runs =
      text_of(member(status, "phase")) == "Running" &&
      (runs(member(status, "initContainerStatuses")) || runs(member(status, "containerStatuses")));
  return pod;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain.find(c) != std::string_view::npos)
      result += c;
    else
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return result;
}

}  // namespace

tl::expected<PodPage, std::string> parse_pod_page(std::string_view text, std::size_t bytes_max) {
  const auto json =
      json::parse(text, {bytes_max, kJsonDepthMax, kPodPageBytesMax / kPodBytesOfValue});
  if (!json) return tl::unexpected("list of pods: " + json.error());
  if (text_of(member(*json, "kind")) != "PodList")
    return tl::unexpected("list of pods: " + shown(member(*json, "kind")) + " is no PodList");
  PodPage page;
  page.next = text_of(member(member(*json, "metadata"), "continue"));
  for (const Json& item : member(*json, "items"))
    if (NodePod pod = read_pod(item); !pod.name.empty() && !pod.uid.empty())
      page.pods.push_back(std::move(pod));
  return page;
}

tl::expected<NodePod, std::string> parse_pod(std::string_view text) {
  const auto json = parse_json(text, kPodPageBytesMax);
  if (!json) return tl::unexpected("pod: " + json.error());
  NodePod pod = read_pod(*json);
  if (pod.name.empty() || pod.uid.empty())
    return tl::unexpected(std::string("pod: without name or uid"));
  return pod;
}

std::string pod_path(std::string_view name_space, std::string_view name) {
  return "/api/v1/namespaces/" + escaped(name_space) + "/pods/" + escaped(name);
}

std::string pod_page_path(std::string_view node, unsigned limit, std::string_view next) {
  std::string path = "/api/v1/pods?fieldSelector=spec.nodeName%3D" + escaped(node) +
                     "&limit=" + std::to_string(limit);
  if (!next.empty()) path += "&continue=" + escaped(next);
  return path;
}

}  // namespace fairlead::cni::node
