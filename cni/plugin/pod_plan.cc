#include "cni/plugin/pod_plan.h"

#include <algorithm>
#include <utility>

namespace fairlead::cni {
namespace {

// The note also names ports that are down, because they may be used later.
bool any_present(const Pnet& pnet, const std::vector<RnicPort>& present) {
  return std::any_of(present.begin(), present.end(), [&pnet](const RnicPort& port) {
    return std::find(pnet.rnics.begin(), pnet.rnics.end(), port.name) != pnet.rnics.end();
  });
}

// The best of each active port of the network.
HandOver note_of(const Pnet& pnet, const std::vector<RnicPort>& present) {
  HandOver note{pnet.id, pnet.rnics, "", {}};
  for (const RnicPort& port : present)
    if (std::find(pnet.rnics.begin(), pnet.rnics.end(), port.name) != pnet.rnics.end() &&
        !port.gids.empty())
      note.gids.push_back(port.gids.front());
  return note;
}

// `which` is the beginning of the sentence.
PnetChoice not_for(std::string_view pod_namespace, const std::string& which) {
  PnetChoice choice;
  choice.hint =
      which + " not for pods of " +
      (pod_namespace.empty() ? "an unknown namespace" : "namespace " + std::string(pod_namespace));
  choice.not_for_namespace = true;
  // The sidecar hears it at once, also from the plugin alone.
  choice.note.access = kPnetNamespaceAccess;
  return choice;
}

}  // namespace

std::vector<SocketAddress> addresses_of(const Json& previous_result) {
  std::vector<SocketAddress> addresses;
  const auto ips = previous_result.find("ips");
  if (ips == previous_result.end() || !ips->is_array()) return addresses;
  for (const Json& ip : *ips) {
    if (addresses.size() >= kPodAddressesMax) break;
    if (!ip.is_object()) continue;
    const auto found = ip.find("address");
    if (found == ip.end() || !found->is_string()) continue;
    const auto& text = found->get_ref<const std::string&>();
    const std::string plain = text.substr(0, text.find('/'));
    const bool v6 = plain.find(':') != std::string::npos;
    const auto address = SocketAddress::parse(v6 ? "[" + plain + "]:0" : plain + ":0");
    if (address) addresses.push_back(*address);
  }
  return addresses;
}

bpf::RedirectRules redirect_rules(const NodeConfig& config, const Wishes& wishes,
                                  std::vector<SocketAddress> addresses) {
  bpf::RedirectRules rules;
  rules.proxy_uid = config.proxy_uid;
  rules.outbound_port = config.outbound_port;
  rules.inbound_port = config.inbound_port;
  rules.addresses = std::move(addresses);
  rules.skip_inbound = wishes.skip_inbound;
  rules.include_inbound = wishes.include_inbound;
  rules.skip_outbound = wishes.skip_outbound;
  rules.skip = wishes.skip_subnets;
  rules.include = wishes.include_cidrs ? *wishes.include_cidrs : config.include;
  return rules;
}

PnetChoice choose_pnet(const NodeConfig& config, const Wishes& wishes,
                       std::string_view pod_namespace, const std::vector<RnicPort>& present) {
  if (!config.use_rnics) return {{}, "none", "rnicMode is none"};
  if (!wishes.pnet_id.empty()) {
    for (const Pnet& pnet : config.pnets) {
      if (pnet.id != wishes.pnet_id) continue;
      if (!may_use(pnet, pod_namespace)) return not_for(pod_namespace, "PNET " + pnet.id + " is");
      if (!any_present(pnet, present))
        return {{}, "none", "no RNIC of PNET " + pnet.id + " is on this node"};
      return {note_of(pnet, present), "annotation", ""};
    }
    if (!config.pnets.empty())
      return {{}, "none", "PNET " + wishes.pnet_id + " is not one of this node's"};
  }
  bool others = false;
  for (const Pnet& pnet : config.pnets) {
    if (!any_present(pnet, present)) continue;
    if (may_use(pnet, pod_namespace)) return {note_of(pnet, present), "configuration", ""};
    others = true;
  }
  if (others) return not_for(pod_namespace, "the PNETs with an RNIC on this node are");
  if (!config.pnets.empty()) return {{}, "none", "no configured RNIC is on this node"};
  if (present.empty()) return {{}, "none", "this node has no RNIC"};
  PnetChoice choice;
  choice.source = wishes.pnet_id.empty() ? "rnic" : "annotation";
  choice.note.pnet = wishes.pnet_id.empty() ? canonical_pnet(present.front().mac) : wishes.pnet_id;
  if (choice.note.pnet.empty())
    return {{},
            "none",
            "RNIC " + to_string(present.front().name) + " has no interface to be named after"};
  for (const RnicPort& port : present)
    if (!port.gids.empty()) choice.note.gids.push_back(port.gids.front());
  return choice;
}

}  // namespace fairlead::cni
