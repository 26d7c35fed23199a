#include "relay/connection/deadlines.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::relay {
namespace {

constexpr std::size_t index_of(DeadlineKind kind) { return static_cast<std::size_t>(kind); }

constexpr bool in_order() {
  for (std::size_t i = 0; i < kDeadlineKinds; ++i)
    if (index_of(kDeadlineRows[i].kind) != i) return false;
  return true;
}
static_assert(in_order(), "a row for each kind, in the order of DeadlineKind");

}  // namespace

const DeadlineRow& row_of(DeadlineKind kind) { return kDeadlineRows[index_of(kind)]; }

Deadlines::Deadlines(event::TimerQueue& queue, std::function<void()> due)
    : timer_(queue, std::move(due)) {
  at_.fill(kNever);
}

void Deadlines::set(DeadlineKind kind, Deadline deadline) {
  TimePoint& at = at_[index_of(kind)];
  const TimePoint until = deadline.value_or(kNever);
  if (at == until) return;
  at = until;
  timer_.set(next());
}

void Deadlines::end_stage() {
  for (const DeadlineRow& row : kDeadlineRows)
    if (row.of_stage) at_[index_of(row.kind)] = kNever;
  timer_.set(next());
}

void Deadlines::clear() {
  at_.fill(kNever);
  timer_.cancel();
}

Deadline Deadlines::next() const {
  const TimePoint earliest = *std::min_element(at_.begin(), at_.end());
  if (earliest == kNever) return std::nullopt;
  return earliest;
}

DeadlineKind Deadlines::take_earliest() {
  const auto earliest = std::min_element(at_.begin(), at_.end());
  SMC_ASSERT(*earliest != kNever);
  *earliest = kNever;
  timer_.set(next());
  return kDeadlineRows[static_cast<std::size_t>(earliest - at_.begin())].kind;
}

}  // namespace fairlead::relay
