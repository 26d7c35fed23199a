// The admin API's JSON as tables for people. Pure; each text ends with a newline, and an empty list
// is a sentence ("no connections").
#pragma once

#include <string>

#include "ctl/json_value.h"

namespace fairlead::ctl {

std::string connections_text(const Json& reply, bool details);
std::string destinations_text(const Json& reply);
std::string link_groups_text(const Json& reply);
std::string links_text(const Json& reply);
std::string devices_text(const Json& reply);

// The table, then a hint for each reason that was not to be expected.
std::string fallbacks_text(const Json& reply);

}  // namespace fairlead::ctl
