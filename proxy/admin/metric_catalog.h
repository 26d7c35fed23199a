// Every metric that the proxy exports: name, type, labels and help, in one table. metrics.cc takes
// them from here, and so does docs/metrics.md, which is made from the same table.
//
// Labels are closed sets, or names of the node's own devices and networks; no label holds an
// address of a peer, whose number nobody bounds.
#pragma once

#include <cstdint>
#include <span>

#include "exposition/metric_info.h"

namespace fairlead::admin {

enum class Metric : std::uint8_t {
  kBuildInfo,
  kReady,
  kDraining,
  kWorkers,
  kConnectionsTotal,
  kConnectionsActive,
  kBytesTotal,
  kFallbackTotal,
  kHandshakeDuration,
  kFirstAnswer,
  kLongestWait,
  kTcpLosses,
  kConnectionsMoved,
  kConnectionsReset,
  kConnectionsRefused,
  kPeerTimeouts,
  kMemoryRefused,
  kDescriptorsRefused,
  kPeerFaults,
  kAcceptErrors,
  kTakenBack,
  kHandOverGap,
  kLogDropped,
  kClientAddress,
  kDestinationsDirect,
  kDirectConnections,
  kLinkGroups,
  kLinksActive,
  kLinks,
  kLinkEvents,
  kLinkTest,
  kLinkRtt,
  kRnicPortUp,
  kRnicGidUsable,
  kRnicMissing,
  kPnetInfo,
  kMemory,
  kMemoryLimit,
  kPinnedMemory,
  kPinnedMemoryLimit,
  kRmbBytes,
  kBufferFull,
  kBufferDowngrade,
  kSlabsReturned,
  kCdcMessages,
  kLlcMessages,
  kReceiveQueueLow,
  kLoopTurns,
  kSpinPolls,
  kSpinSeconds,
  kHttpRefused,
  kProcessCpu,
  kProcessMemory,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessStart,
};

using MetricInfo = exposition::MetricInfo<Metric>;

// In the order of the enumeration, which is the order of the output.
std::span<const MetricInfo> metric_catalog();

}  // namespace fairlead::admin
