#include "injector/injector_metrics.h"

#include <unistd.h>

#include <fstream>
#include <limits>
#include <utility>

#include "base/log.h"
#include "exposition/families.h"

namespace fairlead::injector {
namespace {

using M = InjectorMetric;
using T = exposition::MetricType;

constexpr std::array kTable = {
    InjectorMetricInfo{M::kBuildInfo, "fairlead_injector_build_info", T::kGauge, "`version`",
                       "Always 1; the label tells what was built."},
    InjectorMetricInfo{M::kRequests, "fairlead_injector_requests_total", T::kCounter,
                       "`result` (injected, skipped, refused), `reason`",
                       "Admission reviews, by what became of the pod; every reason exists from the "
                       "start, at 0."},
    InjectorMetricInfo{M::kReviewDuration, "fairlead_injector_review_duration_seconds",
                       T::kHistogram, "", "Time from a review's last byte to the answer."},
    InjectorMetricInfo{M::kEvents, "fairlead_injector_events_total", T::kCounter,
                       "`result` (made, lost)",
                       "Events about pods that asked for a sidecar and got none."},
    InjectorMetricInfo{M::kCertificateExpiry, "fairlead_injector_cert_expiry_timestamp_seconds",
                       T::kGauge, "",
                       "When the certificate that is served expires, in seconds since 1970; 0 "
                       "without one."},
    InjectorMetricInfo{M::kCertificateRenewals, "fairlead_injector_cert_renewals_total",
                       T::kCounter, "", "Certificates that this replica has made."},
    InjectorMetricInfo{M::kCertificateErrors, "fairlead_injector_cert_errors_total", T::kCounter,
                       "",
                       "Attempts to look after the certificate that failed; they are repeated."},
    InjectorMetricInfo{M::kLogDropped, "fairlead_injector_log_dropped_total", T::kCounter, "",
                       "Lines of the log that were dropped because nobody read standard error in "
                       "time."},
    InjectorMetricInfo{M::kHttpRefused, "fairlead_injector_http_refused_total", T::kCounter,
                       "`server` (reviews, admin), `reason` (crowded, slow_request, slow_reader, "
                       "memory, rate, bad_request, not_served, forbidden)",
                       "Connections and requests that were refused."},
    InjectorMetricInfo{M::kProcessMemory, "process_resident_memory_bytes", T::kGauge, "",
                       "Resident memory of the process."},
};
static_assert(is_complete(kTable, M::kProcessMemory));

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::span<const InjectorMetricInfo> injector_metric_table() { return kTable; }

void InjectorMetrics::observe(Duration review) {
  const double value = std::chrono::duration<double>(review).count();
  std::size_t bucket = 0;
  while (bucket < kBucketSeconds.size() && value > kBucketSeconds[bucket]) ++bucket;
  ++buckets_[bucket];
  review_nanoseconds_ += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(review).count());
}

std::string InjectorMetrics::text() const {
  exposition::Families<M> out(kTable);
  out.set(M::kBuildInfo, {{"version", FAIRLEAD_VERSION}}, std::uint64_t{1});
  for (const Outcome outcome : outcomes()) {
    const bool is_injected = outcome == Outcome::kInjected;
    out.set(M::kRequests,
            {{"result", is_injected ? "injected" : "skipped"},
             {"reason", is_injected ? "" : std::string(to_string(outcome))}},
            outcomes_[static_cast<std::size_t>(outcome)]);
  }
  out.set(M::kRequests, {{"result", "refused"}, {"reason", "malformed_review"}}, malformed_);
  exposition::HistogramValue reviews{{}, static_cast<double>(review_nanoseconds_) / 1e9};
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    reviews.buckets.push_back(
        {i < kBucketSeconds.size() ? kBucketSeconds[i] : std::numeric_limits<double>::infinity(),
         buckets_[i]});
  out.set(M::kReviewDuration, {}, std::move(reviews));
  out.set(M::kEvents, {{"result", "made"}}, events_made_);
  out.set(M::kEvents, {{"result", "lost"}}, events_lost_);
  out.set(M::kCertificateExpiry, {}, static_cast<double>(expiry_));
  out.set(M::kCertificateRenewals, renewals_);
  out.set(M::kCertificateErrors, certificate_errors_);
  out.set(M::kLogDropped, log_dropped_lines());
  for (const event::HttpRefusal reason : event::kAllHttpRefusals) {
    const std::string name(to_string(reason));
    out.set(M::kHttpRefused, {{"server", "reviews"}, {"reason", name}},
            review_refusals_.count(reason));
    out.set(M::kHttpRefused, {{"server", "admin"}, {"reason", name}},
            admin_refusals_.count(reason));
  }
  out.set(M::kProcessMemory, resident_bytes());
  return out.text();
}

}  // namespace fairlead::injector
