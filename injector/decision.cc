#include "injector/decision.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/node_annotations.h"
#include "injector/annotations.h"
#include "injector/rnic_request.h"
#include "injector/sidecar.h"

namespace fairlead::injector {
namespace {

using kubernetes::kInjectKey;
using kubernetes::kSidecarName;
using kubernetes::kStatusKey;

constexpr std::array kOutcomes = {
    Outcome::kInjected,        Outcome::kNotRequested,  Outcome::kDisabled,    Outcome::kMovedFirst,
    Outcome::kAlreadyInjected, Outcome::kHostNetwork,   Outcome::kOtherMesh,   Outcome::kWindows,
    Outcome::kPortConflict,    Outcome::kBadAnnotation, Outcome::kMalformedPod};

constexpr const char* kRnicAccessKey = "fairlead.io/rnic-access";
constexpr const char* kDefaultContainerKey = "kubectl.kubernetes.io/default-container";
// The NRI plugin ulimit-adjuster reads it at the creation of the container.
constexpr const char* kUlimitKeyPrefix = "ulimits.nri.containerd.io/container.";

struct MeshMark {
  const char* annotation;
  const char* mesh;
};
constexpr MeshMark kMeshMarks[] = {{"sidecar.istio.io/status", "Istio"},
                                   {"linkerd.io/proxy-version", "Linkerd"}};

// RFC 6901
std::string escaped(std::string_view key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

// Where the sidecar is in the list, or nothing.
std::optional<std::size_t> place_of_sidecar(const Json& spec, const char* list) {
  const Json& containers = items_of(member(spec, list));
  for (std::size_t i = 0; i < containers.size(); ++i)
    if (text_of(member(containers[i], "name")) == kSidecarName) return i;
  return std::nullopt;
}

// A port of the pod that the sidecar needs, or 0.
std::int64_t taken_port(const Json& spec, std::uint16_t admin_port) {
  const std::int64_t ours[] = {kubernetes::kOutboundPort, kubernetes::kInboundPort, admin_port};
  for (const char* list : {"containers", "initContainers"})
    for (const Json& container : items_of(member(spec, list)))
      for (const Json& port : items_of(member(container, "ports"))) {
        const Json& number = member(port, "containerPort");
        if (number.is_number_integer() && std::find(std::begin(ours), std::end(ours),
                                                    number.get<std::int64_t>()) != std::end(ours))
          return number.get<std::int64_t>();
      }
  return 0;
}

Decision no(Outcome outcome, std::string explanation) {
  Decision decision;
  decision.outcome = outcome;
  decision.explanation = std::move(explanation);
  return decision;
}

bool has_the_shape_of_a_pod(const Json& pod) {
  const Json& metadata = member(pod, "metadata");
  const Json& annotations = member(metadata, "annotations");
  const Json& init = member(pod, "spec", "initContainers");
  const Json& claims = member(pod, "spec", "resourceClaims");
  return (metadata.is_null() || metadata.is_object()) && member(pod, "spec").is_object() &&
         member(pod, "spec", "containers").is_array() && (init.is_null() || init.is_array()) &&
         (claims.is_null() || claims.is_array()) &&
         (annotations.is_null() || annotations.is_object());
}

// Init containers run one after the other. Those in front of the sidecar would have no network,
// because the redirect is there from the beginning, and so the sidecar would never start.
Decision moved_first(std::size_t place) {
  Decision decision;
  decision.outcome = Outcome::kMovedFirst;
  decision.patch.push_back({{"op", "move"},
                            {"from", "/spec/initContainers/" + std::to_string(place)},
                            {"path", "/spec/initContainers/0"}});
  return decision;
}

// What another mesh does with the pod, or nothing. A request does not have the labels of the
// namespace, which may take a pod into ambient mode as well.
std::string mesh_of(const Json& pod) {
  const Json& annotations = member(pod, "metadata", "annotations");
  for (const MeshMark& mark : kMeshMarks)
    if (!member(annotations, mark.annotation).is_null())
      return std::string("has the sidecar of ") + mark.mesh;
  const Json& labels = member(pod, "metadata", "labels");
  if (text_of(member(labels, "istio.io/dataplane-mode")) == "ambient")
    return "is in Istio's ambient mode";
  return {};
}

// Reasons that prevent a requested injection, except wrong annotations.
std::optional<Decision> obstacle(const Json& pod, const AnnotationReport& report,
                                 const Settings& settings) {
  const Json& spec = member(pod, "spec");
  const Json& annotations = member(pod, "metadata", "annotations");
  const bool is_marked = !member(annotations, kStatusKey).is_null();
  const std::optional<std::size_t> place = place_of_sidecar(spec, "initContainers");
  if (is_marked && place.value_or(0) != 0) return moved_first(*place);
  if (is_marked || place || place_of_sidecar(spec, "containers"))
    return no(Outcome::kAlreadyInjected, "the pod has the sidecar already");
  if (member(spec, "hostNetwork") == Json(true))
    return no(Outcome::kHostNetwork, "the pod uses the network of the node (hostNetwork)");
  if (text_of(member(spec, "os", "name")) == "windows")
    return no(Outcome::kWindows, "the pod runs on Windows");
  const auto allow_mesh = report.wishes.find("allow-mesh");
  if (allow_mesh == report.wishes.end() || allow_mesh->second != "true")
    if (const std::string mesh = mesh_of(pod); !mesh.empty())
      return no(Outcome::kOtherMesh,
                "the pod " + mesh + "; fairlead.io/allow-mesh: \"true\" injects all the same");
  const std::uint16_t admin_port = admin_port_of(settings, report.wishes);
  if (const std::int64_t port = taken_port(spec, admin_port); port != 0)
    return no(Outcome::kPortConflict,
              "a container of the pod uses port " + std::to_string(port) +
                  ", which the sidecar needs" +
                  (port == admin_port ? "; fairlead.io/admin-port chooses another" : ""));
  return std::nullopt;
}

// Fields of the pod by which its other containers reach the processes of the sidecar, or by which
// the sidecar has the group of root. The policy about RNICs rejects such a pod unless it renounces
// RNICs.
std::string exposure_of(const Json& spec) {
  for (const char* field : {"hostPID", "hostIPC", "shareProcessNamespace"})
    if (member(spec, field) == Json(true)) return field;
  const Json& security = member(spec, "securityContext");
  if (member(security, "fsGroup") == Json(0)) return "securityContext.fsGroup";
  const Json& groups = items_of(member(security, "supplementalGroups"));
  if (std::find(groups.begin(), groups.end(), Json(0)) != groups.end())
    return "securityContext.supplementalGroups";
  return {};
}

// A manifest may have them; the API server never does.
void add_not_quoted(const Json& annotations, AnnotationReport& report) {
  if (!annotations.is_object()) return;
  for (const auto& [key, value] : annotations.items())
    if (key.starts_with(kubernetes::kAnnotationPrefix) && key != kStatusKey && !value.is_string() &&
        !value.is_null() && report.errors.size() < kFindingsMax)
      report.errors.push_back(not_quoted(key, json::shown_text(value)));
}

Json status_of(const Settings& settings) {
  return {{"version", settings.version},
          {"revision", settings.revision},
          {"containers", Json::array({kSidecarName})}};
}

std::string ulimits_of(const std::string& memlock) {
  const std::string bytes = std::to_string(memory_bytes(memlock).value_or(0));
  return "- type: memlock\n  hard: " + bytes + "\n  soft: " + bytes + "\n";
}

Json patch_for(const Json& pod, const Settings& settings, const Wishes& wishes) {
  Json patch = Json::array();
  const auto add = [&patch](std::string path, Json value) {
    patch.push_back({{"op", "add"}, {"path", std::move(path)}, {"value", std::move(value)}});
  };
  const Json& annotations = member(pod, "metadata", "annotations");
  if (!member(pod, "metadata").is_object()) add("/metadata", Json::object());
  if (!annotations.is_object()) add("/metadata/annotations", Json::object());
  const auto annotate = [&](std::string_view key, std::string value) {
    add("/metadata/annotations/" + escaped(key), std::move(value));
  };
  const Json& containers = items_of(member(pod, "spec", "containers"));
  if (member(annotations, kDefaultContainerKey).is_null() && !containers.empty())
    annotate(kDefaultContainerKey, text_of(member(containers.front(), "name")));
  annotate(kStatusKey, status_of(settings).dump());
  if (!exposure_of(member(pod, "spec")).empty() && member(annotations, kRnicAccessKey).is_null())
    annotate(kRnicAccessKey, std::string(kubernetes::kRnicAccessAllowed));
  if (!settings.memlock.empty())
    annotate(kUlimitKeyPrefix + std::string(kSidecarName), ulimits_of(settings.memlock));
  if (!member(pod, "spec", "initContainers").is_array()) add("/spec/initContainers", Json::array());
  const RnicRequest rnic = rnic_request(member(pod, "spec"), settings, wishes);
  // First, so that it also carries connections of the application's init containers.
  add("/spec/initContainers/0", sidecar_container(settings, wishes, rnic));
  if (rnic.claim_template.empty()) return patch;
  if (!member(pod, "spec", "resourceClaims").is_array()) add("/spec/resourceClaims", Json::array());
  add("/spec/resourceClaims/-",
      {{"name", kubernetes::kRnicClaimName}, {"resourceClaimTemplateName", rnic.claim_template}});
  return patch;
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kInjected:
      return "injected";
    case Outcome::kNotRequested:
      return "not_requested";
    case Outcome::kDisabled:
      return "disabled";
    case Outcome::kMovedFirst:
      return "moved_first";
    case Outcome::kAlreadyInjected:
      return "already_injected";
    case Outcome::kHostNetwork:
      return "host_network";
    case Outcome::kOtherMesh:
      return "other_mesh";
    case Outcome::kWindows:
      return "windows";
    case Outcome::kPortConflict:
      return "port_conflict";
    case Outcome::kBadAnnotation:
      return "bad_annotation";
    case Outcome::kMalformedPod:
      return "malformed_pod";
  }
  return "";
}

std::span<const Outcome> outcomes() { return kOutcomes; }

bool is_worth_a_warning(Outcome outcome) {
  return outcome != Outcome::kInjected && outcome != Outcome::kNotRequested &&
         outcome != Outcome::kDisabled && outcome != Outcome::kMovedFirst &&
         outcome != Outcome::kAlreadyInjected;
}

Decision decide(const Json& pod, const Settings& settings, bool namespace_opted_in) {
  if (!has_the_shape_of_a_pod(pod)) return no(Outcome::kMalformedPod, "what came is not a pod");
  const Json& given = member(pod, "metadata", "annotations");
  const auto annotations = strings_of(given);
  const auto asked = annotations.find(kInjectKey);
  if (asked == annotations.end() && member(given, kInjectKey).is_null() && !namespace_opted_in)
    return no(Outcome::kNotRequested, "neither pod nor namespace asks for the sidecar");
  if (asked != annotations.end() && asked->second == "disabled")
    return no(Outcome::kDisabled, "fairlead.io/inject is disabled");
  AnnotationReport report = read_annotations(annotations);
  add_not_quoted(given, report);
  std::optional<Decision> found = obstacle(pod, report, settings);
  if (!found) {
    if (auto conflict = resource_conflict(settings, report.wishes))
      report.errors.push_back(std::move(*conflict));
    if (auto conflict = rule_conflict(report.wishes)) report.errors.push_back(std::move(*conflict));
    if (auto conflict = rnic_conflict(member(pod, "spec"), report.wishes))
      report.errors.push_back(std::move(*conflict));
    if (!report.errors.empty())
      found = no(Outcome::kBadAnnotation, "an annotation of the pod cannot be acted on");
  }
  Decision decision = found ? std::move(*found) : no(Outcome::kInjected, "");
  if (decision.outcome == Outcome::kAlreadyInjected || decision.outcome == Outcome::kMovedFirst)
    return decision;
  if (is_worth_a_warning(decision.outcome))
    decision.warnings.push_back("no Fairlead sidecar: " + decision.explanation);
  if (const std::string exposure = exposure_of(member(pod, "spec")); !found && !exposure.empty())
    decision.warnings.push_back("the Fairlead sidecar gets no RNIC, because the pod has " +
                                exposure);
  for (auto* list : {&report.errors, &report.warnings})
    decision.warnings.insert(decision.warnings.end(), list->begin(), list->end());
  if (!found) decision.patch = patch_for(pod, settings, report.wishes);
  return decision;
}

}  // namespace fairlead::injector
