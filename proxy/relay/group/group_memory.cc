#include "relay/group/group_memory.h"

#include <algorithm>

#include "base/log.h"

namespace fairlead::relay {
namespace {

void log_returned(const std::string& group, const char* use, const BufferSlabs& slabs) {
  LogEvent(LogLevel::kDebug, "smc.group", "slab_returned")
      .field("group", group)
      .field("use", use)
      .field("slabs_left", std::uint64_t{slabs.slab_count()});
}

}  // namespace

Result<void> GroupMemory::add_device(rdma::Device& device, rdma::ProtectionDomain& domain) {
  if (!rmbs_) {
    const auto slabs = [&](rdma::BufferUse use) {
      return std::make_unique<BufferSlabs>(use, device, domain, *shared_.budget, *shared_.stats);
    };
    rmbs_ = slabs(rdma::BufferUse::kRmb);
    send_rings_ = slabs(rdma::BufferUse::kSendRing);
    return {};
  }
  SMC_TRY(rmbs_->add_device(device, domain));
  const Result<void> added = send_rings_->add_device(device, domain);
  if (!added) rmbs_->remove_device();
  return added;
}

void GroupMemory::release_element(smc::ElementId element, bool quarantine, TimePoint now) {
  if (quarantine)
    ++quarantined_;
  else
    rmbs_->release(element, now);
}

smc::RmbKey GroupMemory::rmb_key(std::uint16_t slab, smc::LinkIndex link) const {
  const rdma::RegisteredBuffer& buffer =
      rmbs_->buffer({slab, RmbIndex{1}}, transport_.attachment(link));
  return {buffer.rkey(), buffer.address()};
}

Result<bool> GroupMemory::list_slabs(smc::LinkIndex link) {
  bool unknown = false;
  smc::LocalRmbs& listed = protocol_.local_rmbs();
  for (std::size_t i = 0; i < rmbs_->slab_numbers(); ++i) {
    if (rows_[i] || !rmbs_->has(i)) continue;
    const auto slab = static_cast<std::uint16_t>(i);
    const smc::RmbRow row = SMC_TRY(listed.add(link, rmb_key(slab, link)));
    rows_[slab] = row;
    for (smc::LinkIndex on = 0; on < smc::kLinksMax; ++on)
      if (protocol_.links()[on]) listed.set_key(row, on, rmb_key(slab, on));
    unknown = unknown || !listed.announced(row, protocol_.links());
  }
  return unknown;
}

void GroupMemory::set_keys(smc::LinkIndex link) {
  for (std::size_t slab = 0; slab < rows_.size(); ++slab)
    if (rows_[slab])
      protocol_.local_rmbs().set_key(*rows_[slab], link,
                                     rmb_key(static_cast<std::uint16_t>(slab), link));
}

GroupMemory::Announcement GroupMemory::announcement(smc::ElementId element) const {
  const std::optional<smc::RmbRow>& row = rows_[element.slab];
  if (row && protocol_.local_rmbs().refused(*row)) return Announcement::kRefused;
  return !row || protocol_.local_rmbs().announced(*row, protocol_.links())
             ? Announcement::kDone
             : Announcement::kUnderWay;
}

void GroupMemory::bar_refused_slabs() {
  for (std::size_t slab = 0; slab < rmbs_->slab_numbers(); ++slab)
    if (rows_[slab] && protocol_.local_rmbs().refused(*rows_[slab]))
      rmbs_->bar(static_cast<std::uint16_t>(slab));
}

void GroupMemory::release_send_ring(smc::ElementId ring, smc::LinkIndex link,
                                    std::uint64_t last_request, TimePoint now) {
  if (ring.slab >= last_reads_.size()) last_reads_.resize(ring.slab + 1U);
  std::uint64_t& last = last_reads_[ring.slab][link];
  last = std::max(last, last_request);
  send_rings_->release(ring, now);
}

void GroupMemory::return_slabs(const DoneRequests& done, TimePoint now) {
  if (!protocol_.usable()) return;
  return_rmbs(now);
  return_send_rings(done, now);
}

// Memory that the peer may write to stays registered until the peer has confirmed the deletion.
void GroupMemory::return_rmbs(TimePoint now) {
  while (rmbs_->retire(now - shared_.slab_idle)) continue;
  if (rmbs_->retired_count() == 0) return;
  smc::LocalRmbs& listed = protocol_.local_rmbs();
  for (std::size_t i = 0; i < rmbs_->slab_numbers(); ++i) {
    const auto slab = static_cast<std::uint16_t>(i);
    if (!rmbs_->retired(slab)) continue;
    if (rows_[slab] && !listed.deleted(*rows_[slab])) {
      listed.want_deleted(*rows_[slab]);
      protocol_.start_next_flow(now);
      continue;
    }
    if (rows_[slab]) listed.remove(*rows_[slab]);
    rows_[slab].reset();
    rmbs_->free(slab);
    log_returned(start_.id, "rmbs", *rmbs_);
  }
}

void GroupMemory::return_send_rings(const DoneRequests& done, TimePoint now) {
  while (send_rings_->retire(now - shared_.slab_idle)) continue;
  recheck_.reset();
  if (send_rings_->retired_count() == 0) return;
  for (std::size_t i = 0; i < send_rings_->slab_numbers(); ++i) {
    const auto slab = static_cast<std::uint16_t>(i);
    if (!send_rings_->retired(slab)) continue;
    if (!reads_over(slab, done)) {
      recheck_ = now + kSlabRecheck;
      continue;
    }
    if (slab < last_reads_.size()) last_reads_[slab] = {};
    send_rings_->free(slab);
    log_returned(start_.id, "send_rings", *send_rings_);
  }
}

// Few requests report their completion, but DELETE_RKEY and TEST_LINK do. What was posted before
// them is complete then.
bool GroupMemory::reads_over(std::uint16_t slab, const DoneRequests& done) const {
  if (slab >= last_reads_.size()) return true;
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    if (done[i] && *done[i] < last_reads_[slab][i]) return false;
  return true;
}

Deadline GroupMemory::next_deadline() const {
  if (!protocol_.usable()) return std::nullopt;
  Deadline due = recheck_;
  for (const BufferSlabs* slabs : {rmbs_.get(), send_rings_.get()})
    if (const auto since = slabs->idle_since()) due = earliest(due, *since + shared_.slab_idle);
  return due;
}

}  // namespace fairlead::relay
