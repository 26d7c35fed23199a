#include "relay/worker/decision_log.h"

#include <cstdio>

#include "base/utc_time.h"

namespace fairlead::relay {
namespace {

DecisionRow row_of(const Decision& decision) {
  DecisionRow row;
  row.id = session_id(decision.session);
  row.time = utc_text(decision.time);
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
