// Chooses at start what shows clients' addresses to the applications in the pod.
#pragma once

#include <optional>
#include <string>

#include "admin/sources.h"
#include "base/client_address.h"
#include "bpf/client_address_program.h"
#include "config/config.h"

namespace fairlead {

struct ClientAddressSetup {
  // kShown, kOff, or kUnavailable until the node side delivers a map.
  ClientAddress state = ClientAddress::kUnavailable;
  std::optional<bpf::ClientAddressProgram> program;  // with kShown
  admin::Fact fact;                                  // shown to operators
};

// Attaches the programs to our own cgroup if configuration and kernel permit, and checks whether
// they work. Blocks for a moment.
ClientAddressSetup choose_client_address(const config::Config& config);

// The fact to show once the node side has delivered.
admin::Fact client_address_from_node();
// The fact to show if applications do not see clients' addresses.
admin::Fact client_address_unavailable(std::string why);

}  // namespace fairlead
