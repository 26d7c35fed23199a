// What an HTTP server refused, counted by reason, with a log line at a bounded rate. The server's
// thread writes; any thread may read the counts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace fairlead::event {

enum class HttpRefusal : std::uint8_t {
  kCrowded,      // the connection was ended to make room for a newer one
  kSlowRequest,  // the request was not complete in time
  kSlowReader,   // the client did not read its answer in time
  kMemory,       // requests and answers in memory exceeded their limit
  kRate,         // the source opened connections too fast while the server was crowded
  kBadRequest,   // the connection ended without a request that can be served
  kNotServed,    // the path or the method is not served here
  kForbidden,    // the caller may not have what it asked for
};
inline constexpr std::array kAllHttpRefusals = {
    HttpRefusal::kCrowded,   HttpRefusal::kSlowRequest, HttpRefusal::kSlowReader,
    HttpRefusal::kMemory,    HttpRefusal::kRate,        HttpRefusal::kBadRequest,
    HttpRefusal::kNotServed, HttpRefusal::kForbidden,
};

std::string_view to_string(HttpRefusal reason);  // as in metrics and logs
// The label of the metrics that count refusals, for the tables that describe them.
inline constexpr std::string_view kHttpRefusalLabel =
    "`reason` (crowded, slow_request, slow_reader, memory, rate, bad_request, not_served, "
    "forbidden)";

class HttpRefusals {
 public:
  // One line for each reason in this time; it tells how many were left out.
  static constexpr Duration kLogInterval = std::chrono::seconds(10);

  // `source`: whose it was, "10.1.2.3" or "uid 1000". `what`: a sentence about what was wrong.
  void add(HttpRefusal reason, std::string_view source, std::string_view what);

  std::uint64_t count(HttpRefusal reason) const { return of(reason).count.load(); }

 private:
  struct Reason {
    std::atomic<std::uint64_t> count{0};
    std::uint64_t logged = 0;  // the count at the last line
    TimePoint next_line{};
  };
  const Reason& of(HttpRefusal reason) const { return reasons_[static_cast<std::size_t>(reason)]; }

  std::array<Reason, kAllHttpRefusals.size()> reasons_;
};

}  // namespace fairlead::event
