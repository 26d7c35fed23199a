// Kubernetes manifests in files: a stream of YAML documents, or JSON, as trees that keep the order
// of their keys. For offline use only; bounded_json.h parses input from the network.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "injector/decision.h"

namespace fairlead::injector {

using OrderedJson = nlohmann::ordered_json;

inline constexpr std::size_t kManifestBytesMax = 64 << 20;
// Aliases may multiply each other; this limits the expansion.
inline constexpr std::size_t kManifestValuesMax = 2'000'000;
inline constexpr std::size_t kManifestDepthMax = 128;

struct Manifest {
  std::vector<OrderedJson> documents;  // null for an empty one
  bool is_json = false;                // it was one JSON value
};

// Plain scalars have the types of YAML 1.1, as in kubectl: true, yes, 12, 1.5, ~. Error: a sentence
// with line and column.
Result<Manifest, std::string> parse_manifest(std::string_view text);
// The documents in their order, or the JSON value. Comments are lost. Ambiguous strings are quoted.
std::string print_manifest(const Manifest& manifest);

struct InjectedPod {
  std::string kind;
  std::string name;
  Decision decision;
};

// Injects into every pod and pod template of the document: Pod, Deployment, StatefulSet, DaemonSet,
// ReplicaSet, ReplicationController, Job, CronJob, and List of them. `namespace_opted_in`: pods
// without annotation are meant, too.
std::vector<InjectedPod> inject_into(OrderedJson& document, const Settings& settings,
                                     bool namespace_opted_in);

}  // namespace fairlead::injector
