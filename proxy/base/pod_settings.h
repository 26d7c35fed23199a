// Settings of the proxy that the chart, an annotation of a pod, or both can give: one row for each.
// The proxy's keys and the injector's checks use the rows, and scripts/settings.py makes the rules
// of the chart from them. tests/kubernetes/settings_test.py holds everything else against them.
// Pure, for any thread.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>

namespace fairlead {

using Choices = std::array<std::string_view, 6>;

struct NumberLimits {
  unsigned min = 0;
  unsigned max = 0;
  std::string_view zero = {};  // what 0 stands for where it is legal beside the range
  bool doubling = false;       // only `min` times a power of two
};

// The value is one of `choices` where there are some, else a whole number within `limits`.
struct PodSetting {
  std::string_view key;         // in the proxy's file
  std::string_view value;       // below `proxy` in the chart's values; "" where it has none
  std::string_view annotation;  // without the prefix; "" for none
  std::string_view usual;       // the default
  std::string_view meaning;     // a sentence, with the unit; "" without an annotation
  std::string_view example;
  NumberLimits limits;
  Choices choices;

  template <class Values>  // NumberLimits or Choices
  constexpr PodSetting(std::string_view key_, std::string_view value_, std::string_view annotation_,
                       std::string_view usual_, std::string_view meaning_,
                       std::string_view example_, Values values)
      : key(key_),
        value(value_),
        annotation(annotation_),
        usual(usual_),
        meaning(meaning_),
        example(example_) {
    if constexpr (std::is_same_v<Values, Choices>)
      choices = values;
    else
      limits = values;
  }
  constexpr bool is_number() const { return choices.front().empty(); }
  constexpr unsigned lowest() const { return limits.zero.empty() ? limits.min : 0; }
};

// In the order of the variables of a sidecar.
inline constexpr std::array kPodSettings = {
    PodSetting("fallback", "fallback", "fallback", "allow",
               "What becomes of a connection that cannot be SMC-R: TCP, or a reset.", "allow",
               Choices{"allow", "deny"}),
    PodSetting("log.level", "logLevel", "log-level", "info", "Log level of the sidecar.", "info",
               Choices{"trace", "debug", "info", "warn", "error", "off"}),
    PodSetting("log.format", "logFormat", "log-format", "logfmt", "Log format of the sidecar.",
               "logfmt", Choices{"logfmt", "json"}),
    PodSetting(
        "direct", "direct", "direct", "learned",
        "Connections to destinations that SMC-R does not reach: they go past the sidecar once "
        "that is learned, or never.",
        "never", Choices{"learned", "never"}),
    PodSetting("smc.version", "smc.version", "", "auto", "", "", Choices{"auto", "1", "2"}),
    PodSetting("smc.gid_type", "smc.gidType", "", "auto", "", "",
               Choices{"auto", "rocev1", "rocev2"}),
    PodSetting("smc.max_connections_per_group", "", "max-conns-per-group", "255",
               "Connections that share a link group.", "255", NumberLimits{16, 255}),
    PodSetting("smc.max_links", "smc.maxLinks", "max-links", "0",
               "Links of a link group, each over another port.", "2",
               NumberLimits{1, 3, "two where the network has two ports"}),
    PodSetting("smc.traffic_class", "smc.trafficClass", "traffic-class", "0",
               "DSCP and ECN of what the sidecar sends over RNICs, as one byte.", "106",
               NumberLimits{0, 255}),
    PodSetting("smc.service_level", "smc.serviceLevel", "service-level", "0",
               "Priority of what the sidecar sends over RNICs.", "3", NumberLimits{0, 7}),
    PodSetting("smc.path_mtu", "smc.pathMtu", "path-mtu", "0",
               "Bytes that a packet of the sidecar over RNICs carries at most.", "1024",
               NumberLimits{256, 4096, "that of the port", true}),
    PodSetting("smc.ack_timeout", "smc.ackTimeout", "ack-timeout", "16",
               "An RNIC sends again after 4.096 us times 2 to the power of this.", "14",
               NumberLimits{1, 22}),
    PodSetting("smc.retry_count", "smc.retryCount", "retry-count", "6",
               "How often an RNIC sends again before the link is lost.", "6", NumberLimits{0, 7}),
    PodSetting("smc.rnr_retry", "smc.rnrRetry", "rnr-retry", "7",
               "How often an RNIC sends again to a peer that is not ready; 7 is unlimited.", "7",
               NumberLimits{0, 7}),
    PodSetting("smc.defer_bytes", "smc.deferBytes", "defer-bytes", "65536",
               "Bytes after which a connection between two sidecars becomes SMC-R.", "0",
               NumberLimits{1024, 65536, "SMC-R from the first byte"}),
};

// REQUIRES: a key of the table. No other one compiles.
consteval const PodSetting& pod_setting(std::string_view key) {
  return *std::find_if(kPodSettings.begin(), kPodSettings.end(),
                       [key](const PodSetting& one) { return one.key == key; });
}

void usual_is_no_number();  // has no body: a constant that calls it does not compile
// The default. REQUIRES: the key of a number.
consteval unsigned usual_number(std::string_view key) {
  unsigned number = 0;
  for (const char digit : pod_setting(key).usual) {
    if (digit < '0' || digit > '9') usual_is_no_number();
    number = 10 * number + static_cast<unsigned>(digit - '0');
  }
  return number;
}

// True for a value in digits without a leading zero, or a choice.
bool allows(const PodSetting& setting, std::string_view text);
// For people: "a whole number from 1 to 22", "allow or deny".
std::string allowed_text(const PodSetting& setting);
// The variable of the proxy for a key of its file: "FAIRLEAD_SMC_ACK_TIMEOUT".
std::string variable_of(std::string_view key);

}  // namespace fairlead
