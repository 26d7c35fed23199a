// Gives the sidecars of this node their RNICs: what the runtime says of a new container, what the
// plugin remembers of its pod, and what sysfs shows, put before adjust_rnics(). Counts and logs
// what it decided, and leaves the rest to an AccessDelivery.
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
#include "cni/node_config.h"

namespace fairlead::cni::node::nri {

struct RnicAccessSettings {
  NodeConfig config;
  RnicAccessPolicy policy;
  std::string sysfs = "/sys";
  std::string procfs = "/proc";
};

// How far the process may raise RLIMIT_MEMLOCK for others: without limit as root of the node, else
// as far as its own hard limit. Without a limit for a process that cannot be seen, unless this
// process is itself in a user namespace.
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
  std::vector<std::string> rnics_of(const fairlead::nri::PodSandbox& pod,
                                    const StringMap& annotations,
                                    const std::vector<UverbsDevice>& uverbs) const;

  RnicAccessSettings settings_;
  std::function<bool()> exclusive_mode_;
  AccessDelivery& delivery_;
  PacedLines lines_;
  Counts counts_;
};

}  // namespace fairlead::cni::node::nri
