// Sends the sidecar of a pod the map of the pod's client-address programs, which a sidecar cannot
// get by itself. The plugin records the map's id in the state of the attachment. So it is found
// after a restart of the sidecar or of the node side.
//
// A duty on the thread of the pod.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/linux/handle.h"
#include "base/paced_lines.h"
#include "base/result.h"
#include "cni/node/agent/agent_pods.h"

namespace fairlead::cni::node {

// Interval of checks for a sidecar that has no map yet.
inline constexpr std::chrono::seconds kDeliveryInterval{2};

class ClientAddressDelivery final : public PodDuty {
 public:
  // `run_dir` is the plugin's. A socket of another user than `sidecar_uid` gets nothing.
  ClientAddressDelivery(AgentPod pod, std::string run_dir, std::uint32_t sidecar_uid);

  pollfd waits_for() const override;
  TimePoint due() const override;
  void act(TimePoint now) override;

 private:
  Result<FileDescriptor> deliver(std::uint32_t map) const;

  AgentPod pod_;
  std::string run_dir_;
  std::uint32_t sidecar_uid_;
  FileDescriptor delivered_;  // the connection; none if the sidecar has no map
  TimePoint next_look_{};
  std::string trouble_;  // what was logged last
  PacedLines lines_;
};

}  // namespace fairlead::cni::node
