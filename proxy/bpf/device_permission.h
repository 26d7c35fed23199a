// Lets the processes of a container open one more character device while it runs: the programs that
// the runtime has attached to its cgroup are replaced by copies that look for the device first.
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace fairlead::bpf {

inline constexpr std::size_t kDeviceInstructionsMax = 4096;  // of a program of a runtime

struct DeviceNumber {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

// What comes before the instructions of the runtime. Pure.
std::vector<bpf_insn> device_prologue(DeviceNumber device);
// Whether `program` lets the device pass already, because we have been here. Pure.
bool begins_with(const std::vector<bpf_insn>& program, const std::vector<bpf_insn>& prologue);
// Whether the instructions mean the same in a program of its own: no maps, no calls. Pure.
bool can_be_copied(const std::vector<bpf_insn>& program);

// `cgroup`: directory of the container's cgroup in the version 2 hierarchy. Reading and writing are
// permitted, making nodes is not. A cgroup without programs permits everything and is left alone.
// Errors: kUnsupported for a program that cannot be copied, kPermission, kNotFound, kSystem. After
// an error some of the programs may have been replaced.
Result<void> permit_device(const std::string& cgroup, DeviceNumber device);

}  // namespace fairlead::bpf
