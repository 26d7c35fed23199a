#include "relay/connection/idle_pages.h"

#include "relay/group/group.h"
#include "relay/pipes/smc_relay.h"

namespace fairlead::relay {
namespace {

// The peer may reuse the element for another connection as soon as both sides have announced the
// end.
bool may_end(const smc::Closing& closing) {
  return closing.reset() || closing.said_closed() || closing.close_due();
}

}  // namespace

bool IdlePages::settled(TimePoint now) {
  if (!returning_) return true;
  switch (returning_->settle()) {
    case rdma::PageReturn::State::kReturning:
      if (!waits_since_) waits_since_ = now;
      return false;
    case rdma::PageReturn::State::kKept:
      wanted_ = true;
      due_ = now + kIdlePagesAfter;
      break;
    case rdma::PageReturn::State::kReturned:
      returned_ = returning_until_;
      break;
  }
  waits_since_.reset();
  returning_.reset();
  return true;
}

void IdlePages::check(SmcRelay& relay, TimePoint now) {
  if (relay.buffers().remote().empty() || !relay.group().transport().returns_pages()) return;
  const smc::Connection& connection = relay.connection();
  const std::uint64_t moved = connection.tx().taken() + connection.rx().bytes();
  if (moved != moved_) {
    moved_ = moved;
    moved_at_ = now;
    refused_ = 0;
    wanted_ = true;
    if (!due_) due_ = now + kIdlePagesAfter;
  }
  if (!wanted_) return;
  const TimePoint idle_at = moved_at_ + kIdlePagesAfter;
  if (now >= idle_at) return try_return(relay, now);
  if (due_ && now >= *due_) due_ = idle_at;
}

// If due_ is not set, a later turn tries again: the one in which the peer has reported what it
// consumed.
void IdlePages::try_return(SmcRelay& relay, TimePoint now) {
  due_.reset();
  smc::Connection& connection = relay.connection();
  const smc::TxRing& tx = connection.tx();
  wanted_ = tx.taken() != returned_ && !may_end(connection.closing());
  if (!may_end(connection.closing())) connection.consumed(0, now, smc::Connection::Announce::kAll);
  if (!wanted_) return;
  const LinkTransport& transport = relay.group().transport();
  if (!tx.all_consumed() || tx.urgent() || !transport.works(relay.link())) return;
  // The message that waits for room might announce the end.
  if (connection.transmit_due()) {
    due_ = now + kIdleAnnounceWait;
    return;
  }
  returning_ = transport.return_pages(relay.link(), relay.buffers().remote());
  wanted_ = returning_ == nullptr && ++refused_ < kPageReturnTriesMax;
  returning_until_ = tx.taken();
  if (wanted_) due_ = now + kIdlePagesAfter;
}

}  // namespace fairlead::relay
