#include "cni/node/agent/agent_metrics.h"

#include <algorithm>

#include "base/log.h"
#include "cni/node/agent/agent_metric_table.h"
#include "exposition/families.h"

namespace fairlead::cni::node {
namespace {

// Closed sets, so that log lines cannot create arbitrary series.
constexpr std::array<std::string_view, 6> kCommands = {"ADD", "DEL",    "CHECK",
                                                       "GC",  "STATUS", "VERSION"};
constexpr std::array<std::string_view, 7> kEvents = {
    "added",     "add_failed",    "del_failed",      "not_done",
    "collected", "configuration", "redirect_present"};

template <std::size_t N>
std::string known(const Json& line, const char* key,
                  const std::array<std::string_view, N>& values) {
  const auto found = line.find(key);
  const bool good =
      found != line.end() && found->is_string() &&
      std::find(values.begin(), values.end(), found->get_ref<const std::string&>()) != values.end();
  return good ? found->get<std::string>() : "other";
}

using Families = exposition::Families<AgentMetric>;

void add_results(Families& out, AgentMetric metric,
                 const std::array<std::atomic<std::uint64_t>, BrokerCounts::kRefusals>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto refusal = static_cast<broker::Refusal>(i);
    out.set(metric, {{"result", refusal == broker::Refusal::kNone ? "good" : to_string(refusal)}},
            counts[i]);
  }
}

void add_broker(Families& out, const Broker::Counts& counts) {
  out.set(AgentMetric::kBrokerPods, {{"state", "open"}}, counts.pods);
  out.set(AgentMetric::kBrokerPods, {{"state", "failed"}}, counts.pods_failed);
  out.set(AgentMetric::kBrokerDevices, counts.devices);
  add_results(out, AgentMetric::kBrokerRegistrations, counts.registrations);
  add_results(out, AgentMetric::kBrokerIntroductions, counts.introductions);
  out.set(AgentMetric::kBrokerStrangers, counts.strangers);
  out.set(AgentMetric::kBrokerBuffers, counts.buffers);
  out.set(AgentMetric::kBrokerBuffersRefused, counts.buffers_refused);
  out.set(AgentMetric::kBrokerRecordsLost, counts.records_lost);
}

void add_keeper(Families& out, const KeeperCounts& counts) {
  out.set(AgentMetric::kKeeperSidecars, counts.sidecars);
  out.set(AgentMetric::kKeeperDescriptors, counts.descriptors);
  out.set(AgentMetric::kKeeperParcels, {{"result", "taken"}}, counts.taken);
  out.set(AgentMetric::kKeeperParcels, {{"result", "given"}}, counts.given);
  out.set(AgentMetric::kKeeperParcels, {{"result", "expired"}}, counts.expired);
  out.set(AgentMetric::kKeeperParcels, {{"result", "pod_ended"}}, counts.ended);
  out.set(AgentMetric::kKeeperParcels, {{"result", "refused"}}, counts.refused);
}

void add_rnic_access(Families& out, const RnicAccessCounts& counts) {
  out.set(AgentMetric::kNriConnected, std::uint64_t{counts.plugin->connected});
  out.set(AgentMetric::kNriRegistrations, counts.plugin->registrations);
  out.set(AgentMetric::kNriErrors, counts.plugin->errors);
  for (std::size_t i = 0; i < counts.handler->decisions.size(); ++i) {
    const auto access = static_cast<nri::RnicAccess>(i);
    if (access == nri::RnicAccess::kNotSidecar || access == nri::RnicAccess::kLateFailed) continue;
    out.set(AgentMetric::kRnicAccess, {{"result", std::string(to_string(access))}},
            counts.handler->decisions[i]);
  }
  out.set(AgentMetric::kRnicLate, {{"result", "given"}}, counts.delivery->late_given);
  out.set(AgentMetric::kRnicLate, {{"result", "failed"}}, counts.delivery->late_failed);
}

void add_rnic_counters(Families& out, const std::vector<RnicCounter>& counters) {
  for (const RnicCounter& one : counters)
    out.set(one.hardware ? AgentMetric::kRnicHardwareCounters : AgentMetric::kRnicPortCounters,
            {{"rnic", one.rnic}, {"port", one.port}, {"counter", std::string(one.name)}},
            one.value);
}

}  // namespace

void AgentMetrics::set_install_ready(bool ready) {
  const std::lock_guard lock(mutex_);
  install_ready_ = ready;
}

void AgentMetrics::count_install(bool good) {
  const std::lock_guard lock(mutex_);
  ++(good ? installs_good_ : installs_bad_);
}

void AgentMetrics::count_plugin_line(std::string_view line) {
  const auto json = parse_json(line);
  const Json fields = json && json->is_object() ? *json : Json::object();
  auto key = std::pair(known(fields, "command", kCommands), known(fields, "event", kEvents));
  const std::lock_guard lock(mutex_);
  ++events_[std::move(key)];
}

void AgentMetrics::set_garbage(std::size_t kept, std::size_t collected) {
  const std::lock_guard lock(mutex_);
  attachments_ = kept;
  collected_ += collected;
}

void AgentMetrics::set_pods(const PodCounts& counts) {
  const std::lock_guard lock(mutex_);
  pods_ = counts;
}

void AgentMetrics::set_inventory(const Inventory& inventory,
                                 const std::vector<std::string>& wanted) {
  const std::lock_guard lock(mutex_);
  rnics_ = {{"active", 0}, {"inactive", 0}, {"missing", 0}};
  rnics_["missing"] = missing_ports(inventory, wanted);
  for (const PortEntry& port : inventory.ports)
    ++rnics_[port.state == "ACTIVE" ? "active" : "inactive"];
}

std::string AgentMetrics::nri_state() const {
  if (rnic_access_.plugin == nullptr) return "off";
  return rnic_access_.plugin->connected ? "connected" : "not_connected";
}

bool AgentMetrics::install_ready() const {
  const std::lock_guard lock(mutex_);
  return install_ready_;
}

void AgentMetrics::add_pods(Families& out) const {
  for (std::size_t part = 0; part < kPodParts.size(); ++part) {
    for (std::size_t state = 0; state < kPartStates.size(); ++state) {
      std::uint64_t count = pods_.parts[part][state];
      if (kPodParts[part] == PodPart::kRedirect && kPartStates[state] == PartState::kMissing)
        count += not_redirected_;
      out.set(AgentMetric::kPods,
              {{"part", std::string(to_string(kPodParts[part]))},
               {"state", std::string(to_string(kPartStates[state]))}},
              count);
    }
  }
}

std::string AgentMetrics::text() const {
  const std::lock_guard lock(mutex_);
  Families out(agent_metric_table());
  out.set(AgentMetric::kInstallReady, std::uint64_t{install_ready_});
  out.set(AgentMetric::kInstalls, {{"result", "success"}}, installs_good_);
  out.set(AgentMetric::kInstalls, {{"result", "failure"}}, installs_bad_);
  for (const auto& [key, count] : events_)
    out.set(AgentMetric::kCniEvents, {{"command", key.first}, {"event", key.second}}, count);
  out.set(AgentMetric::kAttachments, attachments_);
  add_pods(out);
  out.set(AgentMetric::kPodsTranslated, pods_.translated);
  out.set(AgentMetric::kPodsUnread, pods_unread_);
  out.set(AgentMetric::kCollected, collected_);
  out.set(AgentMetric::kRepairs, {{"result", "repaired"}}, repaired_);
  out.set(AgentMetric::kRepairs, {{"result", "failed"}}, not_repaired_);
  out.set(AgentMetric::kApiErrors, api_errors_);
  for (const auto& [state, count] : rnics_) out.set(AgentMetric::kRnics, {{"state", state}}, count);
  if (rnic_counters_ != nullptr) add_rnic_counters(out, rnic_counters_->latest());
  if (broker_ != nullptr) add_broker(out, *broker_);
  if (agent_pods_ != nullptr) {
    out.set(AgentMetric::kPodThreads, {{"state", "running"}}, agent_pods_->running);
    out.set(AgentMetric::kPodThreads, {{"state", "ending"}}, agent_pods_->ending);
    out.set(AgentMetric::kPodThreads, {{"state", "refused"}}, agent_pods_->refused);
  }
  if (keeper_ != nullptr) add_keeper(out, *keeper_);
  if (rnic_access_.plugin != nullptr) add_rnic_access(out, rnic_access_);
  out.set(AgentMetric::kLogDropped, log_dropped_lines());
  for (const event::HttpRefusal reason : event::kAllHttpRefusals)
    out.set(AgentMetric::kHttpRefused, {{"reason", std::string(to_string(reason))}},
            http_refusals_.count(reason));
  return out.text();
}

}  // namespace fairlead::cni::node
