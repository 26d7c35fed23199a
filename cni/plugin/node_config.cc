#include "cni/plugin/node_config.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"

namespace fairlead::cni {
namespace {

constexpr std::array kTable = {
    KeyInfo{"logLevel", "info", "debug, info, warn or error", "What the plugin writes to stderr."},
    KeyInfo{"runDir", "/run/fairlead-cni", "an absolute path of at most 80 characters",
            "State of the attachments and sockets of the node side; on a tmpfs."},
    KeyInfo{"ports.outbound", "4540", "a port from 1 to 65535",
            "Where connections of the application are redirected to."},
    KeyInfo{"ports.inbound", "4543", "a port from 1 to 65535, not that of ports.outbound",
            "Where connections to the application that carry the SMC option are redirected to."},
    KeyInfo{"proxyUid", "2201", "a whole number from 1 to 4294967294",
            "User of the sidecar: what it sends is not redirected, and its SYNs get the option."},
    KeyInfo{"rnicMode", "auto", "auto, shared or none",
            "Whether pods are told of RDMA devices. They are shared with the node, never moved."},
    KeyInfo{"failClosed", "false", "true or false",
            "ADD fails when the redirect cannot be installed, instead of leaving the pod to TCP."},
    KeyInfo{"clientAddress", "enabled", "enabled or disabled",
            "Whether the programs that report clients' addresses to applications are attached."},
    KeyInfo{"redirect", "auto", "auto, programs or nftables",
            "How connections are redirected: by eBPF programs, or by address translation. auto: by "
            "programs where the node can have them: Linux 5.10, cgroup version 2."},
    KeyInfo{"pnet", "[]", "at most 16 of {id, rnics, interfaces, namespaces}",
            "Physical networks of the node: id is 1 to 16 of A-Z and 0-9, rnics are 1 to 8 like "
            "mlx5_0/1, interfaces at most 8 names, namespaces at most 256 names whose pods alone "
            "may use the network; without names all may."},
    KeyInfo{"includeCIDRs", "10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16, fc00::/7",
            "1 to 64 blocks like 10.0.0.0/8", "Destinations that are redirected."},
};
// Keys that belong to the specification or to the runtime.
constexpr std::array<std::string_view, 12> kForeign = {
    "cniVersion", "cniVersions", "name",         "type",          "args",       "ipMasq",
    "ipam",       "dns",         "capabilities", "runtimeConfig", "prevResult", "disableCheck"};

constexpr std::size_t kRunDirCharsMax = 80;  // leaves room for a socket's name in sun_path
constexpr double kUidMax = 4294967294.0;

tl::unexpected<PluginError> refuse(const std::string& key, const Json& value,
                                   std::string_view name) {
  const auto info = std::find_if(kTable.begin(), kTable.end(),
                                 [name](const KeyInfo& entry) { return entry.name == name; });
  return fail(Code::kConfig, key + ": " + shown(value) +
                                 " is not allowed; allowed: " + std::string(info->allowed));
}

std::optional<std::uint64_t> whole_number(const Json& value, double least, double most) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= least && number <= most)) return std::nullopt;
  const auto whole = static_cast<std::uint64_t>(number);
  if (static_cast<double>(whole) != number) return std::nullopt;
  return whole;
}

Outcome<void> read_log_level(const Json& value, NodeConfig& config) {
  constexpr std::array<std::string_view, 4> kNames = {"debug", "info", "warn", "error"};
  const auto found = value.is_string() ? std::find(kNames.begin(), kNames.end(),
                                                   value.get_ref<const std::string&>())
                                       : kNames.end();
  if (found == kNames.end()) return refuse("logLevel", value, "logLevel");
  config.log_level = static_cast<PluginLogLevel>(found - kNames.begin());
  return {};
}

Outcome<void> read_run_dir(const Json& value, NodeConfig& config) {
  const bool good = value.is_string() && value.get_ref<const std::string&>().starts_with('/') &&
                    value.get_ref<const std::string&>().size() <= kRunDirCharsMax &&
                    value.get_ref<const std::string&>().find('\0') == std::string::npos;
  if (!good) return refuse("runDir", value, "runDir");
  config.run_dir = value.get<std::string>();
  return {};
}

Outcome<void> read_ports(const Json& value, NodeConfig& config) {
  if (!value.is_object())
    return fail(Code::kConfig,
                "ports: " + shown(value) + " is not allowed; allowed: {outbound, inbound}");
  for (const auto& [key, port] : value.items()) {
    if (key != "outbound" && key != "inbound")
      return fail(Code::kConfig,
                  "ports: " + in_quotes(key) + " is not allowed; allowed: outbound, inbound");
    const auto number = whole_number(port, 1, 65535);
    if (!number) return refuse("ports." + key, port, "ports." + key);
    (key == "outbound" ? config.outbound_port : config.inbound_port) =
        static_cast<std::uint16_t>(*number);
  }
  if (config.outbound_port == config.inbound_port) return refuse("ports", value, "ports.inbound");
  return {};
}

tl::unexpected<PluginError> refuse_namespace(const std::string& key, const Json& value) {
  return fail(Code::kConfig, key + ": " + shown(value) +
                                 " is not allowed; allowed: at most 256 names of namespaces, each "
                                 "1 to 63 of a-z, 0-9 and '-'");
}

Outcome<std::vector<std::string>> read_namespaces(const Json& value, const std::string& key) {
  if (!value.is_array() || value.size() > kPnetNamespacesMax) return refuse_namespace(key, value);
  std::vector<std::string> names;
  for (const Json& entry : value) {
    if (!entry.is_string() || !kubernetes::is_namespace_name(entry.get_ref<const std::string&>()))
      return refuse_namespace(key + "[" + std::to_string(names.size()) + "]", entry);
    names.push_back(entry.get<std::string>());
  }
  return names;
}

// Nothing if the value is no port name.
std::optional<RnicPortName> rnic_port_of(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  return parse_rnic_port(value.get_ref<const std::string&>());
}

Outcome<Pnet> read_pnet(const Json& value, const std::string& key) {
  if (!value.is_object()) return refuse(key, value, "pnet");
  Pnet pnet;
  for (const auto& [name, part] : value.items()) {
    if (name == "id" && part.is_string()) {
      pnet.id = canonical_pnet(part.get_ref<const std::string&>());
      if (pnet.id.empty()) return refuse(key + ".id", part, "pnet");
    } else if (name == "rnics" && part.is_array() && part.size() <= kRnicsMax) {
      for (const Json& entry : part) {
        auto rnic = rnic_port_of(entry);
        if (!rnic) return refuse(key + ".rnics", entry, "pnet");
        pnet.rnics.push_back(std::move(*rnic));
      }
    } else if (name == "interfaces" && part.is_array() && part.size() <= kRnicsMax) {
      for (const Json& entry : part) {
        if (!entry.is_string()) return refuse(key + ".interfaces", entry, "pnet");
        pnet.interfaces.push_back(entry.get<std::string>());
      }
    } else if (name == "namespaces") {
      pnet.namespaces = SMC_TRY(read_namespaces(part, key + ".namespaces"));
    } else {
      return refuse(key + "." + name, part, "pnet");
    }
  }
  if (pnet.id.empty() || pnet.rnics.empty()) return refuse(key, value, "pnet");
  return pnet;
}

Outcome<void> read_pnets(const Json& value, NodeConfig& config) {
  if (!value.is_array() || value.size() > kPnetsMax) return refuse("pnet", value, "pnet");
  for (const Json& entry : value) {
    config.pnets.push_back(
        SMC_TRY(read_pnet(entry, "pnet[" + std::to_string(config.pnets.size()) + "]")));
  }
  return {};
}

// A port in two networks would connect them, because pods of both would get it. The first network
// keeps it.
void settle_shared_rnics(NodeConfigRead& read) {
  std::vector<Pnet>& pnets = read.config.pnets;
  for (std::size_t later = 1; later < pnets.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const std::vector<RnicPortName>& taken = pnets[earlier].rnics;
      std::erase_if(pnets[later].rnics, [&](const RnicPortName& rnic) {
        if (std::find(taken.begin(), taken.end(), rnic) == taken.end()) return false;
        read.warnings.push_back("pnet[" + std::to_string(later) +
                                "].rnics: " + in_quotes(to_string(rnic)) + " is in pnet[" +
                                std::to_string(earlier) + "] (" + pnets[earlier].id +
                                "), which keeps it; allowed: each port in one PNET");
        return true;
      });
    }
  }
  std::erase_if(pnets, [](const Pnet& pnet) { return pnet.rnics.empty(); });
}

Outcome<void> read_include(const Json& value, NodeConfig& config) {
  if (!value.is_array() || value.empty() || value.size() > kubernetes::kListEntriesMax)
    return refuse("includeCIDRs", value, "includeCIDRs");
  config.include.clear();
  for (const Json& entry : value) {
    const Result<Cidr> block = entry.is_string()
                                   ? Cidr::parse(entry.get_ref<const std::string&>())
                                   : Result<Cidr>(Error{Errc::kMalformed, "includeCIDRs"});
    if (!block)
      return refuse("includeCIDRs[" + std::to_string(config.include.size()) + "]", entry,
                    "includeCIDRs");
    config.include.push_back(*block);
  }
  return {};
}

Outcome<void> read_key(const std::string& key, const Json& value, NodeConfigRead& read) {
  NodeConfig& config = read.config;
  if (key == "logLevel") return read_log_level(value, config);
  if (key == "runDir") return read_run_dir(value, config);
  if (key == "ports") return read_ports(value, config);
  if (key == "pnet") return read_pnets(value, config);
  if (key == "includeCIDRs") return read_include(value, config);
  if (key == "proxyUid") {
    const auto uid = whole_number(value, 1, kUidMax);
    if (!uid) return refuse(key, value, key);
    config.proxy_uid = static_cast<std::uint32_t>(*uid);
    return {};
  }
  if (key == "rnicMode") {
    if (value != "auto" && value != "shared" && value != "none") return refuse(key, value, key);
    config.use_rnics = value != "none";
    return {};
  }
  if (key == "clientAddress") {
    if (value != "enabled" && value != "disabled") return refuse(key, value, key);
    config.client_address = value == "enabled";
    return {};
  }
  if (key == "redirect") {
    if (value != "auto" && value != "programs" && value != "nftables")
      return refuse(key, value, key);
    config.redirect = value == "auto"       ? RedirectChoice::kAuto
                      : value == "programs" ? RedirectChoice::kPrograms
                                            : RedirectChoice::kPacketFilter;
    return {};
  }
  if (key == "failClosed") {
    if (!value.is_boolean()) return refuse(key, value, key);
    config.fail_closed = value.get<bool>();
    return {};
  }
  const bool foreign = std::find(kForeign.begin(), kForeign.end(), key) != kForeign.end() ||
                       key.starts_with("cni.dev/");
  if (!foreign) read.warnings.push_back(in_quotes(key) + " is no key of fairlead-cni");
  return {};
}

}  // namespace

std::vector<Cidr> default_include() {
  std::vector<Cidr> blocks;
  for (const char* text :
       {"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"})
    blocks.push_back(*Cidr::parse(text));
  return blocks;
}

bool may_use(const Pnet& pnet, std::string_view pod_namespace) {
  return pnet.namespaces.empty() || std::find(pnet.namespaces.begin(), pnet.namespaces.end(),
                                              pod_namespace) != pnet.namespaces.end();
}

Outcome<NodeConfigRead> read_node_config(const Json& config) {
  NodeConfigRead read;
  read.config.include = default_include();
  for (const auto& [key, value] : config.items()) SMC_TRY(read_key(key, value, read));
  settle_shared_rnics(read);
  return read;
}

std::span<const KeyInfo> node_config_table() { return kTable; }

}  // namespace fairlead::cni
