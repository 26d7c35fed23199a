// Finds the RNICs for a worker, at the start and whenever it looks again: opens those that have
// appeared or have become usable, gives up those that have gone, and says once what is the matter
// with the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "config/config.h"
#include "devices/device_traits.h"
#include "devices/verbs_reachability.h"
#include "rdma/verbs/memlock.h"
#include "relay/group/device_registry.h"

namespace fairlead {

// Costs a readdir(3) and a question to the kernel where there is no RNIC.
inline constexpr Duration kDeviceScanInterval = std::chrono::seconds(5);

// What the node decided about the sidecar's devices (base/hand_over.h), as a reason and a sentence.
struct AccessAnswer {
  FallbackReason reason = FallbackReason::kRnicNotGiven;
  std::string_view sentence;
  bool meant = false;  // the sidecar was to have an RNIC
};
AccessAnswer explain_access(std::string_view access);

class RnicProvider final : public relay::DeviceProvider {
 public:
  // Both outlive the provider, and the provider the worker's devices.
  // Of several workers' providers, which all see the same, one speaks in the log.
  RnicProvider(const config::Config& config, const DeviceTraits& traits,
               rdma::verbs::MemlockAccount& memlock, bool speaks)
      : config_(config), traits_(traits), memlock_(memlock), speaks_(speaks) {}

  // On the worker's thread, or before it runs.
  void scan(relay::DeviceRegistry& devices) override;

 private:
  struct Trouble {
    FallbackReason reason = FallbackReason::kNoRdmaDevice;
    std::string what;
    std::uint64_t judged = 0;  // the identity of a device that can never serve; 0: it may
    friend bool operator==(const Trouble&, const Trouble&) = default;
  };

  bool allowed(const std::string& name) const;
  // Takes out devices of which the container has no device node: the node has them for other pods.
  // Those that the configuration names stay, because they are missing.
  void leave_others_devices(std::vector<std::string>& names) const;
  static Trouble trouble_from(const std::string& name, const Error& error, std::uint64_t identity);
  // explain_access() of a decision, or of the claim, with its name.
  std::string sentence_of(const std::string& access) const;
  void read_network();
  void read_note();
  Result<void> open(relay::DeviceRegistry& devices, const std::string& name);
  bool judged(const std::string& name, std::uint64_t identity) const;
  void note(const std::string& name, const Trouble& trouble);
  void tell(relay::DeviceRegistry& devices);

  const config::Config& config_;
  const DeviceTraits traits_;
  rdma::verbs::MemlockAccount& memlock_;
  bool speaks_;
  NetworkView view_;
  std::map<std::string, Trouble> troubles_;
  bool missing_reported_ = false;
  bool reason_reported_ = false;
  std::string access_reported_;
};

}  // namespace fairlead
