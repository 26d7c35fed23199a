// Sends each sidecar of the node the map of its pod's client-address programs, which a sidecar
// cannot get by itself. The plugin records the map's id in the state of the attachment. So it is
// found after a restart of the sidecar or of the node side.
//
// Thread: run() on a separate one, which enters and leaves network namespaces. stop() from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/handle.h"
#include "base/paced_lines.h"
#include "cni/plugin_error.h"
#include "cni/state.h"

namespace fairlead::cni::node {

// Interval of checks for pods whose sidecar has no map yet.
inline constexpr std::chrono::seconds kDeliveryInterval{2};
inline constexpr std::size_t kDeliveredPodsMax = 1024;

class ClientAddressDelivery {
 public:
  // `sidecar_uid`: a socket of another user gets nothing. Errors: kState.
  static Outcome<std::unique_ptr<ClientAddressDelivery>> create(std::string run_dir,
                                                                std::uint32_t sidecar_uid);

  void run();  // until stop()
  void stop();

 private:
  ClientAddressDelivery(std::string run_dir, std::uint32_t sidecar_uid, FileDescriptor stop_event);
  void look();
  void forget_ended();
  Result<FileDescriptor> deliver(const AttachmentState& state) const;

  std::string run_dir_;
  std::uint32_t sidecar_uid_;
  FileDescriptor stop_event_;
  std::map<std::string, FileDescriptor> delivered_;  // connections, by container id
  std::map<std::string, std::string> troubles_;      // what was last logged of a container
  PacedLines lines_;
};

}  // namespace fairlead::cni::node
