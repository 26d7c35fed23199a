// Decides which device nodes and which limit of locked memory a new container gets. Pure.
//
// Only the sidecar of a pod that opted in gets device nodes and RLIMIT_MEMLOCK. The nodes are those
// of the RNICs of its PNET, owned by the sidecar's user, with mode 0600. Other containers, and
// unclear cases, are not changed.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cni/node/nri/sidecar_program.h"
#include "cni/plugin/request.h"

namespace fairlead::cni::node::nri {

inline constexpr std::size_t kRnicDevicesMax = 8;  // of one container
inline constexpr std::uint32_t kDeviceMode = 0600;
inline constexpr std::string_view kMemlockType = "RLIMIT_MEMLOCK";

// A character device of libibverbs on the node.
struct UverbsDevice {
  std::string rnic;  // "mlx5_0"
  unsigned number =
      0;  // N of /dev/infiniband/uverbsN; libibverbs looks for the same N in the container
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  friend bool operator==(const UverbsDevice&, const UverbsDevice&) = default;
};

// "/dev/infiniband/uverbs0"
std::string device_path(const UverbsDevice& device);

// A device that the container already has, from its specification or another plugin.
struct ContainerDevice {
  std::string path;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> mode;  // permission bits
};

// The runtime's description of the container that it is about to create.
struct ContainerFacts {
  std::string container_name;
  std::string pod_namespace;
  StringMap pod_annotations;
  std::optional<std::uint32_t> uid;  // of its process, if the runtime passes it
  std::vector<ContainerDevice> devices;
  bool has_memlock_limit = false;
  std::optional<std::uint64_t> memory_limit_bytes;
  ProgramFacts program;
};

// Determines RLIMIT_MEMLOCK. RLIM_INFINITY means no limit.
struct MemlockRule {
  // Empty: the memory limit of the container, or unlimited if it has none.
  std::optional<std::uint64_t> bytes;
  // Above this value, a runtime without the right to raise the limit does not start the container.
  std::uint64_t ceiling_bytes = RLIM_INFINITY;
};

// Permissions of the node.
struct RnicAccessPolicy {
  bool enabled = true;
  std::uint32_t sidecar_uid = 0;
  // Namespaces whose pods may have an RNIC; empty: all.
  std::vector<std::string> namespaces;
  // Variables that sidecars may have besides those of judge_program().
  std::vector<std::string> env_names;
  MemlockRule memlock;
};

// Result of a decision, as the label of a metric and for the log.
enum class RnicAccess : std::uint8_t {
  kGranted,
  kNotSidecar,       // another container, or a pod that did not opt in; not logged
  kDisabled,         // by configuration or annotation
  kNamespace,        // the pod's namespace may not have RNICs
  kWrongUser,        // the container runs as another user than sidecars do
  kNoRnic,           // the node has no RNIC of the pod's PNET
  kExclusiveMode,    // the node's RDMA devices belong to network namespaces
  kAlreadyGranted,   // a device plugin or another NRI plugin has added it
  kLateFailed,       // older than the agent's connection, and could not be given the devices
  kForeign,          // the container only has the sidecar's name
  kSharedProcesses,  // others see the sidecar's process, and could use its device
  kPnetNamespace,    // the pod's namespace may not use the PNET
};
inline constexpr int kRnicAccessCount = static_cast<int>(RnicAccess::kPnetNamespace) + 1;
std::string_view to_string(RnicAccess access);

struct RnicAdjustment {
  RnicAccess access = RnicAccess::kNotSidecar;
  std::vector<UverbsDevice> devices;
  std::optional<std::uint64_t> memlock_bytes;
  std::optional<ProgramFinding> finding;  // for kForeign and kSharedProcesses
};

// The limit for a container, or nothing if it must not change.
std::optional<std::uint64_t> memlock_of(const ContainerFacts& container, const MemlockRule& rule);

// True for the container that the injection adds to pods that opted in, whether or not its pod may
// have RNICs.
bool is_sidecar(const ContainerFacts& container);

// The RNICs of a pod's PNET, in any port state.
struct PodRnics {
  std::vector<std::string> names;
  bool not_for_namespace = false;  // no names, because of the pod's namespace
};

// `uverbs` are the devices of the node.
RnicAdjustment adjust_rnics(const ContainerFacts& container, const RnicAccessPolicy& policy,
                            bool exclusive_mode, const PodRnics& rnics,
                            const std::vector<UverbsDevice>& uverbs);

}  // namespace fairlead::cni::node::nri
