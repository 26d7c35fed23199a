// Takes the map of the client-address programs from the node side, and checks at intervals whether
// the programs still read it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/linux/descriptor_closer.h"
#include "base/linux/service_thread.h"
#include "base/linux/unix_listener.h"
#include "base/paced_lines.h"
#include "base/result.h"
#include "base/time.h"
#include "bpf/client_address_map.h"

namespace fairlead {

inline constexpr Duration kClientAddressProbeInterval = std::chrono::seconds(5);
// Maps during the life of a sidecar. A pod gets another one only when its programs are attached
// again.
inline constexpr std::size_t kClientAddressMapsMax = 8;

// Runs a thread that listens and probes until destruction.
class ClientAddressWatch {
 public:
  // `map_fd`: applications' addresses are read from this map from now on. Empty: for now they are
  // not shown, for the reason `why`. Called on the watch's thread. The descriptor stays open as
  // long as the watch lives. False: not every worker knows it yet, so the call is repeated later.
  using Changed = std::function<bool(std::optional<int> map_fd, const std::string& why)>;

  static Result<std::unique_ptr<ClientAddressWatch>> start(Changed changed);

 private:
  explicit ClientAddressWatch(Changed changed) : changed_(std::move(changed)) {}
  void run();
  void listen();
  void accept();
  void take_record();
  void adopt(ForeignDescriptor map);
  void refuse(const std::string& what);
  void probe();
  void tell(bool works, const std::string& why);

  Changed changed_;
  DescriptorCloser closer_;  // of what strangers in the pod may have sent, too
  UnixListener listener_;
  ForeignDescriptor node_;  // the node side, that has delivered or will
  std::vector<ForeignDescriptor> maps_;
  std::optional<bpf::ClientAddressMap> map_;  // the last of them
  std::optional<bool> told_;                  // whether it works
  std::string trouble_;                       // what was last logged
  PacedLines lines_;
  ServiceThread thread_;
};

}  // namespace fairlead
