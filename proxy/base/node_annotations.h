// The annotations of a pod that its node acts on: what they are called, what they may hold, and how
// that is told. Injector and CNI plugin both judge them, hours apart, and must agree: a pod that
// the one lets in must not be refused by the other. Pure.
//
// The chart's admission policy makes the same checks in CEL; a test runs all over the same values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/connection_rule.h"
#include "base/pnet_id.h"

namespace fairlead::kubernetes {

// Lists longer than this are refused: each entry becomes an element of a packet filter set.
inline constexpr std::size_t kListEntriesMax = 64;

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;  // inclusive
};

// "80", "80,443", "8000-8010": 1 to 64 of them, from 1 to 65535, in digits without a leading zero,
// blanks nowhere. Nothing for anything else.
std::optional<std::vector<PortRange>> parse_port_list(std::string_view text);
// "10.0.0.0/8,fd00::/8": 1 to 64 blocks, each with its prefix. Nothing for anything else.
std::optional<std::vector<Cidr>> parse_cidr_list(std::string_view text);
// "10.0.0.0/8 port 5432,port 22": 1 to 64 rules, each as to_string() writes it. Nothing for
// anything else.
std::optional<std::vector<ConnectionRule>> parse_rule_list(std::string_view text);

// "enabled" or "disabled". Nothing for anything else.
std::optional<bool> parse_switch(std::string_view text);

enum class NodeAnnotation : std::uint8_t {
  kPnetId,
  kSkipInboundPorts,
  kSkipOutboundPorts,
  kSkipSubnets,
  kIncludeInboundPorts,
  kIncludeCidrs,
  kClientAddress,
  kRnicAccess,
};

struct NodeAnnotationInfo {
  NodeAnnotation annotation;
  std::string_view name;     // without the prefix
  std::string_view allowed;  // for people, in errors and references
  std::string_view meaning;
  std::string_view example;
};

inline constexpr std::string_view kPortListAllowed =
    "1 to 64 ports or ranges from 1 to 65535 between commas, as in 5432,8000-8010";
inline constexpr std::string_view kCidrListAllowed =
    "1 to 64 blocks between commas, without bits behind the prefix, as in 10.0.0.0/8,fd00::/8";
inline constexpr std::string_view kSwitchAllowed = "enabled or disabled";
inline constexpr std::string_view kRnicAccessAllowed = "none";
inline constexpr std::string_view kPnetIdAllowed = "1 to 16 of A-Z, a-z and 0-9";

// In the order of the enumeration.
inline constexpr std::array kNodeAnnotations = {
    NodeAnnotationInfo{NodeAnnotation::kPnetId, "pnet-id", kPnetIdAllowed,
                       "Use RNICs of this physical network only; otherwise the node decides.",
                       "NETA"},
    NodeAnnotationInfo{NodeAnnotation::kSkipInboundPorts, "skip-inbound-ports", kPortListAllowed,
                       "Ports of the application that are never redirected to the sidecar.",
                       "9100"},
    NodeAnnotationInfo{NodeAnnotation::kSkipOutboundPorts, "skip-outbound-ports", kPortListAllowed,
                       "Destination ports that are never redirected to the sidecar.", "5432,6379"},
    NodeAnnotationInfo{NodeAnnotation::kSkipSubnets, "skip-subnets", kCidrListAllowed,
                       "Destinations that are never redirected to the sidecar.", "192.168.0.0/16"},
    NodeAnnotationInfo{NodeAnnotation::kIncludeInboundPorts, "include-inbound-ports",
                       kPortListAllowed,
                       "Ports that are redirected although a client sends no SMC option; for nodes "
                       "where the option cannot be sent.",
                       "8080"},
    NodeAnnotationInfo{NodeAnnotation::kIncludeCidrs, "include-cidrs", kCidrListAllowed,
                       "Destinations that are redirected, in place of those of the node's "
                       "configuration.",
                       "10.42.0.0/16"},
    NodeAnnotationInfo{NodeAnnotation::kClientAddress, "client-address", kSwitchAllowed,
                       "Whether the application sees the client's address as that of its peer, or "
                       "its own pod's.",
                       "enabled"},
    NodeAnnotationInfo{NodeAnnotation::kRnicAccess, "rnic-access", kRnicAccessAllowed,
                       "Give the sidecar no device node of an RNIC, whatever the node would do.",
                       "none"},
};

constexpr const NodeAnnotationInfo& info_of(NodeAnnotation annotation) {
  return kNodeAnnotations[static_cast<std::size_t>(annotation)];
}

}  // namespace fairlead::kubernetes
