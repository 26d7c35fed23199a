#include "injector/injector_metrics.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace fairlead::injector {
namespace {

constexpr std::array kTable = {
    InjectorMetricInfo{"fairlead_injector_build_info", "gauge", "`version`",
                       "Always 1; the label tells what was built."},
    InjectorMetricInfo{"fairlead_injector_requests_total", "counter",
                       "`result` (injected, skipped, refused), `reason`",
                       "Admission reviews, by what became of the pod; every reason exists from the "
                       "start, at 0."},
    InjectorMetricInfo{"fairlead_injector_review_duration_seconds", "histogram", "",
                       "Time from a review's last byte to the answer."},
    InjectorMetricInfo{"fairlead_injector_events_total", "counter", "`result` (made, lost)",
                       "Events about pods that asked for a sidecar and got none."},
    InjectorMetricInfo{"fairlead_injector_cert_expiry_timestamp_seconds", "gauge", "",
                       "When the certificate that is served expires, in seconds since 1970; 0 "
                       "without one."},
    InjectorMetricInfo{"fairlead_injector_cert_renewals_total", "counter", "",
                       "Certificates that this replica has made."},
    InjectorMetricInfo{"fairlead_injector_cert_errors_total", "counter", "",
                       "Attempts to look after the certificate that failed; they are repeated."},
    InjectorMetricInfo{"process_resident_memory_bytes", "gauge", "",
                       "Resident memory of the process."},
};

// Text of one metric after the other, in the order of the table.
class Page {
 public:
  void begin(std::string_view name) {
    name_ = name;
    for (const InjectorMetricInfo& info : kTable)
      if (info.name == name)
        text_ += "# HELP " + name_ + " " + std::string(info.help) + "\n# TYPE " + name_ + " " +
                 std::string(info.type) + "\n";
  }
  void sample(const std::string& suffix, const std::string& value) {
    text_ += name_ + suffix + " " + value + "\n";
  }
  void sample(const std::string& suffix, std::uint64_t value) {
    sample(suffix, std::to_string(value));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

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
  Page page;
  page.begin("fairlead_injector_build_info");
  page.sample("{version=\"" FAIRLEAD_VERSION "\"}", 1);
  page.begin("fairlead_injector_requests_total");
  for (const Outcome outcome : outcomes()) {
    const char* result = outcome == Outcome::kInjected ? "injected" : "skipped";
    const std::string reason(outcome == Outcome::kInjected ? "" : to_string(outcome));
    page.sample("{result=\"" + std::string(result) + "\",reason=\"" + reason + "\"}",
                outcomes_[static_cast<std::size_t>(outcome)]);
  }
  page.sample("{result=\"refused\",reason=\"malformed_review\"}", malformed_);
  page.begin("fairlead_injector_review_duration_seconds");
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    count += buckets_[i];
    const std::string bound = i < kBucketSeconds.size() ? seconds(kBucketSeconds[i]) : "+Inf";
    page.sample("_bucket{le=\"" + bound + "\"}", count);
  }
  page.sample("_sum", seconds(static_cast<double>(review_nanoseconds_.load()) / 1e9));
  page.sample("_count", count);
  page.begin("fairlead_injector_events_total");
  page.sample("{result=\"made\"}", events_made_);
  page.sample("{result=\"lost\"}", events_lost_);
  page.begin("fairlead_injector_cert_expiry_timestamp_seconds");
  page.sample("", std::to_string(expiry_.load()));
  page.begin("fairlead_injector_cert_renewals_total");
  page.sample("", renewals_);
  page.begin("fairlead_injector_cert_errors_total");
  page.sample("", certificate_errors_);
  page.begin("process_resident_memory_bytes");
  page.sample("", resident_bytes());
  return page.take();
}

}  // namespace fairlead::injector
