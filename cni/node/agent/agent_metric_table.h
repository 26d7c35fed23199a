// Every metric of fairlead-node; docs/metrics.md is generated from this table.
#pragma once

#include <cstdint>
#include <span>

#include "exposition/metric_info.h"

namespace fairlead::cni::node {

enum class AgentMetric : std::uint8_t {
  kInstallReady,
  kInstalls,
  kCniEvents,
  kAttachments,
  kPods,
  kPodsTranslated,
  kPodsUnread,
  kCollected,
  kRepairs,
  kApiErrors,
  kRnics,
  kRnicHardwareCounters,
  kRnicPortCounters,
  kBrokerPods,
  kBrokerDevices,
  kBrokerRegistrations,
  kBrokerIntroductions,
  kBrokerStrangers,
  kBrokerBuffers,
  kBrokerBuffersRefused,
  kBrokerRecordsLost,
  kPodThreads,
  kKeeperSidecars,
  kKeeperDescriptors,
  kKeeperParcels,
  kNriConnected,
  kNriRegistrations,
  kNriErrors,
  kRnicAccess,
  kRnicLate,
  kLogDropped,
  kHttpRefused,
};
using AgentMetricInfo = exposition::MetricInfo<AgentMetric>;

// All metrics, in the order of the output.
std::span<const AgentMetricInfo> agent_metric_table();

}  // namespace fairlead::cni::node
