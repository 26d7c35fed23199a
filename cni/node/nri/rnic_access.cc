#include "cni/node/nri/rnic_access.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <utility>

#include "base/hand_over.h"
#include "base/linux/files.h"
#include "base/log.h"
#include "cni/node/nri/uverbs.h"
#include "cni/plugin/pod_plan.h"
#include "cni/plugin/wishes.h"
#include "cni/rnics/rnics.h"
#include "cni/state/state.h"
#include "nri.pb.h"

namespace fairlead::cni::node::nri {
namespace {

namespace messages = fairlead::nri;

constexpr const char* kLogger = "nri";
constexpr std::uint32_t kPermissionBits = 07777;
constexpr std::size_t kProcFileBytesMax = 64 << 10;

StringMap annotations_of(const messages::PodSandbox& pod) {
  return {pod.annotations().begin(), pod.annotations().end()};
}

ProgramFacts program_of(const messages::Container& container) {
  ProgramFacts facts;
  facts.args = {container.args().begin(), container.args().end()};
  facts.env = {container.env().begin(), container.env().end()};
  for (const auto& mount : container.mounts())
    facts.mounts.push_back(
        {mount.destination(), mount.type(), {mount.options().begin(), mount.options().end()}});
  for (const auto& one : container.linux_container().namespaces())
    facts.namespaces.push_back({one.type(), one.path()});
  if (!container.has_user()) return facts;
  facts.groups = {container.user().additional_gids().begin(),
                  container.user().additional_gids().end()};
  facts.groups.push_back(container.user().gid());
  return facts;
}

ContainerFacts facts_of(const messages::PodSandbox& pod, const messages::Container& container) {
  ContainerFacts facts;
  facts.container_name = container.name();
  facts.pod_namespace = pod.namespace_();
  facts.pod_annotations = annotations_of(pod);
  if (container.has_user()) facts.uid = container.user().uid();
  for (const auto& device : container.linux_container().devices()) {
    ContainerDevice& one = facts.devices.emplace_back();
    one.path = device.path();
    if (device.has_uid()) one.uid = device.uid().value();
    if (device.has_file_mode()) one.mode = device.file_mode().value() & kPermissionBits;
  }
  facts.has_memlock_limit =
      std::any_of(container.rlimits().begin(), container.rlimits().end(),
                  [](const auto& limit) { return limit.type() == kMemlockType; });
  const auto& memory = container.linux_container().resources().memory();
  if (memory.limit().value() > 0)
    facts.memory_limit_bytes = static_cast<std::uint64_t>(memory.limit().value());
  return facts;
}

void add_device(const UverbsDevice& device, std::uint32_t owner,
                messages::ContainerAdjustment& adjustment) {
  auto& made = *adjustment.mutable_linux_container()->add_devices();
  made.set_path(device_path(device));
  made.set_type("c");
  made.set_major(device.major);
  made.set_minor(device.minor);
  made.mutable_file_mode()->set_value(kDeviceMode);
  made.mutable_uid()->set_value(owner);
  made.mutable_gid()->set_value(owner);
}

// The value may be of any length; the log cuts long lines.
void add_finding(const std::optional<ProgramFinding>& finding, LogEvent& line) {
  if (finding) line.field("field", finding->field).field("value", finding->value);
}

std::string name_of(const messages::PodSandbox& pod) { return pod.namespace_() + "/" + pod.name(); }

std::string memlock_text(std::optional<std::uint64_t> bytes) {
  if (!bytes) return "unchanged";
  return *bytes == RLIM_INFINITY ? "unlimited" : std::to_string(*bytes);
}

// The second word of a line of /proc/PID/limits that begins with `name` is the hard limit.
std::optional<std::uint64_t> hard_limit(const std::string& limits, std::string_view name) {
  const std::size_t at = limits.find(name);
  if (at == std::string::npos) return std::nullopt;
  std::istringstream words(limits.substr(at + name.size()));
  std::string soft, hard;
  words >> soft >> hard;
  if (hard == "unlimited") return RLIM_INFINITY;
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(hard.data(), hard.data() + hard.size(), bytes);
  if (error != std::errc() || end != hard.data() + hard.size()) return std::nullopt;
  return bytes;
}

bool has_capability(const std::string& status, unsigned capability) {
  const std::string_view key = "CapEff:";
  const std::size_t at = status.find(key);
  if (at == std::string::npos) return false;
  std::uint64_t set = 0;
  std::istringstream(status.substr(at + key.size())) >> std::hex >> set;
  return (set >> capability & 1U) != 0;
}

// True if user ids in the namespace are those of the node.
bool in_first_user_namespace(const std::string& uid_map) {
  std::istringstream numbers(uid_map);
  std::uint64_t inside = 1, outside = 1, count = 0;
  numbers >> inside >> outside >> count;
  return inside == 0 && outside == 0 && count == std::numeric_limits<std::uint32_t>::max();
}

std::string names_of(const std::vector<UverbsDevice>& devices) {
  std::string names;
  for (const UverbsDevice& device : devices) names += (names.empty() ? "" : ",") + device.rnic;
  return names.empty() ? "-" : names;
}

}  // namespace

std::uint64_t memlock_ceiling(const std::string& procfs, pid_t process) {
  const auto read = [&](const std::string& whose, const char* name) {
    return read_file(procfs + "/" + whose + "/" + name, kProcFileBytesMax).value_or("");
  };
  const std::string number = std::to_string(process);
  const std::string status = process > 0 ? read(number, "status") : "";
  if (status.empty())
    return in_first_user_namespace(read("self", "uid_map")) ? RLIM_INFINITY : std::uint64_t{0};
  if (has_capability(status, CAP_SYS_RESOURCE) && in_first_user_namespace(read(number, "uid_map")))
    return RLIM_INFINITY;
  return hard_limit(read(number, "limits"), "Max locked memory").value_or(0);
}

RnicAccessHandler::RnicAccessHandler(RnicAccessSettings settings,
                                     std::function<bool()> exclusive_mode, AccessDelivery& delivery)
    : settings_(std::move(settings)),
      exclusive_mode_(std::move(exclusive_mode)),
      delivery_(delivery) {}

void RnicAccessHandler::connected(pid_t runtime) {
  settings_.policy.memlock.ceiling_bytes = memlock_ceiling(settings_.procfs, runtime);
}

void RnicAccessHandler::create_container(const messages::PodSandbox& pod,
                                         const messages::Container& container,
                                         messages::ContainerAdjustment& adjustment) {
  const RnicAdjustment decided = decide(pod, container);
  ++counts_.decisions[static_cast<std::size_t>(decided.access)];
  if (decided.access == RnicAccess::kNotSidecar) return;
  for (const UverbsDevice& device : decided.devices)
    add_device(device, settings_.policy.sidecar_uid, adjustment);
  if (decided.memlock_bytes) {
    auto& limit = *adjustment.add_rlimits();
    limit.set_type(std::string(kMemlockType));
    limit.set_hard(*decided.memlock_bytes);
    limit.set_soft(*decided.memlock_bytes);
  }
  lines_.write(LogLevel::kInfo, kLogger, "rnic_access", std::chrono::steady_clock::now(),
               [&](LogEvent& line) {
                 line.field("pod", name_of(pod))
                     .field("result", to_string(decided.access))
                     .field("rnics", names_of(decided.devices))
                     .field("memlock", memlock_text(decided.memlock_bytes));
                 add_finding(decided.finding, line);
               });
  delivery_.add({pod.id(), name_of(pod), decided.access, std::nullopt});
}

// A container that was created while no agent was connected has no device, and the runtime cannot
// add one.
void RnicAccessHandler::existing_container(const messages::PodSandbox& pod,
                                           const messages::Container& container) {
  const RnicAdjustment decided = decide(pod, container);
  if (decided.access == RnicAccess::kNotSidecar) return;
  if (decided.finding)
    lines_.write(LogLevel::kWarn, kLogger, "rnic_not_given_late", std::chrono::steady_clock::now(),
                 [&](LogEvent& line) {
                   line.field("pod", name_of(pod)).field("result", to_string(decided.access));
                   add_finding(decided.finding, line);
                 });
  Delivery delivery{pod.id(), name_of(pod), decided.access, std::nullopt};
  if (decided.access == RnicAccess::kGranted)
    delivery.late = LateDevices{pod.uid(),
                                container.id(),
                                static_cast<pid_t>(container.pid()),
                                settings_.policy.sidecar_uid,
                                decided.devices,
                                decided.memlock_bytes};
  delivery_.add(std::move(delivery));
}

RnicAdjustment RnicAccessHandler::decide(const messages::PodSandbox& pod,
                                         const messages::Container& container) const {
  ContainerFacts facts = facts_of(pod, container);
  // This runs for every container of the node, so containers of others cause no system call.
  if (!is_sidecar(facts)) return {};
  facts.program = program_of(container);
  const std::vector<UverbsDevice> uverbs = find_uverbs_devices(settings_.sysfs);
  return adjust_rnics(facts, settings_.policy, exclusive_mode_(),
                      rnics_of(pod, facts.pod_annotations, uverbs), uverbs);
}

// The plugin decided when it set up the pod's network, before the containers. If it was not called,
// the same decision is made here. The configuration may have changed since, so it is asked again.
PodRnics RnicAccessHandler::rnics_of(const messages::PodSandbox& pod, const StringMap& annotations,
                                     const std::vector<UverbsDevice>& uverbs) const {
  const NodeConfig& config = settings_.config;
  std::optional<HandOver> assigned;
  const auto state =
      is_container_id(pod.id()) ? peek_state(config.run_dir, pod.id()) : std::nullopt;
  if (state) {
    assigned = parse_alias(state->alias);
  } else if (const auto wishes = read_wishes(annotations)) {
    assigned =
        choose_pnet(config, *wishes, pod.namespace_(), find_rnic_ports(settings_.sysfs)).note;
  }
  PodRnics rnics;
  if (!assigned) return rnics;
  rnics.not_for_namespace = assigned->access == kPnetNamespaceAccess;
  if (assigned->pnet.empty()) return rnics;
  const auto configured = std::find_if(config.pnets.begin(), config.pnets.end(),
                                       [&](const Pnet& pnet) { return pnet.id == assigned->pnet; });
  if (configured != config.pnets.end()) {
    rnics.not_for_namespace = !may_use(*configured, pod.namespace_());
    if (rnics.not_for_namespace) return rnics;
    // The note has no room for many names.
    assigned->rnics = configured->rnics;
  }
  for (const RnicPortName& port : assigned->rnics) rnics.names.push_back(port.device);
  // A PNET without a list has every RNIC of the node.
  if (rnics.names.empty())
    for (const UverbsDevice& device : uverbs) rnics.names.push_back(device.rnic);
  return rnics;
}

}  // namespace fairlead::cni::node::nri
