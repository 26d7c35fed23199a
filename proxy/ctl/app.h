// fairleadctl as a function, so that tests can run it whole.
#pragma once

#include <iosfwd>

namespace fairlead::ctl {

// Returns what the program returns: 0 ok, 1 warning, 2 failure or wrong usage.
int run(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& err);

}  // namespace fairlead::ctl
