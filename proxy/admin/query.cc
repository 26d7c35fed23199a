#include "admin/query.h"

#include <algorithm>
#include <charconv>

namespace fairlead::admin {

using event::HttpRequest;

std::optional<std::string_view> parameter(const HttpRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.query)
    if (key == name) return value;
  return std::nullopt;
}

std::optional<std::string> parameter_error(const HttpRequest& request,
                                           std::span<const std::string_view> known) {
  if (request.query_malformed) return "the query is not of the form name=value&name=value";
  for (auto at = request.query.begin(); at != request.query.end(); ++at) {
    const std::string& name = at->first;
    if (std::find(known.begin(), known.end(), name) == known.end() || name.empty())
      return "unknown query parameter " + in_quotes(name);
    const bool is_repeated = std::any_of(
        request.query.begin(), at, [&](const auto& earlier) { return earlier.first == name; });
    if (is_repeated) return "query parameter " + in_quotes(name) + " was given twice";
  }
  return std::nullopt;
}

std::size_t row_limit(const HttpRequest& request, std::size_t standard, std::size_t max) {
  const auto text = parameter(request, "limit");
  if (!text) return standard;
  std::size_t limit = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (error != std::errc{} || end != text->data() + text->size()) return 0;
  return limit <= max ? limit : 0;
}

bool peer_matches(std::string_view peer, std::string_view wanted) {
  if (peer == wanted) return true;
  const std::size_t colon = peer.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view host = peer.substr(0, colon);
  if (host == wanted) return true;
  return host.size() > 2 && host.front() == '[' && host.substr(1, host.size() - 2) == wanted;
}

std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

}  // namespace fairlead::admin
