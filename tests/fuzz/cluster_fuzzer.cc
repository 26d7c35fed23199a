// What an API server answers to fairleadctl: ConfigMaps of the agents and other objects. The input
// is JSON with a member for each question; a member that is a number is a status of HTTP. Data of a
// ConfigMap may be an object here, in place of its text. Properties: everything that is printed
// consists of printable lines within bounds, and the output as JSON can be parsed.
#include <cstdint>
#include <string_view>

#include "ctl/cluster/cluster_checks.h"
#include "ctl/cluster/cluster_status.h"
#include "ctl/reports.h"
#include "ctl/table.h"
#include "fuzz/reached.h"

namespace {

using namespace fairlead;
using namespace fairlead::ctl;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::hours(24 * 365 * 50)};
constexpr json::Limits kLimits{1 << 20, 64, 100'000};
constexpr std::string_view kReleaseNamespace = "fl";

ClusterAccess access() {
  ClusterAccess to;
  to.server = "https://h";
  to.context = "c";
  to.file = "f";
  return to;
}

// As the client would have it.
ApiAnswer answer_from(const json::Json& input, const char* name) {
  static const ClusterAccess kAccess = access();
  const json::Json& value = json::member(input, name);
  if (value.is_null()) return answer_of({.path = "/p"}, {404, R"({"message":"none"})"}, kAccess);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() < 1000)
    return answer_of({.path = "/p"}, {value.get<int>(), json::member(input, "message").dump()},
                     kAccess);
  return answer_of({.path = "/p"}, {200, value.is_string() ? json::text_of(value) : value.dump()},
                   kAccess);
}

// JSON within JSON is hard to fuzz.
void write_reports(json::Json& maps) {
  if (!maps.is_object() || !maps.contains("items") || !maps["items"].is_array()) return;
  for (json::Json& map : maps["items"]) {
    if (!map.is_object() || !map.contains("data") || !map["data"].is_object()) continue;
    for (auto& [name, value] : map["data"].items())
      if (value.is_object()) value = value.dump();
  }
}

ClusterFacts facts_from(json::Json input) {
  if (input.is_object() && input.contains("node_statuses")) write_reports(input["node_statuses"]);
  ClusterFacts facts;
  facts.context = "c";
  facts.server = "https://h";
  facts.version = answer_from(input, "version");
  facts.nodes = answer_from(input, "nodes");
  facts.namespaces = answer_from(input, "namespaces");
  facts.network_agents = answer_from(input, "network_agents");
  facts.cilium_config = answer_from(input, "cilium_config");
  facts.felix = answer_from(input, "felix");
  facts.openshift = json::member(input, "openshift") == true;
  facts.daemonsets = answer_from(input, "daemonsets");
  facts.deployments = answer_from(input, "deployments");
  facts.webhooks = answer_from(input, "webhooks");
  facts.policies = answer_from(input, "policies");
  facts.narrowing = answer_from(input, "narrowing");
  facts.bindings = answer_from(input, "bindings");
  facts.release_namespace = kReleaseNamespace;
  facts.name_space = answer_from(input, "name_space");
  facts.endpoints = answer_from(input, "endpoints");
  facts.pod_namespace = "shop";
  facts.dry_run = answer_from(input, "dry_run");
  facts.dry_run_plain = answer_from(input, "dry_run_plain");
  facts.node_statuses = answer_from(input, "node_statuses");
  return facts;
}

void check_lines(std::string_view text) {
  for (const char c : text) SMC_ASSERT((c >= ' ' && c <= '~') || c == '\n', c);
}

void check_json(const Json& json) {
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  const std::string escaped = escaped_json(text);
  check_lines(escaped);
  SMC_ASSERT(Json::parse(escaped) == Json::parse(text));
}

void check_checks(const ClusterFacts& facts, bool before) {
  const std::vector<Check> checks = cluster_checks(facts, {before, "0.1.0", kNow});
  SMC_ASSERT(!checks.empty());
  for (const Check& check : checks) {
    SMC_ASSERT(!check.name.empty());
    SMC_ASSERT((check.status == Check::Status::kOk) == check.fix.empty());
    fuzz::reached(check.name + ": " + std::to_string(static_cast<unsigned>(check.status)));
  }
  check_lines(checks_text(checks));
  check_json(checks_json(checks));
}

void check_status(const ClusterFacts& facts) {
  const ClusterStatus status = read_cluster_status(facts.node_statuses, "", kNow);
  check_lines(status_text(status));
  check_json(status_json(status));
  if (!status.nodes.empty()) fuzz::reached("status: nodes");
  if (!status.pods.empty()) fuzz::reached("status: pods");
  for (const std::string& trouble : status.troubles)
    fuzz::reached("status" + trouble.substr(trouble.rfind(": ")));
  // A sum is not less than its parts.
  for (const PodStatus& pod : status.pods)
    SMC_ASSERT(status.namespaces.at(pod.name_space).smcr >= pod.connections.smcr);
  // Of one namespace there is at most what there is of all.
  if (status.pods.empty()) return;
  const std::string& one = status.pods.front().name_space;
  const ClusterStatus part = read_cluster_status(facts.node_statuses, one, kNow);
  SMC_ASSERT(part.pods.size() <= status.pods.size() && part.nodes.size() == status.nodes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = json::parse({reinterpret_cast<const char*>(data), size}, kLimits);
  if (!input) return 0;
  const ClusterFacts facts = facts_from(*input);
  check_checks(facts, true);
  check_checks(facts, false);
  check_status(facts);
  return 0;
}
