#include "event/http/http_refusals.h"

#include "base/log.h"

namespace fairlead::event {

std::string_view to_string(HttpRefusal reason) {
  switch (reason) {
    case HttpRefusal::kCrowded:
      return "crowded";
    case HttpRefusal::kSlowRequest:
      return "slow_request";
    case HttpRefusal::kSlowReader:
      return "slow_reader";
    case HttpRefusal::kMemory:
      return "memory";
    case HttpRefusal::kRate:
      return "rate";
    case HttpRefusal::kBadRequest:
      return "bad_request";
    case HttpRefusal::kNotServed:
      return "not_served";
    case HttpRefusal::kForbidden:
      return "forbidden";
  }
  return "bad_request";
}

void HttpRefusals::add(HttpRefusal reason, std::string_view source, std::string_view what) {
  Reason& entry = reasons_[static_cast<std::size_t>(reason)];
  const std::uint64_t count = ++entry.count;
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < entry.next_line) return;
  LogEvent(LogLevel::kWarn, "http", "refused")
      .field("reason", to_string(reason))
      .field("source", source)
      .field("what", what)
      .field("repeated", count - entry.logged - 1);
  entry.logged = count;
  entry.next_line = now + kLogInterval;
}

}  // namespace fairlead::event
