// The kernel's own table of physical networks, for AF_SMC and smc_pnet. In a pod it gives the PNET
// of the pod's interface. Source: linux/smc.h, generic netlink family SMC_PNETID.
#pragma once

#include <string>

#include "base/result.h"

namespace fairlead::cni {

// All functions act in the network namespace of the calling thread. They return kNotFound if the
// kernel's SMC module is not loaded; they do not load it.

// An existing equal entry is no error. Errors: kWrongState when the interface has another PNET.
Result<void> add_kernel_pnet(const std::string& pnet, const std::string& interface);
// The PNET of the interface; empty when it has none.
Result<std::string> read_kernel_pnet(const std::string& interface);
// Removes the PNET with all its entries; none is no error.
Result<void> remove_kernel_pnet(const std::string& pnet);

}  // namespace fairlead::cni
