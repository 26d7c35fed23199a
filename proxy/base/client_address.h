// Whether an application sees the client's address on a connection that the proxy made to it, and
// why not: the values of a metric's label, the steps of a decision, the rows of fairleadctl.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fairlead {

enum class ClientAddress : std::uint8_t {
  kShown,
  kOff,          // by configuration
  kUnavailable,  // no programs and map, or they do not work
  kNoSlot,       // every slot of the worker's share is in use
  kFamily,       // client and application speak different families, or the client is link-local
  kRefused,      // the kernel refused the source address, as for an application on another host
};

inline constexpr std::size_t kClientAddresses = 6;

struct ClientAddressInfo {
  ClientAddress value;
  std::string_view name;  // snake_case; the value of the label `result`
  const char* step;       // in the chain of decisions
};

inline constexpr std::array<ClientAddressInfo, kClientAddresses> kClientAddressTable = {{
    {ClientAddress::kShown, "shown", "the application sees the client's address"},
    {ClientAddress::kOff, "off",
     "the application does not see the client's address: switched off by client_address"},
    {ClientAddress::kUnavailable, "unavailable",
     "the application does not see the client's address: no program reports it, see fairleadctl "
     "doctor"},
    {ClientAddress::kNoSlot, "no_slot",
     "the application does not see the client's address: every slot is in use"},
    {ClientAddress::kFamily, "family",
     "the application does not see the client's address: its socket cannot name it"},
    {ClientAddress::kRefused, "refused",
     "the application does not see the client's address: the kernel refused the source address"},
}};

constexpr const ClientAddressInfo& client_address_info(ClientAddress value) {
  return kClientAddressTable[static_cast<std::size_t>(value)];
}

}  // namespace fairlead
