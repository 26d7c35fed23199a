// The annotations by which a pod's author configures Fairlead: one table, the source of the checks,
// the reference in docs/ and the warnings about misspelled names. Pure.
//
// Those of base/pod_settings.h have their limits and words there. The chart's admission policy
// makes the same checks in CEL; a test runs both over the same values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/pod_settings.h"

namespace fairlead::injector {

inline constexpr unsigned kUnprivilegedPortMin = 1024;
inline constexpr std::size_t kImageCharsMax = 255;
// With less memory the proxy has no room for buffers. Half of the most is the most that its
// memory.limit may be.
inline constexpr std::uint64_t kMemoryBytesMin = 32ULL << 20;
inline constexpr std::uint64_t kMemoryBytesMax = 2048ULL << 30;

// The program that uses an annotation.
enum class Reader : std::uint8_t { kInjector, kSidecar, kNode };

struct AnnotationInfo {
  std::string_view name;  // without the prefix
  Reader reader = Reader::kSidecar;
  std::string_view words;  // of allowed(); "" with a row
  std::string_view meaning;
  std::string_view example;
  bool (*check)(std::string_view value) = nullptr;  // absent with a row
  const PodSetting* row = nullptr;

  bool is_allowed(std::string_view value) const { return row ? allows(*row, value) : check(value); }
  // For people, in errors and in the reference.
  std::string allowed() const { return row ? allowed_text(*row) : std::string(words); }
};

std::span<const AnnotationInfo> annotation_table();
const AnnotationInfo* find_annotation(std::string_view name);

// Annotations of a pod: name without prefix, value. Only names of the table, only allowed values.
using Wishes = std::map<std::string, std::string, std::less<>>;

struct AnnotationReport {
  Wishes wishes;
  std::vector<std::string> errors;    // each names key, value and what is allowed
  std::vector<std::string> warnings;  // unknown keys with Fairlead's prefix
};

// `annotations`: all annotations of the pod, also of other programs. At most kFindingsMax errors
// and as many warnings are kept, and long values are cut in them.
inline constexpr std::size_t kFindingsMax = 16;
AnnotationReport read_annotations(
    const std::map<std::string, std::string, std::less<>>& annotations);
// The error about one of Fairlead's whose value is a number or a boolean in a manifest. The API
// server would refuse the whole object.
std::string not_quoted(std::string_view key, std::string_view value);

// "0.05", "50m" -> 50. Absent: not a quantity of CPU, or not a whole number of milli-CPUs.
std::optional<std::uint64_t> cpu_millis(std::string_view text);
// "64Mi" -> bytes; Ki, Mi, Gi only. Absent: anything else, or beyond 2^60.
std::optional<std::uint64_t> memory_bytes(std::string_view text);

}  // namespace fairlead::injector
