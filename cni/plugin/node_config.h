// The keys of the plugin's entry in a network configuration: settings of the node, not of a pod.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/hand_over.h"
#include "base/kubernetes_names.h"
#include "base/pnet_id.h"
#include "cni/plugin/json_text.h"
#include "cni/plugin/plugin_error.h"
#include "cni/redirect/redirect.h"

namespace fairlead::cni {

inline constexpr std::size_t kPnetsMax = 16;
inline constexpr std::size_t kRnicsMax = 8;             // of one PNET
inline constexpr std::size_t kPnetNamespacesMax = 256;  // of one PNET

enum class PluginLogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError };

// A physical network that this node is on.
struct Pnet {
  std::string id;  // upper case
  std::vector<RnicPortName> rnics;
  std::vector<std::string> interfaces;    // of the node
  std::vector<std::string> namespaces{};  // whose pods may use it; empty: all
};

// `pod_namespace` is empty for a pod whose namespace is unknown.
bool may_use(const Pnet& pnet, std::string_view pod_namespace);

struct NodeConfig {
  PluginLogLevel log_level = PluginLogLevel::kInfo;         // logLevel
  std::string run_dir = "/run/fairlead-cni";                // runDir
  std::uint16_t outbound_port = kubernetes::kOutboundPort;  // ports.outbound
  std::uint16_t inbound_port = kubernetes::kInboundPort;    // ports.inbound
  std::uint32_t proxy_uid = kubernetes::kSidecarUid;        // proxyUid
  bool use_rnics = true;                                    // rnicMode: auto, shared, none
  bool fail_closed = false;                                 // failClosed
  bool client_address = true;                               // clientAddress: enabled, disabled
  RedirectChoice redirect = RedirectChoice::kAuto;          // redirect: auto, programs, nftables
  std::vector<Pnet> pnets;                                  // pnet
  std::vector<Cidr> include;                                // includeCIDRs
};

// Destinations that are redirected by default: private and shared address space (RFC 1918, RFC
// 6598, RFC 4193).
std::vector<Cidr> default_include();

struct NodeConfigRead {
  NodeConfig config;
  std::vector<std::string> warnings;  // unknown keys
};

// `config` is the whole network configuration. The error names the key.
Outcome<NodeConfigRead> read_node_config(const Json& config);

struct KeyInfo {
  std::string_view name;
  std::string_view otherwise;  // the default, for people
  std::string_view allowed;
  std::string_view meaning;
};
std::span<const KeyInfo> node_config_table();

}  // namespace fairlead::cni
