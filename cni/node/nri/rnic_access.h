// Gives the sidecars of this node their RNICs. Passes the runtime's description of a new container,
// the plugin's state of its pod, and the devices in sysfs to adjust_rnics(). Counts and logs the
// decisions, and leaves further steps to an AccessDelivery.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/paced_lines.h"
#include "cni/node/nri/access_delivery.h"
#include "cni/node/nri/plugin_session.h"
#include "cni/node/nri/rnic_adjustment.h"
#include "cni/plugin/node_config.h"

namespace fairlead::cni::node::nri {

struct RnicAccessSettings {
  NodeConfig config;
  RnicAccessPolicy policy;
  std::string sysfs = "/sys";
  std::string procfs = "/proc";
};

// The highest RLIMIT_MEMLOCK that the process may set for others: unlimited as root of the node,
// else its own hard limit. Unlimited for a process that cannot be seen, unless this process is in a
// user namespace.
std::uint64_t memlock_ceiling(const std::string& procfs, pid_t process);

// All functions but counts() are for the thread of the plugin.
class RnicAccessHandler final : public ContainerHandler {
 public:
  struct Counts {
    // New containers, by RnicAccess.
    std::array<std::atomic<std::uint64_t>, kRnicAccessCount> decisions{};
  };

  // `exclusive_mode` says whether the node's RDMA devices belong to network namespaces; it must not
  // block. `delivery` outlives *this.
  RnicAccessHandler(RnicAccessSettings settings, std::function<bool()> exclusive_mode,
                    AccessDelivery& delivery);

  void connected(pid_t runtime) override;
  void create_container(const fairlead::nri::PodSandbox& pod,
                        const fairlead::nri::Container& container,
                        fairlead::nri::ContainerAdjustment& adjustment) override;
  void existing_container(const fairlead::nri::PodSandbox& pod,
                          const fairlead::nri::Container& container) override;

  const Counts& counts() const { return counts_; }

 private:
  RnicAdjustment decide(const fairlead::nri::PodSandbox& pod,
                        const fairlead::nri::Container& container) const;
  PodRnics rnics_of(const fairlead::nri::PodSandbox& pod, const StringMap& annotations,
                    const std::vector<UverbsDevice>& uverbs) const;

  RnicAccessSettings settings_;
  std::function<bool()> exclusive_mode_;
  AccessDelivery& delivery_;
  PacedLines lines_;
  Counts counts_;
};

}  // namespace fairlead::cni::node::nri
