#include "cni/node/agent_metrics.h"

#include <algorithm>

namespace fairlead::cni::node {
namespace {

// Closed sets: what a pod's plugin says must not make series at will.
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

std::string family(const char* name, const char* type, const char* help) {
  return std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

std::string sample(const char* name, const std::string& labels, std::uint64_t value) {
  return name + (labels.empty() ? "" : "{" + labels + "}") + " " + std::to_string(value) + "\n";
}

std::string by_result(const char* name,
                      const std::array<std::atomic<std::uint64_t>, Broker::kRefusals>& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto refusal = static_cast<broker::Refusal>(i);
    const std::string result = refusal == broker::Refusal::kNone ? "good" : to_string(refusal);
    text += sample(name, "result=\"" + result + "\"", counts[i]);
  }
  return text;
}

std::string broker_text(const Broker::Counts& counts) {
  std::string text = family("fairlead_node_broker_pods", "gauge",
                            "Pods with a sidecar, by whether they can reach the broker.");
  text += sample("fairlead_node_broker_pods", "state=\"open\"", counts.doors);
  text += sample("fairlead_node_broker_pods", "state=\"failed\"", counts.doors_failed);
  text += family("fairlead_node_broker_devices", "gauge",
                 "Shared-memory devices, one for each worker of a sidecar, at the broker.");
  text += sample("fairlead_node_broker_devices", "", counts.devices);
  text += family("fairlead_node_broker_registrations_total", "counter",
                 "Devices that said who they are.");
  text += by_result("fairlead_node_broker_registrations_total", counts.registrations);
  text += family("fairlead_node_broker_introductions_total", "counter",
                 "Wishes of a device to be connected with another.");
  text += by_result("fairlead_node_broker_introductions_total", counts.introductions);
  text += family("fairlead_node_broker_strangers_total", "counter",
                 "Connections to the broker of another user, or that spoke otherwise.");
  text += sample("fairlead_node_broker_strangers_total", "", counts.strangers);
  return text;
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

void AgentMetrics::set_inventory(const Inventory& inventory) {
  const std::lock_guard lock(mutex_);
  rnics_ = {{"active", 0}, {"inactive", 0}};
  for (const PortEntry& port : inventory.ports)
    ++rnics_[port.state == "ACTIVE" ? "active" : "inactive"];
}

bool AgentMetrics::install_ready() const {
  const std::lock_guard lock(mutex_);
  return install_ready_;
}

std::string AgentMetrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text = family("fairlead_node_install_ready", "gauge",
                            "Whether the plugin is in the runtime's network configuration.");
  text += sample("fairlead_node_install_ready", "", install_ready_ ? 1 : 0);
  text += family("fairlead_node_installs_total", "counter",
                 "Times that the plugin's entry was written, or could not be.");
  text += sample("fairlead_node_installs_total", "result=\"success\"", installs_good_);
  text += sample("fairlead_node_installs_total", "result=\"failure\"", installs_bad_);
  text += family("fairlead_node_cni_events_total", "counter",
                 "Lines of the plugin's log that reached the node side.");
  for (const auto& [key, count] : events_)
    text += sample("fairlead_node_cni_events_total",
                   "command=\"" + key.first + "\",event=\"" + key.second + "\"", count);
  text +=
      family("fairlead_node_attachments", "gauge", "Pods with a redirect, at the last collection.");
  text += sample("fairlead_node_attachments", "", attachments_);
  text += family("fairlead_node_collected_total", "counter",
                 "Attachments of pods that went without a DEL.");
  text += sample("fairlead_node_collected_total", "", collected_);
  text += family("fairlead_node_rnics", "gauge", "RDMA ports of the node.");
  for (const auto& [state, count] : rnics_)
    text += sample("fairlead_node_rnics", "state=\"" + state + "\"", count);
  if (broker_ != nullptr) text += broker_text(*broker_);
  return text;
}

}  // namespace fairlead::cni::node
