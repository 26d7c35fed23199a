// Describes the table of the packet filter that redirects the connections of a pod. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bpf/redirect_programs.h"
#include "cni/redirect/nft_batch.h"

namespace fairlead::cni {

// Replaces an existing table `fairlead`. The table's comment holds the format's version and
// digest().
Batch install_batch(const bpf::RedirectRules& rules);
// Fails with ENOENT when there is none.
Batch remove_batch();

// Of the rules and sets that install_batch() makes, 16 hexadecimal digits.
std::string digest(const bpf::RedirectRules& rules);

// FNV-1a: detects changes, but is no protection against an attacker.
std::uint64_t fingerprint(netlink::Bytes bytes);
std::string to_hex(std::uint64_t number);

}  // namespace fairlead::cni
