// What libevent has to say goes into our log. By itself it writes to standard error at once, and a
// standard error that nobody reads would stop the thread of a worker.
#pragma once

#include "base/time.h"

namespace fairlead::event {

// One line in this time; it tells how many were left out.
inline constexpr Duration kLibraryLineInterval = std::chrono::seconds(1);

// For the whole process; further calls change nothing. Every place that makes an event base calls
// it first. When libevent cannot go on, the process aborts as for an assertion.
void log_library_messages();

}  // namespace fairlead::event
