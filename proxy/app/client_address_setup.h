// What reports clients' addresses to the applications beside us: chosen at the start.
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
  admin::Fact fact;                                  // what to tell about it
};

// Attaches the programs to our own cgroup where configuration and kernel let us, and looks whether
// they work. Blocks for a moment.
ClientAddressSetup choose_client_address(const config::Config& config);

// What to tell when the node side has delivered.
admin::Fact client_address_from_node();
// Why applications do not see clients' addresses.
admin::Fact client_address_unavailable(std::string why);

}  // namespace fairlead
