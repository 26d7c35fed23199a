// Gives a container that runs already the device nodes that it would have been given at its
// creation: the permission in its cgroup, the limit of locked memory, and last the nodes in its
// /dev. What runs goes on undisturbed; the sidecar finds the nodes when it looks for devices again.
//
// Needs to see the node's processes, and CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_MKNOD, CAP_CHOWN,
// CAP_DAC_OVERRIDE; CAP_SYS_RESOURCE for the limit. What is in the container is not trusted: its
// paths are followed only within it, through no symbolic link, and its /dev and /dev/infiniband
// have to be one tmpfs that root alone can write.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cni/node/nri/rnic_adjustment.h"

namespace fairlead::cni::node::nri {

struct LatePlaces {
  std::string procfs = "/proc";
  std::string cgroup_root = "/sys/fs/cgroup";
};

struct LateDevices {
  std::string pod_uid;
  std::string container_id;
  pid_t process = 0;        // of the container
  std::uint32_t owner = 0;  // its user, and that of the nodes
  std::vector<UverbsDevice> devices;
  std::optional<std::uint64_t> memlock_bytes;
};

// Doing it again changes nothing. Errors: kNotFound when process, cgroup or /dev are not there,
// kWrongState when the process is of another container or user or a node is there that is not ours,
// kPermission, kUnsupported, kSystem. A limit that cannot be raised is no error: the sidecar counts
// what it may lock.
Result<void> give_late(const LateDevices& wanted, const LatePlaces& places);

}  // namespace fairlead::cni::node::nri
