// `fairlead-node broker`: the broker without the agent. It serves network namespaces that no CNI
// plugin wires, as those of containers without Kubernetes, or that of the host itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "broker/message.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni::node {

struct BrokerCommand {
  std::string netns_dir;  // PodWatch::of_namespaces()
  std::string run_dir;    // for broker.json; made if missing
  std::optional<std::uint32_t> sidecar_uid;
  std::string socket_name = broker::kSocketName;  // devices.shm.broker of the proxies
};

// Runs until SIGTERM or SIGINT, which are blocked. Errors: kState; its text names what is wrong.
Outcome<void> run_broker(const BrokerCommand& command);

}  // namespace fairlead::cni::node
