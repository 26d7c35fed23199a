#include "relay/connection/smc_return.h"

#include <algorithm>
#include <utility>

namespace fairlead::relay {

void SmcReturn::take(std::span<const std::byte> bytes) {
  if (!peer_knows_ || *fault_ != '\0') return;
  const Result<std::size_t> taken = frames_.take(bytes);
  if (!taken) {
    fault_ = taken.error().what;
    return;
  }
  const auto rest = bytes.subspan(*taken);
  behind_.insert(behind_.end(), rest.begin(), rest.end());
}

void SmcReturn::cancel(SmcRelay& relay) {
  relay.cancel_return();
  peer_knows_ = false;
}

bool SmcReturn::begin(SmcRelay& relay, bool wanted) {
  if (!relay.may_return()) return false;
  // If this side is being replaced, what it has in hand goes to the next process.
  if (!session_.memory.leave_smc(*session_.app, *session_.net,
                                 relay.connection().rx().size_bytes())) {
    if (!wanted) {
      peer_knows_ = false;  // from now on as with a peer that knows no return
      return false;
    }
    session_.memory.restore_window(*session_.net);
  }
  relay.begin_return();
  return true;
}

std::optional<TimePoint> SmcReturn::next_deadline(const SmcRelay& relay, TimePoint now) const {
  if (!until_ || !may_end_well() || !relay.may_return()) return std::nullopt;
  return frames_.said_return() ? *until_ : std::min(*until_, now + kRingLook);
}

SmcReturn::Step SmcReturn::step(SmcRelay& relay, bool wanted, TimePoint now) {
  if (*fault_ != '\0') return std::exchange(fault_said_, true) ? Step::kNothing : Step::kBroken;
  if (!peer_knows_) return Step::kNothing;
  if (!until_ && (wanted || frames_.peer_sent()) && begin(relay, wanted))
    until_ = now + kReturnWait;
  if (!until_ || !relay.may_return()) return Step::kNothing;
  const smc::Connection& connection = relay.connection();
  if (now >= *until_) {
    if (!connection.finished()) return fail("return: not done in time");
    // Both applications have ended, so nothing is left for frames to carry.
    cancel(relay);
    session_.mark_ready();
    return Step::kNothing;
  }
  if (!frames_.said_return() &&
      connection.tx().taken() - connection.tx().bytes() <= smc::kFramedBytesMax) {
    unwritten_ = relay.connection().stop_sending();
    send(frames_.send_return(connection.tx().bytes()));
  }
  if (const auto sent = frames_.peer_sent()) {
    const std::uint64_t received = connection.rx().received();
    if (received > *sent) return fail("return: fewer bytes than were sent");
    if (received == *sent && frames_.said_return() && !frames_.said_returned()) {
      send(frames_.send_returned());
      relay.commit_return();
    }
  }
  // A stream that refuses the bytes reports this at the next read.
  if (to_net_.flush(*session_.net) == Backlog::State::kRefused) session_.net->assume_readable();
  return frames_.complete() ? Step::kDone : Step::kNothing;
}

SmcReturn::Step SmcReturn::fail(const char* fault) {
  fault_ = fault;
  fault_said_ = true;
  return Step::kBroken;
}

void SmcReturn::send(std::span<const std::byte> bytes) {
  (void)to_net_.write(*session_.net, bytes, false);
}

ParkedFrames SmcReturn::finish(SmcRelay& relay, TimePoint now) {
  ParkedFrames frames = relay.leave_for_frames(now);
  frames.app_bytes = session_.report.framed_tx() + relay.connection().tx().taken();
  frame_unwritten(relay, frames, now);
  frames.to_net = to_net_.release();
  frames.to_net.written = 0;
  return frames;
}

// Puts bytes into frames for which the peer's element had no room.
void SmcReturn::frame_unwritten(const SmcRelay& relay, ParkedFrames& frames, TimePoint now) {
  const smc::TxRing& tx = relay.connection().tx();
  using Role = smc::Deferral::Role;
  smc::Deferral rules(session_.outbound() ? Role::kClient : Role::kServer, {}, now);
  std::vector<std::byte> bytes;
  for (const smc::RingWindow::Range& range : {unwritten_.first, unwritten_.second}) {
    const auto part = relay.buffers().send_ring_bytes().subspan(range.offset, range.length);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  std::span<const std::byte> rest(bytes);
  const std::size_t urgent = tx.urgent() && !rest.empty() ? 1 : 0;
  while (rest.size() > urgent) {
    const std::size_t count = std::min(rest.size() - urgent, rules.room());
    send(rules.send_data(count));
    send(rest.first(count));
    rest = rest.subspan(count);
  }
  if (urgent != 0) {
    send(rules.send_urgent());
    send(rest);
  }
  frames.rules = rules.state();
}

}  // namespace fairlead::relay
