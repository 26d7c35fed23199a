#include "exposition/families.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>

namespace fairlead::exposition {
namespace {

prometheus::MetricType to_prometheus(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram to_prometheus(const HistogramValue& value) {
  prometheus::ClientMetric::Histogram histogram;
  histogram.sample_sum = value.sum;
  for (const HistogramValue::Bucket& bucket : value.buckets) {
    histogram.sample_count += bucket.count;
    histogram.bucket.push_back({histogram.sample_count, bucket.bound});
  }
  return histogram;
}

prometheus::ClientMetric to_prometheus(const Sample& sample, MetricType type) {
  prometheus::ClientMetric metric;
  for (const Label& label : sample.labels) metric.label.push_back({label.name, label.value});
  if (sample.histogram)
    metric.histogram = to_prometheus(*sample.histogram);
  else if (type == MetricType::kCounter)
    metric.counter.value = sample.value;
  else
    metric.gauge.value = sample.value;
  return metric;
}

}  // namespace

std::string to_text(std::span<const Family> families) {
  std::vector<prometheus::MetricFamily> all;
  for (const Family& family : families) {
    if (family.samples.empty()) continue;
    auto& made = all.emplace_back(prometheus::MetricFamily{
        std::string(family.name), std::string(family.help), to_prometheus(family.type), {}});
    for (const Sample& sample : family.samples)
      made.metric.push_back(to_prometheus(sample, family.type));
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, all);
  return out.str();
}

}  // namespace fairlead::exposition
