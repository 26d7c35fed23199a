// Pods of this node with the fields that repair needs, and how the API server describes them: a
// list has the metadata alone, and a single pod is read as a whole or by its metadata. Pure.
// Source: Kubernetes API reference, PodList v1; Kubernetes API concepts, "Metadata-only fetches".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cni/plugin/request.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {

struct NodePod {
  std::string name_space, name, uid;
  StringMap annotations;
  std::vector<std::string> addresses;  // of the pod's own network; none on the node's
  bool sidecar_runs = false;           // and accepts connections
  // Its network namespace if the source of the pod knows it; else an empty path.
  std::string netns{};
  NetnsIdentity identity{};
  std::string version{};  // of the object; may be empty; does not change unless the pod does
  // Why the pod could not be read: a sentence; empty if it was read. Of an unread pod only names
  // and uid are known, not annotations, addresses and sidecar.
  std::string unread{};
};

// Maximum length of a page of several pods. It also limits the number of values, and so the memory.
inline constexpr std::size_t kPodPageBytesMax = 4 << 20;
// Maximum length of a page of one pod, and of one pod alone. etcd accepts objects of 1.5 MiB, and
// Go writes a character such as '<' as 6 bytes of JSON. That makes 9 MiB, and the page adds some
// more.
inline constexpr std::size_t kLonePodBytesMax = 16 << 20;
// This much of a page that is too long is read. It contains the next page's token and the pod's
// names.
inline constexpr std::size_t kPodBeginningBytes = 64 << 10;
// Media types of a pod's metadata and of a list of these, without spec and status, which can be
// long. A server that does not know them sends whole objects.
inline constexpr const char* kPodMetadataType =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
inline constexpr const char* kPodMetadataListType =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

struct PodPage {
  std::vector<NodePod> pods;
  std::string next;  // token for the next page; empty after the last one
};

// Keeps only Fairlead's annotations. Skips pods without name or uid. The error is a sentence.
Result<PodPage, std::string> parse_pod_page(std::string_view text,
                                            std::size_t bytes_max = kPodPageBytesMax);

// Reads the beginning of a page with one pod that cannot be read as a whole: the pod is unread, for
// the reason `unread`. The API server writes the next page's token first, and a pod's names before
// its other fields. The error is a sentence.
Result<PodPage, std::string> parse_page_beginning(std::string_view text, const std::string& unread);

// A single pod, or its metadata. The error is a sentence.
Result<NodePod, std::string> parse_pod(std::string_view text);

// "its metadata is 20000000 bytes long, and 16777216 are allowed". `length`: as HttpsReply has it.
std::string too_long(std::string_view what, const std::string& length, std::size_t allowed);

// The path of a pod.
std::string pod_path(std::string_view name_space, std::string_view name);

// The path and query of a page of at most `limit` pods.
std::string pod_page_path(std::string_view node, unsigned limit, std::string_view next);

}  // namespace fairlead::cni::node
