// Values of metrics on their way to Prometheus' text format, made again for each scrape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exposition/metric_info.h"

namespace fairlead::exposition {

struct Label {
  std::string name;
  std::string value;
};
using Labels = std::vector<Label>;

struct HistogramValue {
  struct Bucket {
    double bound;         // the last one's is infinity
    std::uint64_t count;  // of values within this bound and beyond the one before
  };
  std::vector<Bucket> buckets;
  double sum = 0;
};

struct Sample {
  Labels labels;
  double value = 0;
  std::optional<HistogramValue> histogram;
};

struct Family {
  std::string_view name;
  std::string_view help;
  MetricType type;
  std::vector<Sample> samples;
};

// Families without samples are left out.
std::string to_text(std::span<const Family> families);

// One family for each entry of a table, which has static storage.
template <class Metric>
class Families {
 public:
  explicit Families(std::span<const MetricInfo<Metric>> table) {
    for (const auto& info : table) families_.push_back({info.name, info.help, info.type, {}});
  }

  void set(Metric metric, Labels labels, double value) {
    samples(metric).push_back({std::move(labels), value, std::nullopt});
  }
  void set(Metric metric, Labels labels, std::uint64_t value) {
    set(metric, std::move(labels), static_cast<double>(value));
  }
  void set(Metric metric, std::uint64_t value) { set(metric, {}, value); }
  void set(Metric metric, Labels labels, HistogramValue value) {
    samples(metric).push_back({std::move(labels), 0, std::move(value)});
  }

  std::string text() const { return to_text(families_); }

 private:
  std::vector<Sample>& samples(Metric metric) {
    return families_.at(static_cast<std::size_t>(metric)).samples;
  }

  std::vector<Family> families_;
};

}  // namespace fairlead::exposition
