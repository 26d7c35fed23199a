#include "app/client_address_setup.h"

#include <algorithm>
#include <utility>

#include "bpf/client_address_map.h"
#include "bpf/client_address_probe.h"

namespace fairlead {
namespace {

admin::Fact fact_of(std::string text) {
  return {std::string(admin::kFactClientAddress), admin::FactStatus::kOk, std::move(text), ""};
}

bool takes_inbound(const config::Config& config) {
  return std::any_of(config.listeners.begin(), config.listeners.end(), [](const auto& listener) {
    return listener.direction == Direction::kInbound;
  });
}

// Attaches our own programs, and checks that they work.
Result<bpf::ClientAddressProgram> attach_and_try() {
  bpf::ClientAddressProgram program =
      SMC_TRY(bpf::ClientAddressProgram::attach({}, bpf::own_netns_cookie()));
  bpf::ClientAddressMap map = SMC_TRY(bpf::ClientAddressMap::open(program.map_descriptor()));
  if (!SMC_TRY(bpf::client_address_works(map)))
    return Error{Errc::kUnsupported, "the programs are attached but have no effect"};
  return program;
}

}  // namespace

admin::Fact client_address_unavailable(std::string why) {
  admin::Fact fact = fact_of("applications see this pod's own address: " + std::move(why));
  fact.status = admin::FactStatus::kWarn;
  fact.fix =
      "grant CAP_BPF and CAP_NET_ADMIN, or let the node side attach the programs; client_address: "
      "off where it is not wanted";
  return fact;
}

admin::Fact client_address_from_node() {
  return fact_of("applications see it, by programs that the node side attached");
}

ClientAddressSetup choose_client_address(const config::Config& config) {
  ClientAddressSetup choice;
  if (config.client_address == config::ClientAddressMode::kOff) {
    choice.state = ClientAddress::kOff;
    choice.fact = fact_of("not reported to applications, by configuration");
    return choice;
  }
  if (!takes_inbound(config)) {
    choice.state = ClientAddress::kOff;
    choice.fact = fact_of("no inbound listener: no application to report it to");
    return choice;
  }
  Result<bpf::ClientAddressProgram> program = attach_and_try();
  if (!program) {
    choice.fact = client_address_unavailable(to_string(program.error()));
    return choice;
  }
  choice.program.emplace(std::move(*program));
  choice.state = ClientAddress::kShown;
  choice.fact = fact_of("applications see it, by programs of our own cgroup");
  return choice;
}

}  // namespace fairlead
