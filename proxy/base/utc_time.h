// Time for people and for programs of others.
#pragma once

#include <ctime>
#include <string>

namespace fairlead {

// RFC 3339 in UTC, to the second: "2026-11-20T21:29:59Z".
std::string utc_text(std::time_t time);

}  // namespace fairlead
