// Counters of the injector, and its /metrics. Written by its threads, read by any; relaxed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/time.h"
#include "event/http/http_refusals.h"
#include "exposition/metric_info.h"
#include "injector/decision.h"

namespace fairlead::injector {

enum class InjectorMetric : std::uint8_t {
  kBuildInfo,
  kRequests,
  kReviewDuration,
  kEvents,
  kCertificateExpiry,
  kCertificateRenewals,
  kCertificateErrors,
  kLogDropped,
  kHttpRefused,
  kProcessMemory,
};
using InjectorMetricInfo = exposition::MetricInfo<InjectorMetric>;

// In the order of the output; docs/metrics.md is generated from it.
std::span<const InjectorMetricInfo> injector_metric_table();

class InjectorMetrics {
 public:
  static constexpr std::array kBucketSeconds = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1};

  void count(Outcome outcome) { ++outcomes_[static_cast<std::size_t>(outcome)]; }
  void count_malformed() { ++malformed_; }
  void observe(Duration review);
  void count_event(bool was_made) { ++(was_made ? events_made_ : events_lost_); }
  void count_renewals(unsigned count) { renewals_ += count; }
  void count_certificate_error() { ++certificate_errors_; }
  // Seconds since 1970.
  void set_expiry(std::int64_t seconds) { expiry_.store(seconds); }

  // Counters for requests that the servers for reviews and for probes and metrics refuse.
  event::HttpRefusals& review_refusals() { return review_refusals_; }
  event::HttpRefusals& admin_refusals() { return admin_refusals_; }

  std::string text() const;  // Prometheus text format

 private:
  using Counter = std::atomic<std::uint64_t>;
  std::array<Counter, static_cast<std::size_t>(Outcome::kMalformedPod) + 1> outcomes_{};
  Counter malformed_{0};
  std::array<Counter, kBucketSeconds.size() + 1> buckets_{};
  Counter review_nanoseconds_{0};
  Counter events_made_{0};
  Counter events_lost_{0};
  Counter renewals_{0};
  Counter certificate_errors_{0};
  std::atomic<std::int64_t> expiry_{0};
  event::HttpRefusals review_refusals_;
  event::HttpRefusals admin_refusals_;
};

}  // namespace fairlead::injector
