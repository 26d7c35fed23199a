#include "cni/node/nri/rnic_access.h"

#include <algorithm>
#include <utility>

#include "base/hand_over.h"
#include "base/log.h"
#include "cni/node/nri/uverbs.h"
#include "cni/pod_plan.h"
#include "cni/rnics.h"
#include "cni/state.h"
#include "cni/wishes.h"
#include "nri.pb.h"

namespace fairlead::cni::node::nri {
namespace {

namespace messages = fairlead::nri;

constexpr const char* kLogger = "nri";
constexpr std::uint32_t kPermissionBits = 07777;

StringMap annotations_of(const messages::PodSandbox& pod) {
  return {pod.annotations().begin(), pod.annotations().end()};
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

std::string names_of(const std::vector<UverbsDevice>& devices) {
  std::string names;
  for (const UverbsDevice& device : devices) names += (names.empty() ? "" : ",") + device.rnic;
  return names.empty() ? "-" : names;
}

}  // namespace

RnicAccessHandler::RnicAccessHandler(RnicAccessSettings settings,
                                     std::function<bool()> exclusive_mode)
    : settings_(std::move(settings)), exclusive_mode_(std::move(exclusive_mode)) {}

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
  LogEvent(LogLevel::kInfo, kLogger, "rnic_access")
      .field("namespace", pod.namespace_())
      .field("pod", pod.name())
      .field("result", std::string(to_string(decided.access)))
      .field("rnics", names_of(decided.devices));
}

// A container that was created while no agent was connected has no device, and cannot get one while
// it runs.
void RnicAccessHandler::existing_container(const messages::PodSandbox& pod,
                                           const messages::Container& container) {
  const RnicAdjustment decided = decide(pod, container);
  if (decided.access != RnicAccess::kGranted) return;
  ++counts_.without_device;
  LogEvent(LogLevel::kWarn, kLogger, "sidecar_without_rnic")
      .field("namespace", pod.namespace_())
      .field("pod", pod.name())
      .field("rnics", names_of(decided.devices))
      .field("hint", "restart the pod: it was created while no agent was connected to the runtime");
}

RnicAdjustment RnicAccessHandler::decide(const messages::PodSandbox& pod,
                                         const messages::Container& container) const {
  const ContainerFacts facts = facts_of(pod, container);
  // Every container of the node comes by here: what is not ours costs no look at the system.
  if (!is_sidecar(facts)) return {};
  const std::vector<UverbsDevice> uverbs = find_uverbs_devices(settings_.sysfs);
  return adjust_rnics(facts, settings_.policy, exclusive_mode_(),
                      rnics_of(pod, facts.pod_annotations, uverbs), uverbs);
}

// The plugin has decided when the pod's network was set up, which is before its containers. Where
// it was not called, the same decision is made here.
std::vector<std::string> RnicAccessHandler::rnics_of(
    const messages::PodSandbox& pod, const StringMap& annotations,
    const std::vector<UverbsDevice>& uverbs) const {
  std::optional<HandOver> assigned;
  const auto state =
      is_container_id(pod.id()) ? peek_state(settings_.config.run_dir, pod.id()) : std::nullopt;
  if (state) {
    assigned = parse_alias(state->alias);
  } else if (const auto wishes = read_wishes(annotations)) {
    assigned = choose_pnet(settings_.config, *wishes, find_rnic_ports(settings_.sysfs)).note;
  }
  std::vector<std::string> names;
  if (!assigned || assigned->pnet.empty()) return names;
  for (const RnicPortName& port : assigned->rnics) names.push_back(port.device);
  // A PNET without a list has every RNIC of the node.
  if (names.empty())
    for (const UverbsDevice& device : uverbs) names.push_back(device.rnic);
  return names;
}

}  // namespace fairlead::cni::node::nri
