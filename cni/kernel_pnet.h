// The kernel's own table of physical networks, for AF_SMC and those who look with smc_pnet: in a
// pod it says which PNET the pod's interface is on. Source: linux/smc.h, generic netlink family
// SMC_PNETID.
#pragma once

#include <string>

#include "base/result.h"

namespace fairlead::cni {

// All of them act in the network namespace of the calling thread, and give kNotFound when the
// kernel has no SMC: it is not loaded for this.

// An entry that already says so is no error. Errors: kWrongState when the interface has another.
Result<void> add_kernel_pnet(const std::string& pnet, const std::string& interface);
// The PNET of the interface; empty when it has none.
Result<std::string> read_kernel_pnet(const std::string& interface);
// Removes the PNET with all its entries; none is no error.
Result<void> remove_kernel_pnet(const std::string& pnet);

}  // namespace fairlead::cni
