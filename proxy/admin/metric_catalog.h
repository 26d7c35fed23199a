// Every metric that the proxy exports: name, type, labels and help, in one table. metrics.cc takes
// them from here, and so does docs/metrics.md, which is made from the same table.
//
// Labels are closed sets, or names of the node's own devices and networks; no label holds an
// address of a peer, whose number nobody bounds.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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
  kFallbackHandshake,
  kConnectionsMoved,
  kConnectionsReset,
  kConnectionsRefused,
  kAcceptErrors,
  kLinkGroups,
  kLinksActive,
  kLinks,
  kLinkEvents,
  kLinkTest,
  kLinkRtt,
  kRnicPortUp,
  kRnicGidUsable,
  kPnetInfo,
  kRedirectConfigured,
  kPinnedMemory,
  kPinnedMemoryLimit,
  kRmbBytes,
  kBufferFull,
  kBufferDowngrade,
  kCdcMessages,
  kLlcMessages,
  kReceiveQueueLow,
  kLoopTurns,
  kSpinPolls,
  kSpinSeconds,
  kProcessCpu,
  kProcessMemory,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessStart,
};

inline constexpr std::size_t kMetricCount = static_cast<std::size_t>(Metric::kProcessStart) + 1;

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

constexpr std::string_view to_string(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

struct MetricInfo {
  Metric metric;
  std::string_view name;
  MetricType type;
  std::string_view labels;  // for people: `direction` (outbound, inbound), …; may be empty
  std::string_view help;    // one sentence
};

// In the order of the enumeration, which is the order of the output.
std::span<const MetricInfo> metric_catalog();
const MetricInfo& metric_info(Metric metric);

}  // namespace fairlead::admin
