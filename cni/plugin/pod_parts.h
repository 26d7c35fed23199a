// Checks, part by part, whether a running pod still has the setup of set_up_pod().
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cni/state/state.h"

namespace fairlead::cni {

enum class PodPart : std::uint8_t { kRedirect, kOptionProgram, kClientAddress };
inline constexpr std::array kPodParts = {PodPart::kRedirect, PodPart::kOptionProgram,
                                         PodPart::kClientAddress};
std::string_view to_string(PodPart part);

enum class PartState : std::uint8_t {
  kGood,
  kMissing,  // missing, changed, or never set up although requested
  kUnknown,  // this process cannot inspect it
  kNotMeant  // not asked for
};
inline constexpr std::array kPartStates = {PartState::kGood, PartState::kMissing,
                                           PartState::kUnknown};
std::string_view to_string(PartState state);

struct PartReport {
  PartState state = PartState::kNotMeant;
  std::string what;  // empty when good
};
using PodReport = std::array<PartReport, kPodParts.size()>;  // in the order of PodPart

// Inspects the pod and changes nothing. The plugin wrote paths of cgroups as seen on the node; the
// caller sees them under `cgroup_root`. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN. Without them, parts
// are kUnknown.
PodReport inspect_pod(const AttachmentState& state, const std::string& cgroup_root);

}  // namespace fairlead::cni
