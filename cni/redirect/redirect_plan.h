// Selects the connections of a pod that are redirected to its sidecar, and describes the table of
// the packet filter for them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cni/redirect/nft_batch.h"
#include "cni/redirect/ranges.h"

namespace fairlead::cni {

// Empty sets have no rule.
struct RedirectPlan {
  std::uint32_t proxy_uid = 0;
  std::uint16_t outbound_port = 0;
  std::uint16_t inbound_port = 0;
  Intervals skip_inbound, include_inbound, skip_outbound;  // ports
  Intervals skip4, skip6, include4, include6;              // addresses
};

// Replaces an existing table `fairlead`. The table's comment holds the format's version and
// digest().
Batch install_batch(const RedirectPlan& plan);
// Fails with ENOENT when there is none.
Batch remove_batch();

// Of the rules and sets that install_batch() makes, 16 hexadecimal digits.
std::string digest(const RedirectPlan& plan);

// FNV-1a: detects changes, but is no protection against an attacker.
std::uint64_t fingerprint(netlink::Bytes bytes);
std::string to_hex(std::uint64_t number);

}  // namespace fairlead::cni
