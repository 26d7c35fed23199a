// JSON of the admin API. Keys are an interface: fairleadctl -o json prints them as they come, and
// people write scripts against that. They may grow, never change.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "admin/gather.h"
#include "admin/sources.h"
#include "admin/stats_sum.h"
#include "event/http/http_message.h"

namespace fairlead::admin {

// Keeps keys in the order given, which is an order for readers.
using Json = nlohmann::ordered_json;

Json to_json(const ConnectionRow& row);
Json to_json(const LinkRow& row);
Json to_json(const LinkGroupRow& row);
Json to_json(const DeviceRow& row);
Json to_json(const DecisionRow& row);
Json to_json(const DestinationRow& row);
Json to_json(const Fact& fact);
Json to_json(const BuildInfo& build);

// Counters of the workers given, summed.
Json stats_json(StatsSpan workers);

// One element per direction, side and reason; those that never occurred only with `all`.
Json fallbacks_json(StatsSpan workers, bool all);

// "key.key.index value" per line, for people and for grep.
std::string flat_text(const Json& json);

event::HttpResponse json_response(int status, const Json& json);
event::HttpResponse error_response(int status, std::string_view text);

}  // namespace fairlead::admin
