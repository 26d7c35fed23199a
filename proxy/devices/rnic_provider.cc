#include "devices/rnic_provider.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/hand_over.h"
#include "base/kubernetes_names.h"
#include "base/log.h"
#include "rdma/verbs/loopback_alias.h"
#include "rdma/verbs/numa.h"
#include "rdma/verbs/rdma_netns.h"

namespace fairlead {

using rdma::verbs::VerbsDevice;

namespace {

relay::DeviceSlot* slot_named(relay::DeviceRegistry& devices, const std::string& name) {
  for (const auto& slot : devices.slots())
    if (slot->device().name() == name && slot->reachability().leaves_node()) return slot.get();
  return nullptr;
}

bool worker_lacks_rnic(relay::DeviceRegistry& devices) {
  return std::none_of(devices.slots().begin(), devices.slots().end(),
                      [](const auto& slot) { return slot->reachability().leaves_node(); });
}

// Of a configuration that was checked.
rdma::verbs::PathOptions path_options(const config::Smc& smc) {
  return {.traffic_class = static_cast<std::uint8_t>(smc.traffic_class),
          .service_level = static_cast<std::uint8_t>(smc.service_level),
          .mtu_max = rdma::verbs::mtu_limit(smc.path_mtu),
          .ack_timeout = static_cast<std::uint8_t>(smc.ack_timeout),
          .retry_count = static_cast<std::uint8_t>(smc.retry_count),
          .rnr_retry = static_cast<std::uint8_t>(smc.rnr_retry)};
}

std::optional<std::uint16_t> partition_key(const config::Smc& smc) {
  if (!smc.partition_key) return std::nullopt;
  return static_cast<std::uint16_t>(*smc.partition_key);
}

rdma::verbs::GidPolicy gid_policy(const config::Smc& smc) {
  using rdma::verbs::GidType;
  rdma::verbs::GidPolicy policy{smc.gid_subnets, smc.gid_index, std::nullopt};
  if (smc.gid_type != config::GidTypeChoice::kAuto)
    policy.type =
        smc.gid_type == config::GidTypeChoice::kRoceV1 ? GidType::kRoceV1 : GidType::kRoceV2;
  return policy;
}

// Of equal RNICs the nearest is used, because it comes first.
std::vector<std::string> near_first(const std::vector<std::string>& names) {
  std::vector<rdma::verbs::RnicPlace> places;
  for (const std::string& name : names) places.push_back({name, rdma::verbs::numa_node_of(name)});
  return rdma::verbs::near_first(places,
                                 rdma::verbs::numa_nodes_of(rdma::verbs::allowed_processors()));
}

const char* receive_queue_of(const rdma::Capabilities& capabilities) {
  if (!capabilities.shared_receive_queues) return "link";
  return capabilities.receive_queue_crosses_domains ? "worker" : "group";
}

constexpr const char* kExclusiveMode = "exclusive_mode";
// Not a decision of the node: a DRA driver gave the container nothing.
constexpr const char* kClaimEmpty = "claim_empty";

DeviceRow access_row(const std::string& access, std::string sentence) {
  const AccessAnswer answer = explain_access(access);
  DeviceRow row;
  row.name = "rnic";
  row.kind = "verbs";
  row.state = kDeviceAbsent;
  row.reason = fallback_info(answer.reason).name;
  row.detail = std::move(sentence);
  row.missing = answer.meant;
  return row;
}

const char* state_of(FallbackReason trouble) {
  if (trouble == FallbackReason::kRnicUnsupported) return kDeviceUnsupported;
  return trouble == FallbackReason::kRnicNotGiven ? kDeviceAbsent : "down";
}

DeviceRow wanted_row() {
  DeviceRow row;
  row.name = "rnic";
  row.kind = "verbs";
  row.state = kDeviceAbsent;
  row.reason = fallback_info(FallbackReason::kNoRdmaDevice).name;
  row.detail = "devices.verbs.enabled is true, and the container has no RDMA device";
  row.missing = true;
  return row;
}

}  // namespace

AccessAnswer explain_access(std::string_view access) {
  using R = FallbackReason;
  constexpr bool kMeant = true;
  struct Known {
    std::string_view access;
    AccessAnswer answer;
  };
  constexpr std::array kKnown = {
      Known{"no_rnic", {R::kNoRdmaDevice, "the node has no RNIC of this pod's network"}},
      Known{"namespace",
            {R::kRnicNotGiven, "the cluster gives no RNICs to pods of this namespace"}},
      Known{"pnet_namespace",
            {R::kRnicNotGiven,
             "the RNICs of this node are in a network (PNET) that is not for pods of this "
             "namespace"}},
      Known{"disabled", {R::kRnicNotGiven, "RNICs are switched off for this pod"}},
      Known{"wrong_user",
            {R::kRnicNotGiven, "the sidecar runs as another user than the injection gives it",
             kMeant}},
      Known{kExclusiveMode,
            {R::kRnicExclusiveMode, "the node's RNICs belong to network namespaces", kMeant}},
      Known{"late_failed",
            {R::kRnicNotGiven,
             "the sidecar was created while fairlead-node was not connected to the container "
             "runtime; restart the pod",
             kMeant}},
      Known{"foreign",
            {R::kRnicNotGiven,
             "the container is not the sidecar as the injection makes it; the log of fairlead-node "
             "names the field and the value",
             kMeant}},
      Known{"shared_processes",
            {R::kRnicNotGiven,
             "other containers see the sidecar's process; leave shareProcessNamespace and hostPID "
             "out of the pod",
             kMeant}},
      Known{kClaimEmpty,
            {R::kRnicNotGiven, "the pod's claim gave the container no RDMA device", kMeant}},
      Known{"granted",
            {R::kRnicNotGiven, "the node gave an RNIC, but the container shows none", kMeant}},
      Known{"already_granted",
            {R::kRnicNotGiven, "the container has a device node, but shows no RNIC", kMeant}},
  };
  for (const Known& known : kKnown)
    if (known.access == access) return known.answer;
  return {R::kRnicNotGiven, "the node gives a reason that this version does not know"};
}

bool RnicProvider::allowed(const std::string& name) const {
  const std::vector<std::string>& names = config_.devices.verbs.names;
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void RnicProvider::scan(relay::DeviceRegistry& devices) {
  std::vector<std::string> names = rdma::verbs::device_names();
  std::erase_if(names, [&](const std::string& name) { return !allowed(name); });
  if (!names.empty())
    read_network();
  else
    read_note();
  leave_others_devices(names);
  std::erase_if(troubles_, [&](const auto& entry) {
    return std::find(names.begin(), names.end(), entry.first) == names.end();
  });
  std::vector<std::string> gone;
  for (const auto& slot : devices.slots())
    if (slot->reachability().leaves_node() &&
        static_cast<const VerbsDevice&>(slot->device()).gone())
      gone.push_back(slot->device().name());
  for (const std::string& name : gone)
    if (devices.remove(name) && speaks_)
      LogEvent(LogLevel::kWarn, "main", "device_removed").field("device", name);
  if (names.size() > 1) names = near_first(names);
  for (const std::string& name : names) {
    if (slot_named(devices, name) != nullptr) continue;
    const std::uint64_t identity = rdma::verbs::device_identity(name);
    if (judged(name, identity)) continue;
    const Result<void> opened = open(devices, name);
    if (opened)
      troubles_.erase(name);
    else
      note(name, trouble_from(name, opened.error(), identity));
  }
  const bool wanted = config_.devices.verbs.enabled == config::DeviceUse::kTrue;
  if (wanted && names.empty() && !missing_reported_ && speaks_)
    LogEvent(LogLevel::kWarn, "main", "no_rdma_device")
        .field("hint", "give the container an RDMA device, or set devices.verbs.enabled to auto");
  missing_reported_ = names.empty();
  tell(devices);
}

void RnicProvider::leave_others_devices(std::vector<std::string>& names) const {
  if (!config_.devices.verbs.names.empty()) return;
  const auto others =
      std::stable_partition(names.begin(), names.end(), rdma::verbs::has_device_node);
  // Where nothing else says why there is no RNIC, they do.
  if (others != names.begin() || !view_.handed.access.empty() ||
      !config_.devices.verbs.claim.empty())
    names.erase(others, names.end());
}

std::string RnicProvider::sentence_of(const std::string& access) const {
  if (access != kClaimEmpty) return std::string(explain_access(access).sentence);
  const std::string& claim = config_.devices.verbs.claim;
  const bool is_template = claim != kubernetes::kRnicClaimName;
  return "the pod's claim " + std::string(kubernetes::kRnicClaimName) +
         (is_template ? " of template " + claim : "") + " gave the container no RDMA device";
}

bool RnicProvider::judged(const std::string& name, std::uint64_t identity) const {
  const auto known = troubles_.find(name);
  return known != troubles_.end() && identity != 0 && known->second.judged == identity;
}

RnicProvider::Trouble RnicProvider::trouble_from(const std::string& name, const Error& error,
                                                 std::uint64_t identity) {
  if (error.code == Errc::kPermission && rdma::verbs::devices_are_exclusive())
    return {FallbackReason::kRnicExclusiveMode,
            "the device belongs to another network namespace (exclusive mode)"};
  if (error.code == Errc::kPermission && !rdma::verbs::has_device_node(name))
    return {FallbackReason::kRnicNotGiven, "the container has no device node of it"};
  return {fallback_from_open(error), to_string(error),
          error.code == Errc::kUnsupported ? identity : 0};
}

void RnicProvider::read_note() {
  const auto alias = rdma::verbs::read_loopback_alias();
  // A look that fails says nothing: encryption that the node told of is not forgotten.
  if (!alias) return;
  HandOver handed = parse_alias(*alias).value_or(HandOver{});
  if (handed.encrypted != view_.handed.encrypted && speaks_)
    LogEvent(LogLevel::kInfo, "main", "encrypted_paths")
        .field("paths", to_text(handed.encrypted, kAliasBytesMax))
        .field("trusted", config_.smc.trusted_fabric ? "yes" : "no");
  view_.handed = std::move(handed);
}

void RnicProvider::read_network() {
  read_note();
  view_.addresses = rdma::verbs::interface_addresses();
  view_.route_interface = rdma::verbs::default_route_interface(view_.addresses);
  auto table = rdma::verbs::read_pnet_table();
  view_.pnet_table = table ? std::move(*table) : std::vector<rdma::verbs::PnetEntry>{};
}

Result<void> RnicProvider::open(relay::DeviceRegistry& devices, const std::string& name) {
  memlock_.set_limit_bytes(rdma::verbs::memlock_limit_bytes());
  std::unique_ptr<VerbsDevice> device =
      SMC_TRY(VerbsDevice::open({.name = name,
                                 .memlock = &memlock_,
                                 .path = path_options(config_.smc),
                                 .gids = gid_policy(config_.smc),
                                 .named = view_.handed.gids,
                                 .partition_key = partition_key(config_.smc),
                                 .shared_receive_queues = traits_.shared_receive_queues}));
  const VerbsDevice& opened = *device;
  auto reach = std::make_unique<VerbsReachability>(opened, view_, config_.pnet.id,
                                                   config_.smc.trusted_fabric);
  const VerbsReachability& how = *reach;
  SMC_TRY(devices.add(std::move(device), std::move(reach)));
  if (!speaks_) return {};
  const std::optional<int> numa_node = rdma::verbs::numa_node_of(name);
  for (const rdma::Port& port : opened.ports()) {
    const relay::PnetOfPort pnet = how.pnet(port);
    LogEvent(LogLevel::kInfo, "main", "device")
        .field("device", name)
        .field("port", std::uint64_t{port.number.value})
        .field("state", port.state == rdma::PortState::kActive ? "active" : "down")
        .field("gid", port.gid.is_zero() ? "" : to_string(port.gid))
        .field("gid_source", how.gid_source(port))
        .field("numa_node", numa_node ? std::to_string(*numa_node) : "")
        .field("receive_queue_of", receive_queue_of(opened.capabilities()))
        .field("pnet", pnet.id)
        .field("pnet_source", pnet.source)
        .field("used", how.ours(port) ? "yes" : "no, PNET ID or node say otherwise");
  }
  return {};
}

void RnicProvider::note(const std::string& name, const Trouble& trouble) {
  Trouble& known = troubles_[name];
  if (known == trouble) return;
  known = trouble;
  if (!speaks_) return;
  LogEvent(LogLevel::kWarn, "main", "device_unusable")
      .field("device", name)
      .field("reason", fallback_info(trouble.reason).name)
      .field("what", trouble.what)
      .field("hint", fallback_info(trouble.reason).hint);
}

void RnicProvider::tell(relay::DeviceRegistry& devices) {
  std::vector<DeviceRow> rows;
  for (const auto& [name, trouble] : troubles_) {
    DeviceRow row;
    row.name = name;
    row.kind = "verbs";
    row.state = state_of(trouble.reason);
    row.reason = fallback_info(trouble.reason).name;
    row.detail = trouble.what;
    rows.push_back(std::move(row));
  }
  const bool silent = troubles_.empty() && worker_lacks_rnic(devices);
  std::string access = silent ? view_.handed.access : "";
  // The node may not have decided it: a device plugin gives nodes without asking for the mode.
  if (silent && rdma::verbs::has_any_device_node() && rdma::verbs::devices_are_exclusive())
    access = kExclusiveMode;
  if (silent && access.empty() && !config_.devices.verbs.claim.empty()) access = kClaimEmpty;
  if (!access.empty())
    rows.push_back(access_row(access, sentence_of(access)));
  else if (silent && config_.devices.verbs.enabled == config::DeviceUse::kTrue)
    rows.push_back(wanted_row());
  devices.set_unusable("verbs", std::move(rows));
  if (!troubles_.empty())
    devices.set_no_device_reason(troubles_.begin()->second.reason);
  else if (!access.empty())
    devices.set_no_device_reason(explain_access(access).reason);
  else if (reason_reported_)
    devices.set_no_device_reason(FallbackReason::kNoRdmaDevice);
  reason_reported_ = !troubles_.empty() || !access.empty();
  if (std::exchange(access_reported_, access) == access || access.empty() || !speaks_) return;
  LogEvent(LogLevel::kInfo, "main", "no_rnic")
      .field("access", access)
      .field("what", sentence_of(access));
}

}  // namespace fairlead
