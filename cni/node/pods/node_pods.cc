#include "cni/node/pods/node_pods.h"

#include <utility>

#include "base/kubernetes_names.h"
#include "base/result.h"
#include "cni/plugin/json_text.h"

namespace fairlead::cni::node {
namespace {

constexpr std::size_t kPodBytesOfValue = 8;  // including its key; most have more
// Written by whoever changes the pod, at any length and depth, and not needed here.
constexpr std::string_view kSkipped = "managedFields";

json::Limits limits_of(std::size_t bytes_max) {
  return {bytes_max, kJsonDepthMax, kPodPageBytesMax / kPodBytesOfValue, kSkipped};
}

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
  pod.version = text_of(member(metadata, "resourceVersion"));
  pod.annotations = strings_of(member(metadata, "annotations"));
  std::erase_if(pod.annotations, [](const auto& one) {
    return !one.first.starts_with(kubernetes::kAnnotationPrefix);
  });
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

bool is_list(const Json& json) {
  const std::string kind = text_of(member(json, "kind"));
  return kind == "PartialObjectMetadataList" || kind == "PodList";
}

tl::unexpected<std::string> no_list(const Json& json) {
  return tl::unexpected("list of pods: " + shown(member(json, "kind")) + " is no list of pods");
}

}  // namespace

std::string too_long(std::string_view what, const std::string& length, std::size_t allowed) {
  return std::string(what) +
         (length.empty()
              ? " is longer than the allowed " + std::to_string(allowed) + " bytes"
              : " is " + length + " bytes long, and " + std::to_string(allowed) + " are allowed");
}

Result<PodPage, std::string> parse_page_beginning(std::string_view text,
                                                  const std::string& unread) {
  const Json json = json::parse_beginning(text, limits_of(kPodBeginningBytes));
  if (!is_list(json)) return no_list(json);
  const Json& items = json::items_of(member(json, "items"));
  NodePod read = items.empty() ? NodePod() : read_pod(items.front());
  if (read.name.empty() || read.uid.empty())
    return tl::unexpected("list of pods: " + unread + "; it begins without name and uid");
  PodPage page;
  page.next = text_of(member(member(json, "metadata"), "continue"));
  NodePod& pod = page.pods.emplace_back();
  pod.name_space = std::move(read.name_space);
  pod.name = std::move(read.name);
  pod.uid = std::move(read.uid);
  pod.unread = unread;
  return page;
}

Result<PodPage, std::string> parse_pod_page(std::string_view text, std::size_t bytes_max) {
  const auto json = json::parse(text, limits_of(bytes_max));
  if (!json) return tl::unexpected("list of pods: " + json.error());
  if (!is_list(*json)) return no_list(*json);
  PodPage page;
  page.next = text_of(member(member(*json, "metadata"), "continue"));
  for (const Json& item : member(*json, "items"))
    if (NodePod pod = read_pod(item); !pod.name.empty() && !pod.uid.empty())
      page.pods.push_back(std::move(pod));
  return page;
}

Result<NodePod, std::string> parse_pod(std::string_view text) {
  const auto json = json::parse(text, limits_of(kLonePodBytesMax));
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
