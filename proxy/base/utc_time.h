// Time for people and for programs of others.
#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace fairlead {

// RFC 3339 in UTC, to the second: "2026-11-20T21:29:59Z".
std::string utc_text(std::time_t time);
// To the millisecond: "2026-11-20T21:29:59.123Z".
std::string utc_text(std::chrono::system_clock::time_point time);

}  // namespace fairlead
