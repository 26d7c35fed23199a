#include "cni/node/nri/rnic_adjustment.h"

#include <algorithm>
#include <array>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "cni/plugin/wishes.h"

namespace fairlead::cni::node::nri {
namespace {

constexpr std::uint32_t kEverybodyMode = 0666;

// True if the sidecar's user can open the device without a change.
bool opens_as_it_is(const ContainerDevice& device, std::uint32_t uid) {
  const std::uint32_t mode = device.mode.value_or(kEverybodyMode);
  const std::uint32_t owner_bits = 0600, other_bits = 0006;
  if (device.uid.value_or(0) == uid) return (mode & owner_bits) == owner_bits;
  return (mode & other_bits) == other_bits;
}

bool is_denied(const StringMap& annotations) {
  const auto found =
      annotations.find(std::string(kubernetes::kAnnotationPrefix) +
                       std::string(info_of(kubernetes::NodeAnnotation::kRnicAccess).name));
  return found != annotations.end() && found->second == kubernetes::kRnicAccessAllowed;
}

bool may_have_rnics(const RnicAccessPolicy& policy, const std::string& pod_namespace) {
  return policy.namespaces.empty() || std::find(policy.namespaces.begin(), policy.namespaces.end(),
                                                pod_namespace) != policy.namespaces.end();
}

}  // namespace

std::string device_path(const UverbsDevice& device) {
  return "/dev/infiniband/uverbs" + std::to_string(device.number);
}

std::string_view to_string(RnicAccess access) {
  constexpr std::array<std::string_view, kRnicAccessCount> kNames = {
      "granted",     "not_sidecar", "disabled",         "namespace",
      "wrong_user",  "no_rnic",     "exclusive_mode",   "already_granted",
      "late_failed", "foreign",     "shared_processes", "pnet_namespace"};
  return kNames[static_cast<std::size_t>(access)];
}

std::optional<std::uint64_t> memlock_of(const ContainerFacts& container, const MemlockRule& rule) {
  if (container.has_memlock_limit) return std::nullopt;
  const std::uint64_t wanted =
      rule.bytes.value_or(container.memory_limit_bytes.value_or(RLIM_INFINITY));
  if (wanted > rule.ceiling_bytes) return std::nullopt;
  return wanted;
}

bool is_sidecar(const ContainerFacts& container) {
  return container.container_name == kubernetes::kSidecarName &&
         opted_in(container.pod_annotations);
}

RnicAdjustment adjust_rnics(const ContainerFacts& container, const RnicAccessPolicy& policy,
                            bool exclusive_mode, const PodRnics& rnics,
                            const std::vector<UverbsDevice>& uverbs) {
  RnicAdjustment adjustment;
  if (!is_sidecar(container)) return adjustment;
  const auto refuse = [&](RnicAccess why) {
    adjustment.access = why;
    return adjustment;
  };
  if (!policy.enabled || is_denied(container.pod_annotations)) return refuse(RnicAccess::kDisabled);
  if (!may_have_rnics(policy, container.pod_namespace)) return refuse(RnicAccess::kNamespace);
  if (container.uid && *container.uid != policy.sidecar_uid) return refuse(RnicAccess::kWrongUser);
  adjustment.finding = judge_program(container.program, policy.env_names);
  if (adjustment.finding)
    return refuse(adjustment.finding->shared_processes ? RnicAccess::kSharedProcesses
                                                       : RnicAccess::kForeign);
  if (exclusive_mode) return refuse(RnicAccess::kExclusiveMode);
  bool found_any = false;
  for (const UverbsDevice& device : uverbs) {
    if (std::find(rnics.names.begin(), rnics.names.end(), device.rnic) == rnics.names.end())
      continue;
    found_any = true;
    // If two plugins set the same path or the same limit, the container does not start.
    const auto present =
        std::find_if(container.devices.begin(), container.devices.end(),
                     [&](const ContainerDevice& one) { return one.path == device_path(device); });
    if (present != container.devices.end() && opens_as_it_is(*present, policy.sidecar_uid))
      continue;
    if (adjustment.devices.size() < kRnicDevicesMax) adjustment.devices.push_back(device);
  }
  if (!found_any)
    return refuse(rnics.not_for_namespace ? RnicAccess::kPnetNamespace : RnicAccess::kNoRnic);
  adjustment.memlock_bytes = memlock_of(container, policy.memlock);
  adjustment.access =
      adjustment.devices.empty() ? RnicAccess::kAlreadyGranted : RnicAccess::kGranted;
  return adjustment;
}

}  // namespace fairlead::cni::node::nri
