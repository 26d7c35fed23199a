// What a program says about a metric. Each has one table of these, from which its reference is made
// as well.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fairlead::exposition {

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

// `Metric` is the enumeration of a program's metrics, counted from 0.
template <class Metric>
struct MetricInfo {
  Metric metric;
  std::string_view name;
  MetricType type;
  std::string_view labels;  // for people: `direction` (outbound, inbound), …; may be empty
  std::string_view help;    // one sentence
};

// Whether the table has each metric up to `last` at its place.
template <class Metric, std::size_t N>
constexpr bool is_complete(const std::array<MetricInfo<Metric>, N>& table, Metric last) {
  for (std::size_t i = 0; i < N; ++i)
    if (static_cast<std::size_t>(table[i].metric) != i) return false;
  return static_cast<std::size_t>(last) + 1 == N;
}

}  // namespace fairlead::exposition
