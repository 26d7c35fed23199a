#include "injector/annotation_values.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "injector/annotations.h"

namespace fairlead::injector {
namespace {

constexpr std::size_t kNumberDigitsMax = 15;
constexpr std::uint64_t kPortMax = 65535;
constexpr std::uint64_t kGraceSecondsMax = 3600;
constexpr std::size_t kResourceNameCharsMax = 63;
constexpr std::size_t kResourcePrefixCharsMax = 253;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter_or_digit(char c) { return is_digit(c) || is_lower(c) || is_upper(c); }

// Digits only: no sign, no blank, no leading zero besides "0" itself.
std::optional<std::uint64_t> whole_number(std::string_view text) {
  if (text.empty() || text.size() > kNumberDigitsMax ||
      !std::all_of(text.begin(), text.end(), is_digit))
    return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool is_between(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto number = whole_number(text);
  return number && *number >= low && *number <= high;
}

}  // namespace

bool is_enabled_or_disabled(std::string_view value) {
  return value == "enabled" || value == "disabled";
}

bool is_seccomp_profile(std::string_view value) {
  return value == "RuntimeDefault" || value == "Localhost";
}

bool is_boolean(std::string_view value) { return value == "true" || value == "false"; }

bool is_port_list(std::string_view value) { return kubernetes::parse_port_list(value).has_value(); }

bool is_cidr_list(std::string_view value) { return kubernetes::parse_cidr_list(value).has_value(); }

bool is_pnet_id(std::string_view value) { return !canonical_pnet(value).empty(); }

bool is_rnic_access(std::string_view value) { return value == kubernetes::kRnicAccessAllowed; }

bool is_rule_list(std::string_view value) { return kubernetes::parse_rule_list(value).has_value(); }

bool is_cpu(std::string_view value) {
  const auto millis = cpu_millis(value);
  return millis && *millis > 0;
}

bool is_memory(std::string_view value) {
  const auto bytes = memory_bytes(value);
  return bytes && *bytes > 0;
}

bool is_memory_limit(std::string_view value) {
  const auto bytes = memory_bytes(value);
  return bytes && *bytes >= kMemoryBytesMin && *bytes <= kMemoryBytesMax;
}

bool is_buffer_size(std::string_view value) {
  if (value.size() <= 3) return false;
  const auto number = whole_number(value.substr(0, value.size() - 3));
  if (!number || *number == 0 || (*number & (*number - 1)) != 0 || *number > 512) return false;
  const std::string_view unit = value.substr(value.size() - 3);
  return unit == "MiB" || (unit == "KiB" && *number >= 16);
}

bool is_grace_period(std::string_view value) {
  if (value.empty()) return false;
  const std::string_view number = value.substr(0, value.size() - 1);
  if (value.back() == 's') return is_between(number, 0, kGraceSecondsMax);
  return value.back() == 'm' && is_between(number, 0, kGraceSecondsMax / 60);
}

bool is_admin_port(std::string_view value) {
  return is_between(value, kUnprivilegedPortMin, kPortMax) &&
         !is_between(value, kubernetes::kOutboundPort, kubernetes::kOutboundPort) &&
         !is_between(value, kubernetes::kInboundPort, kubernetes::kInboundPort);
}

bool is_image(std::string_view value) {
  const auto allowed = [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '_' || c == ':' || c == '/' || c == '@' ||
           c == '-';
  };
  return !value.empty() && value.size() <= kImageCharsMax && is_letter_or_digit(value.front()) &&
         std::all_of(value.begin(), value.end(), allowed);
}

bool is_rnic_claim_template(std::string_view value) { return kubernetes::is_object_name(value); }

bool is_rnic_resource(std::string_view value) {
  if (value == "none") return true;
  const std::size_t slash = value.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view prefix = value.substr(0, slash);
  const std::string_view name = value.substr(slash + 1);
  const auto in_prefix = [](char c) { return is_lower(c) || is_digit(c) || c == '.' || c == '-'; };
  const auto in_name = [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
  };
  const auto has_ends = [](std::string_view text) {
    return is_letter_or_digit(text.front()) && is_letter_or_digit(text.back());
  };
  return !prefix.empty() && prefix.size() <= kResourcePrefixCharsMax && has_ends(prefix) &&
         std::all_of(prefix.begin(), prefix.end(), in_prefix) && !name.empty() &&
         name.size() <= kResourceNameCharsMax && has_ends(name) &&
         std::all_of(name.begin(), name.end(), in_name);
}

std::optional<std::uint64_t> cpu_millis(std::string_view text) {
  constexpr std::uint64_t kMillis = 1000;
  constexpr std::size_t kDecimalsMax = 3;
  if (text.ends_with('m')) return whole_number(text.substr(0, text.size() - 1));
  const std::size_t dot = text.find('.');
  const auto whole = whole_number(text.substr(0, dot));
  if (!whole || *whole > UINT64_MAX / (2 * kMillis)) return std::nullopt;
  if (dot == std::string_view::npos) return *whole * kMillis;
  const std::string_view decimals = text.substr(dot + 1);
  if (decimals.empty() || decimals.size() > kDecimalsMax ||
      !std::all_of(decimals.begin(), decimals.end(), is_digit))
    return std::nullopt;
  std::uint64_t fraction = 0;
  for (std::size_t i = 0; i < kDecimalsMax; ++i)
    fraction =
        fraction * 10 + (i < decimals.size() ? static_cast<std::uint64_t>(decimals[i] - '0') : 0);
  return *whole * kMillis + fraction;
}

std::optional<std::uint64_t> memory_bytes(std::string_view text) {
  constexpr unsigned kBitsMax = 60;
  if (text.size() <= 2 || text.back() != 'i') return std::nullopt;
  const char letter = text[text.size() - 2];
  const unsigned shift = letter == 'K' ? 10 : letter == 'M' ? 20 : letter == 'G' ? 30 : 0;
  const auto number = whole_number(text.substr(0, text.size() - 2));
  if (shift == 0 || !number || *number >= (1ULL << (kBitsMax - shift))) return std::nullopt;
  return *number << shift;
}

}  // namespace fairlead::injector
