// The redirect in the network namespace that the calling thread is in.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cni/plugin_error.h"
#include "cni/redirect_plan.h"

namespace fairlead::cni {

// One line for each object of table `fairlead`, with a fingerprint of what the kernel says of it:
// "rule outbound 2 0123456789abcdef". In an order that does not change. Empty: there is no table.
using TableReading = std::vector<std::string>;

// Replaces the table, and gives what the kernel made of it. The error names the object.
Outcome<TableReading> install_redirect(const RedirectPlan& plan);
// No table is no error.
Outcome<void> remove_redirect();
Outcome<TableReading> read_redirect();

// What of `expected` is missing or different, and what else is there; one line, empty when they
// are the same.
std::string difference(const TableReading& expected, const TableReading& found);

}  // namespace fairlead::cni
