// The redirect in the network namespace that the calling thread is in.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cni/plugin/plugin_error.h"
#include "cni/redirect/redirect_plan.h"

namespace fairlead::cni {

// One line for each object of table `fairlead`, with a fingerprint of the kernel's description:
// "rule outbound 2 0123456789abcdef". The order is stable. Empty if there is no table.
using TableReading = std::vector<std::string>;

// Replaces the table, and returns the kernel's description of the result. The error names the
// object.
Outcome<TableReading> install_redirect(const RedirectPlan& plan);
// No table is no error.
Outcome<void> remove_redirect();
Outcome<TableReading> read_redirect();

// Objects of `expected` that are missing or different, and additional ones, in one line. Empty if
// both are equal.
std::string difference(const TableReading& expected, const TableReading& found);

}  // namespace fairlead::cni
