#include "relay/worker/decision_log.h"

#include <cstdio>
#include <ctime>

namespace fairlead::relay {
namespace {

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t clock = seconds.count();
  std::tm parts{};
  gmtime_r(&clock, &parts);
  char text[40];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(
      text + n, sizeof text - n, ".%03dZ",
      static_cast<int>(
          std::chrono::duration_cast<std::chrono::milliseconds>(since - seconds).count()));
  return text;
}

DecisionRow row_of(const Decision& decision) {
  DecisionRow row;
  row.id = session_id(decision.session);
  row.time = rfc3339(decision.time);
  row.direction = decision.direction;
  row.side = decision.side;
  row.transport = decision.transport;
  row.local = to_string(decision.local);
  row.peer = to_string(decision.peer);
  if (decision.reason) {
    row.reason = fallback_info(*decision.reason).name;
    row.reason_code = fallback_info(*decision.reason).code;
  }
  row.peer_code = decision.peer_code;
  row.elapsed_seconds = decision.elapsed_seconds;
  row.steps.assign(decision.steps.begin(), decision.steps.end());
  return row;
}

}  // namespace

std::string session_id(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "c-%llx", static_cast<unsigned long long>(number));
  return text;
}

void DecisionLog::add(Decision decision) {
  if (ring_.size() < kDecisionsMax) {
    ring_.push_back(std::move(decision));
    return;
  }
  ring_[next_] = std::move(decision);
  next_ = (next_ + 1) % kDecisionsMax;
}

std::vector<DecisionRow> DecisionLog::rows() const {
  std::vector<DecisionRow> rows;
  rows.reserve(ring_.size());
  for (std::size_t i = ring_.size(); i-- != 0;)
    rows.push_back(row_of(ring_[(next_ + i) % ring_.size()]));
  return rows;
}

}  // namespace fairlead::relay
