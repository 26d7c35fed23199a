#include "ctl/cluster/cluster_status.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "ctl/cluster/check_text.h"
#include "ctl/table.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::member;
using json::text_of;

constexpr std::size_t kReasonsShown = 3;

// A sidecar may report any number; a sum that does not fit is the largest number.
std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

std::uint64_t count_of(const json::Json& object, const char* name) {
  const json::Json& value = json::member(object, name);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

ConnectionCounts counts_of(const json::Json& pod) {
  ConnectionCounts counts{count_of(pod, "smcr"),
                          count_of(pod, "tcp"),
                          count_of(pod, "short"),
                          count_of(pod, "links"),
                          {}};
  const json::Json& reasons = json::member(pod, "reasons");
  if (reasons.is_object())
    for (const auto& [reason, count] : reasons.items())
      if (count.is_number_unsigned()) counts.reasons[reason] = count.get<std::uint64_t>();
  return counts;
}

PodStatus pod_of(const json::Json& pod, const std::string& node) {
  PodStatus status;
  status.name_space = json::shown_text(json::member(pod, "namespace"));
  status.name = json::shown_text(json::member(pod, "name"));
  status.node = node;
  status.redirect = json::shown_text(json::member(pod, "redirect"));
  status.option_program = json::shown_text(json::member(pod, "option_program"));
  // Agents of earlier versions do not say whether they asked.
  status.asked = json::member(pod, "asked") != false;
  status.answers = json::member(pod, "answers") == true;
  status.connections = counts_of(pod);
  return status;
}

NodeStatus node_of(const json::Json& report, std::chrono::system_clock::time_point now) {
  NodeStatus node;
  node.name = json::shown_text(json::member(report, "node"));
  node.version = json::shown_text(json::member(report, "version"));
  node.rdma_mode = json::shown_text(json::member(report, "rdma_mode"));
  node.nri = json::shown_text(json::member(report, "nri"));
  node.installed = json::member(report, "installed") == true;
  const json::Json& rnics = json::member(report, "rnics");
  node.rnics = count_of(rnics, "active");
  node.rnics_missing = count_of(rnics, "missing");
  // In seconds: the clock's unit does not hold every number that a report may have.
  const auto oldest = std::chrono::ceil<std::chrono::seconds>(now - kReportAgeMax);
  node.silent =
      count_of(report, "written_seconds") <
      static_cast<std::uint64_t>(std::max<std::int64_t>(oldest.time_since_epoch().count(), 0));
  return node;
}

void note_troubles(ClusterStatus& status) {
  const auto note = [&status](const std::string& who, const char* what) {
    status.troubles.push_back(who + ": " + what);
  };
  for (const NodeStatus& node : status.nodes) {
    if (node.silent) note("node " + node.name, "its agent has not reported for some minutes");
    if (!node.installed) note("node " + node.name, "the CNI plugin is not installed");
    if (node.rnics_missing != 0) note("node " + node.name, "RNIC ports of its pool are missing");
  }
  for (const PodStatus& pod : status.pods) {
    const std::string name = "pod " + pod.name_space + "/" + pod.name;
    if (pod.redirect == "missing") note(name, "it runs without its redirect");
    if (pod.option_program == "missing") note(name, "it cannot send the SMC option");
    if (pod.asked && !pod.answers) note(name, "its sidecar does not answer the agent");
  }
}

std::string share_text(const ConnectionCounts& counts) {
  constexpr std::uint64_t kHundred = 100;
  std::uint64_t part = counts.smcr;
  std::uint64_t all = sum_of(counts.smcr, counts.tcp);
  if (all == 0) return "-";
  for (; all > UINT64_MAX / kHundred; all /= 2) part /= 2;
  return std::to_string(part * kHundred / all) + "%";
}

std::string reasons_text(const ConnectionCounts& counts) {
  std::vector<std::pair<std::uint64_t, std::string>> sorted;
  for (const auto& [reason, count] : counts.reasons) sorted.emplace_back(count, reason);
  std::sort(sorted.rbegin(), sorted.rend());
  std::string text;
  for (std::size_t i = 0; i < sorted.size() && i < kReasonsShown; ++i)
    text += (i == 0 ? "" : ",") + sorted[i].second + "=" + std::to_string(sorted[i].first);
  return text;
}

std::vector<Column> with_counts(std::vector<Column> columns) {
  for (const Column& column : {Column{"SMC-R", Align::kRight}, Column{"CONNECTIONS", Align::kRight},
                               Column{"SHORT", Align::kRight}, Column{"LINKS", Align::kRight},
                               Column{"REASONS FOR TCP", Align::kLeft}})
    columns.push_back(column);
  return columns;
}

std::vector<std::string> with_counts(std::vector<std::string> cells,
                                     const ConnectionCounts& counts) {
  cells.push_back(share_text(counts));
  cells.push_back(std::to_string(sum_of(counts.smcr, counts.tcp)));
  cells.push_back(std::to_string(counts.brief));
  cells.push_back(std::to_string(counts.links));
  cells.push_back(reasons_text(counts));
  return cells;
}

Json counts_json(const ConnectionCounts& counts) {
  Json reasons = Json::object();
  for (const auto& [reason, count] : counts.reasons) reasons[reason] = count;
  return {{"smcr", counts.smcr},
          {"tcp", counts.tcp},
          {"short", counts.brief},
          {"links", counts.links},
          {"reasons", std::move(reasons)}};
}

}  // namespace

void ConnectionCounts::add(const ConnectionCounts& other) {
  smcr = sum_of(smcr, other.smcr);
  tcp = sum_of(tcp, other.tcp);
  brief = sum_of(brief, other.brief);
  links = sum_of(links, other.links);
  for (const auto& [reason, count] : other.reasons)
    reasons[reason] = sum_of(reasons[reason], count);
}

ClusterStatus read_cluster_status(const ApiAnswer& maps, const std::string& name_space,
                                  std::chrono::system_clock::time_point now) {
  ClusterStatus status;
  for (const json::Json& map : json::items_of(json::member(maps.body, "items"))) {
    const json::Json report = node_status_of(map);
    if (!report.is_object()) continue;
    NodeStatus node = node_of(report, now);
    for (const json::Json& one : json::items_of(json::member(report, "pods"))) {
      PodStatus pod = pod_of(one, node.name);
      if (!name_space.empty() && pod.name_space != name_space) continue;
      ++node.pods;
      node.connections.add(pod.connections);
      status.namespaces[pod.name_space].add(pod.connections);
      status.pods.push_back(std::move(pod));
    }
    status.nodes.push_back(std::move(node));
  }
  std::sort(status.nodes.begin(), status.nodes.end(),
            [](const NodeStatus& a, const NodeStatus& b) { return a.name < b.name; });
  std::sort(status.pods.begin(), status.pods.end(), [](const PodStatus& a, const PodStatus& b) {
    return std::tie(a.name_space, a.name) < std::tie(b.name_space, b.name);
  });
  note_troubles(status);
  return status;
}

std::string status_text(const ClusterStatus& status) {
  if (status.nodes.empty())
    return "no agent has written a report; does fairlead-node run, and is node.status on?\n";
  Table nodes(
      with_counts({{"NODE"}, {"VERSION"}, {"RNICS", Align::kRight}, {"PODS", Align::kRight}}));
  for (const NodeStatus& node : status.nodes)
    nodes.add_row(with_counts(
        {node.name, node.version, std::to_string(node.rnics), std::to_string(node.pods)},
        node.connections));
  Table namespaces(with_counts({{"NAMESPACE"}}));
  for (const auto& [name, counts] : status.namespaces)
    namespaces.add_row(with_counts({name}, counts));
  Table pods(with_counts({{"NAMESPACE"}, {"POD"}, {"NODE"}, {"REDIRECT"}}));
  for (const PodStatus& pod : status.pods)
    pods.add_row(with_counts({pod.name_space, pod.name, pod.node, pod.redirect}, pod.connections));
  std::string text = nodes.text();
  if (!namespaces.empty()) text += "\n" + namespaces.text() + "\n" + pods.text();
  for (const std::string& trouble : status.troubles) text += "\n" + printable(trouble);
  if (!status.troubles.empty()) text += "\n";
  return text;
}

Json status_json(const ClusterStatus& status) {
  Json nodes = Json::array();
  for (const NodeStatus& node : status.nodes)
    nodes.push_back({{"name", node.name},
                     {"version", node.version},
                     {"installed", node.installed},
                     {"silent", node.silent},
                     {"rdma_mode", node.rdma_mode},
                     {"nri", node.nri},
                     {"rnics", node.rnics},
                     {"rnics_missing", node.rnics_missing},
                     {"pods", node.pods},
                     {"connections", counts_json(node.connections)}});
  Json namespaces = Json::object();
  for (const auto& [name, counts] : status.namespaces) namespaces[name] = counts_json(counts);
  Json pods = Json::array();
  for (const PodStatus& pod : status.pods)
    pods.push_back({{"namespace", pod.name_space},
                    {"name", pod.name},
                    {"node", pod.node},
                    {"redirect", pod.redirect},
                    {"option_program", pod.option_program},
                    {"asked", pod.asked},
                    {"answers", pod.answers},
                    {"connections", counts_json(pod.connections)}});
  return {{"nodes", std::move(nodes)},
          {"namespaces", std::move(namespaces)},
          {"pods", std::move(pods)},
          {"troubles", status.troubles}};
}

}  // namespace fairlead::ctl
