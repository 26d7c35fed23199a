// Pods of this node with the fields that repair needs, and how the API server lists them. Pure.
// Source: Kubernetes API reference, PodList v1.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cni/netns.h"
#include "cni/request.h"

namespace fairlead::cni::node {

struct NodePod {
  std::string name_space, name, uid;
  StringMap annotations;
  std::vector<std::string> addresses;  // of the pod's own network; none on the node's
  bool sidecar_runs = false;           // and accepts connections
  // Its network namespace, where the source of the pod knows it; else an empty path.
  std::string netns{};
  NetnsIdentity identity{};
};

// A page of several pods. It also limits the number of values in a page, and so the memory.
inline constexpr std::size_t kPodPageBytesMax = 4 << 20;
// A page of one pod. etcd accepts objects of 1.5 MiB, and Go writes a character such as '<' as 6
// bytes of JSON: 9 MiB, and some more for the page around it.
inline constexpr std::size_t kLonePodBytesMax = 16 << 20;

struct PodPage {
  std::vector<NodePod> pods;
  std::string next;  // what the next page is asked for with; empty after the last
};

// A pod without name or uid is left out. The error is a sentence.
tl::expected<PodPage, std::string> parse_pod_page(std::string_view text,
                                                  std::size_t bytes_max = kPodPageBytesMax);

// One pod alone. The error is a sentence.
tl::expected<NodePod, std::string> parse_pod(std::string_view text);

// The path of a pod.
std::string pod_path(std::string_view name_space, std::string_view name);

// The path and query of a page of at most `limit` pods.
std::string pod_page_path(std::string_view node, unsigned limit, std::string_view next);

}  // namespace fairlead::cni::node
