// Gives the sidecars of this node their RNICs: what the runtime says of a new container, what the
// plugin remembers of its pod, and what sysfs shows, put before adjust_rnics(). Counts and logs
// what it decided.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cni/node/nri/plugin_session.h"
#include "cni/node/nri/rnic_adjustment.h"
#include "cni/node_config.h"

namespace fairlead::cni::node::nri {

struct RnicAccessSettings {
  NodeConfig config;
  RnicAccessPolicy policy;
  std::string sysfs = "/sys";
};

// All functions but counts() are for the thread of the plugin.
class RnicAccessHandler final : public ContainerHandler {
 public:
  struct Counts {
    std::array<std::atomic<std::uint64_t>, kRnicAccessCount> decisions{};  // by RnicAccess
    std::atomic<std::uint64_t> without_device{
        0};  // running sidecars that should have one, at the last look
  };

  // `exclusive_mode` says whether the node's RDMA devices belong to network namespaces; it must not
  // block.
  RnicAccessHandler(RnicAccessSettings settings, std::function<bool()> exclusive_mode);

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
  Counts counts_;
};

}  // namespace fairlead::cni::node::nri
