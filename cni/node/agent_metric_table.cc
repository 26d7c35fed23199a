#include "cni/node/agent_metric_table.h"

#include <array>

namespace fairlead::cni::node {
namespace {

using M = AgentMetric;
using T = exposition::MetricType;

constexpr std::string_view kBrokerResult = "`result` (good, or why not)";

constexpr std::array kTable = {
    AgentMetricInfo{M::kInstallReady, "fairlead_node_install_ready", T::kGauge, "",
                    "Whether the plugin is in the runtime's network configuration."},
    AgentMetricInfo{M::kInstalls, "fairlead_node_installs_total", T::kCounter,
                    "`result` (success, failure)",
                    "Times that the plugin's entry was written, or could not be."},
    AgentMetricInfo{M::kCniEvents, "fairlead_node_cni_events_total", T::kCounter,
                    "`command` (ADD, DEL, …), `event` (added, add_failed, …)",
                    "Lines of the plugin's log that reached the node side."},
    AgentMetricInfo{M::kAttachments, "fairlead_node_attachments", T::kGauge, "",
                    "Pods with a redirect, at the last collection."},
    AgentMetricInfo{M::kCollected, "fairlead_node_collected_total", T::kCounter, "",
                    "Attachments of pods that went without a DEL."},
    AgentMetricInfo{M::kRepairs, "fairlead_node_repairs_total", T::kCounter,
                    "`result` (repaired, failed)",
                    "Pods that were started before the plugin was there, by whether they could be "
                    "given a redirect; a failure counts when it is told in the log."},
    AgentMetricInfo{M::kApiErrors, "fairlead_node_api_errors_total", T::kCounter, "",
                    "Calls to the API server that failed; they are repeated."},
    AgentMetricInfo{M::kRnics, "fairlead_node_rnics", T::kGauge, "`state` (active, inactive)",
                    "RDMA ports of the node."},
    AgentMetricInfo{M::kBrokerPods, "fairlead_node_broker_pods", T::kGauge,
                    "`state` (open, failed)",
                    "Pods with a sidecar, by whether they can reach the broker."},
    AgentMetricInfo{M::kBrokerDevices, "fairlead_node_broker_devices", T::kGauge, "",
                    "Shared-memory devices, one for each worker of a sidecar, at the broker."},
    AgentMetricInfo{M::kBrokerRegistrations, "fairlead_node_broker_registrations_total",
                    T::kCounter, kBrokerResult, "Devices that said who they are."},
    AgentMetricInfo{M::kBrokerIntroductions, "fairlead_node_broker_introductions_total",
                    T::kCounter, kBrokerResult, "Wishes of a device to be connected with another."},
    AgentMetricInfo{M::kBrokerStrangers, "fairlead_node_broker_strangers_total", T::kCounter, "",
                    "Connections to the broker of another user, or that spoke otherwise."},
};
static_assert(is_complete(kTable, M::kBrokerStrangers));

}  // namespace

std::span<const AgentMetricInfo> agent_metric_table() { return kTable; }

}  // namespace fairlead::cni::node
