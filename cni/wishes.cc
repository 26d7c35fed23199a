#include "cni/wishes.h"

#include <algorithm>
#include <array>

#include "base/kubernetes_names.h"
#include "cni/node_config.h"

namespace fairlead::cni {
namespace {

constexpr std::string_view kPorts =
    "1 to 64 ports or ranges from 1 to 65535 between commas, as in 5432,8000-8010";
constexpr std::string_view kCidrs =
    "1 to 64 blocks between commas, without bits behind the prefix, as in 10.0.0.0/8,fd00::/8";

constexpr std::array kTable = {
    WishInfo{"fairlead.io/skip-inbound-ports", kPorts,
             "Ports of the application that are never redirected to the sidecar."},
    WishInfo{"fairlead.io/include-inbound-ports", kPorts,
             "Ports that are redirected although a client sends no SMC option."},
    WishInfo{"fairlead.io/skip-outbound-ports", kPorts,
             "Destination ports that are never redirected to the sidecar."},
    WishInfo{"fairlead.io/skip-subnets", kCidrs,
             "Destinations that are never redirected to the sidecar."},
    WishInfo{"fairlead.io/include-cidrs", kCidrs,
             "Destinations that are redirected, in place of includeCIDRs."},
    WishInfo{"fairlead.io/pnet-id", "1 to 16 of A-Z, a-z and 0-9",
             "The physical network whose RNICs the pod uses."},
};

tl::unexpected<PluginError> refuse(const WishInfo& info, std::string_view value) {
  return fail(Code::kConfig, std::string(info.name) + ": " + in_quotes(value) +
                                 " is not allowed; allowed: " + std::string(info.allowed));
}

bool take(const WishInfo& info, std::string_view value, Wishes& wishes) {
  const std::string_view name = info.name.substr(kubernetes::kAnnotationPrefix.size());
  if (name == "pnet-id") {
    wishes.pnet_id = canonical_pnet(value);
    return !wishes.pnet_id.empty();
  }
  if (name == "skip-subnets" || name == "include-cidrs") {
    auto blocks = parse_cidrs(value);
    if (!blocks) return false;
    if (name == "skip-subnets")
      wishes.skip_subnets = std::move(*blocks);
    else
      wishes.include_cidrs = std::move(*blocks);
    return true;
  }
  auto ports = parse_ports(value);
  if (!ports) return false;
  Intervals& into = name == "skip-inbound-ports"      ? wishes.skip_inbound
                    : name == "include-inbound-ports" ? wishes.include_inbound
                                                      : wishes.skip_outbound;
  into = std::move(*ports);
  return true;
}

}  // namespace

bool opted_in(const StringMap& annotations) {
  const auto inject = annotations.find(kubernetes::kInjectKey);
  return annotations.contains(kubernetes::kStatusKey) &&
         (inject == annotations.end() || inject->second != "disabled");
}

Outcome<Wishes> read_wishes(const StringMap& annotations) {
  Wishes wishes;
  for (const WishInfo& info : kTable) {
    const auto found = annotations.find(info.name);
    if (found != annotations.end() && !take(info, found->second, wishes))
      return refuse(info, found->second);
  }
  return wishes;
}

std::span<const WishInfo> wish_table() { return kTable; }

}  // namespace fairlead::cni
