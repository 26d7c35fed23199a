// Gives a running container the device nodes that it missed at its creation: the permission in its
// cgroup, the limit of locked memory, and finally the nodes in its /dev. Its processes are not
// disturbed; the sidecar finds the nodes at its next device scan.
//
// Needs to see the node's processes, and CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_MKNOD, CAP_CHOWN,
// CAP_DAC_OVERRIDE; CAP_SYS_RESOURCE for the limit. Contents of the container are not trusted: its
// paths are resolved only within it, without symbolic links, and its /dev and /dev/infiniband must
// be one tmpfs that only root can write.
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

// Idempotent. Errors: kNotFound if process, cgroup or /dev are missing; kWrongState if the process
// belongs to another container or user, or a foreign node exists; kPermission, kUnsupported,
// kSystem. A limit that cannot be raised is no error, because the sidecar counts the memory that it
// may lock.
Result<void> give_late(const LateDevices& wanted, const LatePlaces& places);

}  // namespace fairlead::cni::node::nri
