#include "cni/node/reports/status_report.h"

#include <sys/resource.h>

#include <algorithm>

namespace fairlead::cni::node {
namespace {

std::string report_name(const std::string& node) { return "fairlead-node-" + node; }

Json pod_json(const PodLine& line) {
  Json reasons = Json::object();
  for (const auto& [reason, count] : line.counts.reasons) reasons[reason] = count;
  const auto state = [&line](PodPart part) {
    return std::string(to_string(line.pod.states[static_cast<std::size_t>(part)]));
  };
  return {{"namespace", line.pod.name_space},
          {"name", line.pod.name},
          {"redirect", state(PodPart::kRedirect)},
          {"redirect_reason", line.pod.redirect_reason},
          {"option_program", state(PodPart::kOptionProgram)},
          {"client_address", state(PodPart::kClientAddress)},
          {"asked", line.asked},
          {"answers", line.answers},
          {"smcr", line.counts.smcr},
          {"tcp", line.counts.tcp},
          {"short", line.counts.brief},
          {"links", line.counts.links},
          {"reasons", std::move(reasons)}};
}

}  // namespace

std::string status_text(const StatusFacts& facts) {
  std::size_t active = 0;
  for (const PortEntry& port : facts.inventory.ports) active += port.state == "ACTIVE";
  Json status = {{"node", facts.node},
                 {"version", facts.version},
                 {"written_seconds", std::max<std::int64_t>(facts.written_seconds, 0)},
                 {"installed", facts.installed},
                 {"cgroup2", facts.cgroup2},
                 {"nri", facts.nri},
                 {"rdma_mode", facts.inventory.rdma_mode},
                 {"rnics",
                  {{"active", active},
                   {"inactive", facts.inventory.ports.size() - active},
                   {"missing", facts.rnics_missing}}}};
  if (facts.inventory.memlock_bytes == RLIM_INFINITY)
    status["memlock_bytes"] = "unlimited";
  else
    status["memlock_bytes"] = facts.inventory.memlock_bytes;
  Json pods = Json::array();
  std::size_t bytes = 0;
  for (const PodLine& line : facts.pods) {
    Json pod = pod_json(line);
    bytes += to_text(pod).size();
    if (bytes > kReportBytesMax) break;
    pods.push_back(std::move(pod));
  }
  status["pods_left_out"] = facts.pods.size() - pods.size();
  status["pods"] = std::move(pods);
  return to_text(status);
}

std::string reports_path(const std::string& name_space) {
  return "/api/v1/namespaces/" + name_space + "/configmaps";
}

std::string report_path(const std::string& name_space, const std::string& node) {
  return reports_path(name_space) + "/" + report_name(node);
}

std::string report_body(const std::string& name_space, const NodeIdentity& node,
                        const std::string& status) {
  const Json labels = {{"app.kubernetes.io/name", "fairlead"},
                       {"app.kubernetes.io/component", "node-status"}};
  Json metadata = {{"name", report_name(node.name)}, {"namespace", name_space}, {"labels", labels}};
  const Json owner = {
      {"apiVersion", "v1"}, {"kind", "Node"}, {"name", node.name}, {"uid", node.uid}};
  if (!node.uid.empty()) metadata["ownerReferences"] = Json::array({owner});
  return to_text(Json{{"apiVersion", "v1"},
                      {"kind", "ConfigMap"},
                      {"metadata", std::move(metadata)},
                      {"data", {{"status.json", status}}}});
}

}  // namespace fairlead::cni::node
