// The redirect by nf_tables, in the network namespace that the calling thread is in: address
// translation, for nodes whose kernel lacks what the redirect by eBPF needs.
#pragma once

#include "base/result.h"
#include "bpf/redirect_programs.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni {

// One line for each object of table `fairlead`, with a fingerprint of the kernel's description:
// "rule outbound 2 0123456789abcdef". The order is stable. Empty if there is no table.
using TableReading = bpf::RedirectReading;

// Replaces the table, and returns the kernel's description of the result. The error names the
// object.
Outcome<TableReading> install_packet_filter(const bpf::RedirectRules& rules);
// No table is no error.
Outcome<void> remove_packet_filter();
Outcome<TableReading> read_packet_filter();

}  // namespace fairlead::cni
