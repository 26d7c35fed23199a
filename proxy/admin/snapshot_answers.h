// Answers of the admin server that are made of what the workers tell, and of nothing else.
#pragma once

#include <cstddef>

#include "admin/gather.h"
#include "admin/stats_sum.h"
#include "event/http/http_server.h"

namespace fairlead::admin {

inline constexpr std::size_t kConnectionRowsDefault = 1000;
inline constexpr std::size_t kConnectionRowsMax = 10'000;
inline constexpr std::size_t kDecisionRowsMax = 100;

using event::HttpRequest;
using event::HttpResponse;

// All answers have one signature, because a table holds them.
HttpResponse connections_answer(const HttpRequest&, const GatheredSnapshot&, StatsSpan);
HttpResponse link_groups_answer(const HttpRequest&, const GatheredSnapshot&, StatsSpan);
HttpResponse links_answer(const HttpRequest&, const GatheredSnapshot&, StatsSpan);
// Workers open the same devices, each for itself. What they agree on is one row.
HttpResponse devices_answer(const HttpRequest&, const GatheredSnapshot&, StatsSpan);
// Decisions about one peer, or about all; the newest first.
HttpResponse why_answer(const HttpRequest&, const GatheredSnapshot&, StatsSpan);

}  // namespace fairlead::admin
