// The query parameters of the admin API. Unknown ones are errors, because a typo that is ignored
// gives an answer to another question.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "event/http/http_message.h"

namespace fairlead::admin {

// The value of a parameter, if it was given.
std::optional<std::string_view> parameter(const event::HttpRequest& request, std::string_view name);

// What is wrong with the names of the parameters, as a sentence; nothing if all are known and none
// was given twice. Empty names in `known` match nothing.
std::optional<std::string> parameter_error(const event::HttpRequest& request,
                                           std::span<const std::string_view> known);

// The parameter `limit`: `standard` if absent, 0 if it is no number from 1 to `max`.
std::size_t row_limit(const event::HttpRequest& request, std::size_t standard, std::size_t max);

// Whether the peer "10.1.2.7:8080" is the one asked for, by itself or as "10.1.2.7"; "[fd00::7]:80"
// likewise, also as "fd00::7".
bool peer_matches(std::string_view peer, std::string_view wanted);

std::string in_quotes(std::string_view text);

}  // namespace fairlead::admin
