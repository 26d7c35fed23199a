#include "cni/node/agent/agent_metric_table.h"

#include <array>

#include "event/http/http_refusals.h"

namespace fairlead::cni::node {
namespace {

using M = AgentMetric;
using T = exposition::MetricType;

constexpr std::string_view kBrokerResult = "`result` (good, or why not)";

constexpr std::string_view kRnicCounterLabels = "`rnic`, `port`, `counter` (a name of sysfs)";

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
    AgentMetricInfo{M::kPods, "fairlead_node_pods", T::kGauge,
                    "`part` (redirect, option_program, client_address), `state` (good, missing, "
                    "unknown)",
                    "Pods with a sidecar, by whether what the plugin gave them was there at the "
                    "last check; unknown where fairlead-node may not look."},
    AgentMetricInfo{M::kPodsTranslated, "fairlead_node_pods_translated", T::kGauge, "",
                    "Pods that are redirected by address translation, because their node cannot "
                    "have the programs or is configured so: docs/cni.md, \"Redirect\"."},
    AgentMetricInfo{M::kPodsUnread, "fairlead_node_pods_unread", T::kGauge, "",
                    "Pods whose description by the API server exceeds a limit, at its last list: "
                    "it is not known whether they have a redirect, or should have one."},
    AgentMetricInfo{M::kCollected, "fairlead_node_collected_total", T::kCounter, "",
                    "Attachments of pods that went without a DEL."},
    AgentMetricInfo{M::kRepairs, "fairlead_node_repairs_total", T::kCounter,
                    "`result` (repaired, failed)",
                    "Pods that were started before the plugin was there, by whether they could be "
                    "given a redirect; a failure counts when it is told in the log."},
    AgentMetricInfo{M::kApiErrors, "fairlead_node_api_errors_total", T::kCounter, "",
                    "Calls to the API server that failed; they are repeated."},
    AgentMetricInfo{M::kRnics, "fairlead_node_rnics", T::kGauge,
                    "`state` (active, inactive, missing)",
                    "RDMA ports of the node; missing: those that the configuration names and the "
                    "node does not have."},
    AgentMetricInfo{M::kRnicHardwareCounters, "fairlead_node_rnic_hw_counters_total", T::kCounter,
                    kRnicCounterLabels,
                    "What the RNIC's driver counts: repetitions, losses, congestion. Names are the "
                    "driver's."},
    AgentMetricInfo{
        M::kRnicPortCounters, "fairlead_node_rnic_port_counters_total", T::kCounter,
        kRnicCounterLabels,
        "What the RNIC's port counts. `port_rcv_data` and `port_xmit_data` are in units "
        "of 4 bytes."},
    AgentMetricInfo{M::kBrokerPods, "fairlead_node_broker_pods", T::kGauge,
                    "`state` (open, failed)",
                    "Pods with a sidecar, by whether they can reach the broker."},
    AgentMetricInfo{M::kBrokerDevices, "fairlead_node_broker_devices", T::kGauge, "",
                    "Shared-memory devices, one for each worker of a sidecar, at the broker."},
    AgentMetricInfo{M::kBrokerRegistrations, "fairlead_node_broker_registrations_total",
                    T::kCounter, kBrokerResult, "Devices that said who they are."},
    AgentMetricInfo{M::kBrokerIntroductions, "fairlead_node_broker_introductions_total",
                    T::kCounter, kBrokerResult, "Wishes of a device to be connected with another."},
    AgentMetricInfo{M::kBrokerStrangers, "fairlead_node_broker_rejected_total", T::kCounter, "",
                    "Listeners of another user, and devices that spoke otherwise."},
    AgentMetricInfo{M::kBrokerBuffers, "fairlead_node_broker_buffers", T::kGauge, "",
                    "Buffers that the broker holds for the devices of the node."},
    AgentMetricInfo{M::kBrokerBuffersRefused, "fairlead_node_broker_buffers_refused_total",
                    T::kCounter, "", "Times a stock was not refilled for a limit of buffers."},
    AgentMetricInfo{M::kBrokerRecordsLost, "fairlead_node_broker_records_lost_total", T::kCounter,
                    "", "Records for devices that do not read or have not come, beyond a limit."},
    AgentMetricInfo{M::kPodThreads, "fairlead_node_pod_threads", T::kGauge,
                    "`state` (running, ending, refused)",
                    "Pods with a sidecar that have a thread of the agent, that have gone and whose "
                    "thread has not, and that could not be given one."},
    AgentMetricInfo{M::kKeeperSidecars, "fairlead_node_keeper_sidecars", T::kGauge, "",
                    "Sidecars whose connections are kept while they are replaced."},
    AgentMetricInfo{M::kKeeperDescriptors, "fairlead_node_keeper_descriptors", T::kGauge, "",
                    "Descriptors that are held for the next sidecar."},
    AgentMetricInfo{M::kKeeperParcels, "fairlead_node_keeper_parcels_total", T::kCounter,
                    "`result` (taken, given, expired, pod_ended, refused)",
                    "Connections of one sidecar, by what became of them: taken from it, given to "
                    "the next one, or lost."},
    AgentMetricInfo{M::kNriConnected, "fairlead_node_nri_connected", T::kGauge, "",
                    "Whether the container runtime asks fairlead-node about new containers."},
    AgentMetricInfo{M::kNriRegistrations, "fairlead_node_nri_registrations_total", T::kCounter, "",
                    "Connections to the container runtime that it accepted."},
    AgentMetricInfo{M::kNriErrors, "fairlead_node_nri_errors_total", T::kCounter, "",
                    "Connections to the container runtime that ended, or were not accepted."},
    AgentMetricInfo{M::kRnicAccess, "fairlead_node_rnic_access_total", T::kCounter,
                    "`result` (granted, or why not)",
                    "New sidecars, by whether they got the device nodes of their RNICs."},
    AgentMetricInfo{M::kRnicLate, "fairlead_node_rnic_late_total", T::kCounter,
                    "`result` (given, failed)",
                    "Running sidecars that were created while fairlead-node was not connected, by "
                    "whether they could be given their RNICs."},
    AgentMetricInfo{M::kLogDropped, "fairlead_node_log_dropped_total", T::kCounter, "",
                    "Lines of the log that were dropped because nobody read standard error in "
                    "time."},
    AgentMetricInfo{M::kHttpRefused, "fairlead_node_http_refused_total", T::kCounter,
                    event::kHttpRefusalLabel,
                    "Connections and requests that the server of probes and metrics refused."},
};
static_assert(is_complete(kTable, M::kHttpRefused));

}  // namespace

std::span<const AgentMetricInfo> agent_metric_table() { return kTable; }

}  // namespace fairlead::cni::node
