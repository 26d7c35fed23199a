// Slabs of a group that have stood empty for long enough go back to the system.

#include <algorithm>

#include "base/log.h"
#include "relay/group.h"

namespace fairlead::relay {
namespace {

void log_returned(const std::string& group, const char* use, const BufferSlabs& slabs) {
  LogEvent(LogLevel::kDebug, "smc.group", "slab_returned")
      .field("group", group)
      .field("use", use)
      .field("slabs_left", std::uint64_t{slabs.slab_count()});
}

void keep_earliest(std::optional<TimePoint>& earliest, std::optional<TimePoint> candidate) {
  if (candidate && (!earliest || *candidate < *earliest)) earliest = candidate;
}

}  // namespace

// Not from within a task: it may be about to name a slab.
void Group::return_slabs(TimePoint now) {
  if (!protocol_.usable() || performing_) return;
  return_rmbs(now);
  return_send_rings(now);
}

void Group::bar_refused_slabs() {
  for (std::size_t slab = 0; slab < rmbs_->slab_numbers(); ++slab)
    if (rows_[slab] && protocol_.local_rmbs().refused(*rows_[slab]))
      rmbs_->bar(static_cast<std::uint16_t>(slab));
}

// What the peer may write to stays registered until it has answered that it does not.
void Group::return_rmbs(TimePoint now) {
  while (rmbs_->retire(now - shared_.slab_idle)) {
  }
  if (rmbs_->retired_count() == 0) return;
  for (std::size_t i = 0; i < rmbs_->slab_numbers(); ++i) {
    const auto slab = static_cast<std::uint16_t>(i);
    if (!rmbs_->retired(slab)) continue;
    if (rows_[slab] && !protocol_.local_rmbs().deleted(*rows_[slab])) {
      protocol_.local_rmbs().want_deleted(*rows_[slab]);
      protocol_.start_next_flow(now);
      continue;
    }
    if (rows_[slab]) protocol_.local_rmbs().remove(*rows_[slab]);
    rows_[slab].reset();
    rmbs_->free(slab);
    log_returned(start_.id, "rmbs", *rmbs_);
  }
}

void Group::return_send_rings(TimePoint now) {
  while (staging_->retire(now - shared_.slab_idle)) {
  }
  recheck_.reset();
  if (staging_->retired_count() == 0) return;
  for (std::size_t i = 0; i < staging_->slab_numbers(); ++i) {
    const auto slab = static_cast<std::uint16_t>(i);
    if (!staging_->retired(slab)) continue;
    if (!writes_over(slab)) {
      recheck_ = now + kSlabRecheck;
      continue;
    }
    if (slab < last_reads_.size()) last_reads_[slab] = {};
    staging_->free(slab);
    log_returned(start_.id, "send_rings", *staging_);
  }
}

// A connection has written over other links only before they failed.
void Group::note_last_writes(const SmcRelay& relay) {
  const std::uint16_t slab = relay.buffers.staging->slab;
  if (slab >= last_reads_.size()) last_reads_.resize(slab + 1U);
  std::uint64_t& last = last_reads_[slab][relay.link];
  last = std::max(last, lanes_[relay.link].next_id - 1);
}

// Few requests report their end, but the question for a key and TEST_LINK do, and what was posted
// before them is over then.
bool Group::writes_over(std::uint16_t slab) const {
  if (slab >= last_reads_.size()) return true;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
    const Lane& lane = lanes_[i];
    const bool alive = lane.queue_pair && !lane.failed;
    if (alive && lane.done_id < last_reads_[slab][i]) return false;
  }
  return true;
}

std::optional<TimePoint> Group::slabs_due() const {
  if (!protocol_.usable()) return std::nullopt;
  std::optional<TimePoint> due = recheck_;
  for (const BufferSlabs* slabs : {rmbs_.get(), staging_.get()})
    if (const auto since = slabs->idle_since()) keep_earliest(due, *since + shared_.slab_idle);
  return due;
}

}  // namespace fairlead::relay
