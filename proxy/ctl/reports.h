// The answers that are no plain table: counters, the story of a decision, checks. Pure.
#pragma once

#include <string>
#include <vector>

#include "ctl/json_value.h"

namespace fairlead::ctl {

std::string stats_text(const Json& reply);

// The newest decision in full, or all of them. Empty if there is none.
std::string decisions_text(const Json& reply, bool all);

// What has become of a proxy's sockets, and how long nobody had them.
std::string taken_back_text(std::uint64_t descriptors, std::uint64_t gap_milliseconds);

struct Check {
  enum class Status : std::uint8_t { kOk, kWarn, kFail };
  std::string name;
  Status status = Status::kOk;
  std::string finding;
  std::string fix;  // empty when ok
};

// Those of the proxy, as /doctor gave them. An unknown status is a failure.
std::vector<Check> checks_from(const Json& reply);
std::string checks_text(const std::vector<Check>& checks);
Json checks_json(const std::vector<Check>& checks);
Check::Status worst_of(const std::vector<Check>& checks);

}  // namespace fairlead::ctl
