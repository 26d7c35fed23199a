#include "cni/node/cluster/cluster_chores.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "cni/node/cluster/api_call.h"
#include "cni/node/cluster/node_label.h"
#include "cni/node/pods/pod_event.h"
#include "cni/plugin/json_text.h"
#include "cni/plugin/pod_cgroup.h"
#include "event/http/http_status.h"
#include "event/https/cluster_event.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";

event::ClusterEvent event_about(const Repaired& repaired, const std::string& node) {
  const NodePod& pod = *repaired.pod;
  event::ClusterEvent event = pod_event(node, pod.name_space, pod.name, pod.uid);
  event.warning = !repaired.done;
  event.reason = repaired.done ? "FairleadRepaired" : "FairleadNotRepaired";
  event.message =
      !pod.unread.empty() ? "It is not known whether connections are redirected to a sidecar"
      : repaired.done     ? "Connections are redirected to the sidecar from now on; the pod was "
                            "started before the plugin was installed"
                          : "Connections are not redirected to the sidecar";
  if (!repaired.trouble.empty()) event.message += ": " + repaired.trouble;
  return event;
}

// True if a repeated request would get the same answer. False for an old token, or if the API
// server limits the rate.
bool is_refusal(int status) {
  return http_status::is_client_error(status) && status != http_status::kUnauthorized &&
         status != http_status::kTooManyRequests;
}

}  // namespace

ClusterChores::ClusterChores(ClusterSettings settings, event::ApiServer server, NodeConfig config,
                             AgentMetrics& metrics, const PodCheck& check,
                             RuntimePodList runtime_pods)
    : settings_(std::move(settings)),
      server_(std::move(server)),
      config_(std::move(config)),
      metrics_(metrics),
      check_(check),
      late_pods_(std::move(runtime_pods), config_.run_dir, config_.proxy_uid) {}

void ClusterChores::run() {
  const auto interval = std::chrono::duration_cast<Duration>(settings_.interval);
  do {
    look();
  } while (thread_.wait_until(std::chrono::steady_clock::now() + interval));
}

// The token is read each time, because it may name the node only after an upgrade of the cluster.
void ClusterChores::identify() {
  node_ = identify_node(settings_.node, server_.token());
  if (node_.name == settings_.node || std::exchange(told_of_.other_node, true)) return;
  LogEvent(LogLevel::kWarn, kLogger, "other_node")
      .field("node", node_.name)
      .field("what", "the agent's token is for this node, and --node-name is " + settings_.node);
}

void ClusterChores::look() {
  identify();
  if (settings_.label) log_once("not_labelled", told_of_.label, tend_label());
  if (settings_.repair && settings_.repair_from == RepairSource::kApi)
    log_once("pods_not_listed", told_of_.list, repair_pods_of_api());
  if (settings_.repair && settings_.repair_from == RepairSource::kRuntime) repair_pods_of_runtime();
  const TimePoint now = std::chrono::steady_clock::now();
  const auto pause = std::chrono::duration_cast<Duration>(settings_.status_interval);
  if (!settings_.status || settings_.report_namespace.empty() || now < reported_at_ + pause) return;
  reported_at_ = now;
  log_once("status_not_written", told_of_.report, write_report());
}

std::vector<PodLine> ClusterChores::ask_sidecars() {
  std::vector<PodFinding> pods = check_.findings();
  const TimePoint deadline = std::chrono::steady_clock::now() + kSidecarsMax;
  for (const std::size_t i : sidecars_.order(pods)) {
    if (std::chrono::steady_clock::now() > deadline) break;
    auto counts =
        calls_.ask(name_of_pod(pods[i].identity), kSidecarCallMax,
                   [netns = pods[i].netns, identity = pods[i].identity, uid = config_.proxy_uid] {
                     return ask_sidecar(netns, identity, uid);
                   });
    const bool answered = counts && *counts;
    sidecars_.record(pods[i].identity,
                     answered ? std::optional(std::move(**counts)) : std::nullopt);
  }
  std::vector<PodLine> lines;
  for (PodFinding& pod : pods) lines.push_back(sidecars_.line(std::move(pod)));
  return lines;
}

ClusterChores::Trouble ClusterChores::write_report() {
  StatusFacts facts;
  facts.node = node_.name;
  facts.version = settings_.version;
  facts.written_seconds = std::time(nullptr);
  facts.installed = metrics_.install_ready();
  facts.cgroup2 = has_cgroup2(settings_.places.cgroup_root);
  facts.nri = metrics_.nri_state();
  facts.inventory = take_inventory();
  facts.rnics_missing = missing_ports(facts.inventory, wanted_ports(config_));
  facts.pods = ask_sidecars();
  if (settings_.events) tell_events(facts.pods);
  // No PATCH: the API server's answer to one that fails shows the whole object, even of other
  // nodes.
  const std::string body = report_body(settings_.report_namespace, node_, status_text(facts));
  auto reply =
      server_.send({"PUT", report_path(settings_.report_namespace, node_.name), "", "", body});
  if (reply && reply->status == http_status::kNotFound)
    reply = server_.send({"POST", reports_path(settings_.report_namespace), "", "", body});
  if (!reply) return reply.error();
  if (reply->status == http_status::kOk || reply->status == http_status::kCreated) return {};
  return "report of the node: status " + std::to_string(reply->status);
}

void ClusterChores::log_once(const char* event, std::string& told, const Trouble& trouble) {
  if (!trouble.empty()) metrics_.count_api_error();
  if (std::exchange(told, trouble) == trouble || trouble.empty()) return;
  LogEvent(LogLevel::kWarn, kLogger, event).field("what", trouble);
}

ClusterChores::Trouble ClusterChores::tend_label() {
  const bool ready = metrics_.install_ready();
  const TimePoint now = std::chrono::steady_clock::now();
  if (labelled_.ready == ready && now < labelled_.at + kLabelInterval) return {};
  labelled_.ready.reset();
  const auto set = set_node_labels(server_, node_.name, ready, config_.pnets);
  if (!set) return set.error();
  labelled_ = {ready, now};
  return {};
}

// The list has metadata, which says which pods may need a repair; only these are read as a whole.
ClusterChores::Trouble ClusterChores::repair_pods_of_api() {
  PodListing listing = lister_.list(node_.name);
  const PodListing late = lister_.complete(without_state(config_.run_dir, std::move(listing.pods)));
  repair_pods(late.pods, listing.is_whole && late.is_whole);
  return listing.trouble.empty() ? late.trouble : listing.trouble;
}

// The log of the connection says why there is none.
void ClusterChores::repair_pods_of_runtime() {
  const auto pods = late_pods_.look();
  if (pods) repair_pods(*pods, true);
}

void ClusterChores::repair_pods(const std::vector<NodePod>& pods, bool is_whole) {
  const std::vector<Repaired> all = repair(settings_.places, config_, pods);
  // A part of the pods says nothing about the others.
  if (is_whole) {
    std::erase_if(told_, [&](const auto& one) {
      return std::none_of(pods.begin(), pods.end(),
                          [&](const NodePod& pod) { return pod.uid == one.first; });
    });
    const auto count = [&all](bool unread) {
      return static_cast<std::size_t>(
          std::count_if(all.begin(), all.end(), [unread](const Repaired& one) {
            return !one.done && one.pod->unread.empty() != unread;
          }));
    };
    metrics_.set_not_redirected(count(false));
    metrics_.set_pods_unread(count(true));
  }
  if (told_.size() > kToldMax) told_.clear();
  for (const Repaired& repaired : all) tell(repaired);
}

// Failed repairs are repeated each time. They are reported if the error has changed, but at most
// once in kRepeatInterval, because a pod can change its addresses at will.
bool ClusterChores::is_news(const Repaired& repaired) {
  const TimePoint now = std::chrono::steady_clock::now();
  const auto [told, fresh] = told_.try_emplace(repaired.pod->uid);
  if (!fresh && !repaired.done &&
      (told->second.trouble == repaired.trouble || now < told->second.at + kRepeatInterval))
    return false;
  told->second = {repaired.trouble, now};
  return true;
}

void ClusterChores::tell(const Repaired& repaired) {
  if (!is_news(repaired)) return;
  const NodePod& pod = *repaired.pod;
  metrics_.count_repair(repaired.done);
  lines_.write(repaired.done ? LogLevel::kInfo : LogLevel::kWarn, kLogger,
               repaired.done ? "repaired" : "not_repaired", std::chrono::steady_clock::now(),
               [&](LogEvent& line) {
                 line.field("pod", pod.name_space + "/" + pod.name).field("what", repaired.trouble);
               });
  const event::ClusterEvent event = event_about(repaired, node_.name);
  (void)make_event(event);
}

ClusterChores::EventAnswer ClusterChores::make_event(const event::ClusterEvent& event) {
  const std::string path = cluster_event_path(event);
  const auto reply = server_.send({"POST", path, "", "", cluster_event_body(event)});
  if (reply && reply->status == http_status::kCreated) return EventAnswer::kMade;
  metrics_.count_api_error();
  lines_.write(
      LogLevel::kWarn, kLogger, "no_event", std::chrono::steady_clock::now(), [&](LogEvent& line) {
        line.field("pod", event.name_space + "/" + event.about.name)
            .field("what", reply ? "status " + std::to_string(reply->status) : reply.error());
      });
  if (!reply) return EventAnswer::kNone;
  return is_refusal(reply->status) ? EventAnswer::kRefused : EventAnswer::kNotNow;
}

// An error about one Event does not concern the Events of other pods: its namespace may be
// terminating, or have a quota or a rate limit for Events.
void ClusterChores::tell_events(const std::vector<PodLine>& pods) {
  const auto tell = [&](auto& events) {
    for (const auto& due : events.due(pods, node_.name)) {
      const EventAnswer answer = make_event(due.event);
      if (answer == EventAnswer::kNone) return false;
      if (answer != EventAnswer::kNotNow) events.made(due);
    }
    return true;
  };
  if (tell(events_.fallbacks)) tell(events_.hand_overs);
}

}  // namespace fairlead::cni::node
