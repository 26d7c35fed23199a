#include "relay/connection/smc_stage.h"

#include <utility>

#include "base/log.h"
#include "relay/connection/frames_stage.h"

namespace fairlead::relay {
namespace {

// The peer is a Fairlead proxy, and frames over TCP are allowed.
bool may_return(const SessionResources& session, bool framed, const SmcRelay& relay) {
  if (session.smc_required()) return false;
  const LinkTransport& transport = relay.group().transport();
  return framed || (transport.works(relay.link()) &&
                    transport.device(relay.link()).device->capabilities().own_kind_only);
}

}  // namespace

void ClcConnectionWatch::check(SessionResources& session, SmcRelay& relay, SmcReturn& back,
                               TimePoint now) {
  smc::Connection& connection = relay.connection();
  if (std::exchange(reset_known_, false)) {
    // Both sides may have closed in order since.
    if (!smc::ended_in_order(connection)) {
      LogEvent(LogLevel::kDebug, "relay.session", "companion_reset")
          .field("conn", session.report.id());
      connection.abort();
    }
  } else if (session.net->readable() && back.reads_on()) {
    read(session, relay, back, now);
  }
  if (!is_due(ended_until_, now)) return;
  // The link has answered, so the peer lives, but it has forgotten this connection: nothing would
  // ever arrive. Linux also ends the TCP connection at a half-close, but it has announced that
  // before.
  ended_until_.reset();
  if (connection.closing().peer_ended() || connection.closing().reset()) return;
  LogEvent(LogLevel::kDebug, "relay.session", "companion_ended").field("conn", session.report.id());
  connection.abort();
}

void ClcConnectionWatch::read(SessionResources& session, SmcRelay& relay, SmcReturn& back,
                              TimePoint now) {
  std::byte scratch[512];
  const iovec into{scratch, sizeof scratch};
  // One read per turn, in case a stranger never stops sending.
  const event::IoResult result = session.net->read({&into, 1});
  if (result.kind == event::IoResult::Kind::kBytes) {
    back.take(std::span(scratch).first(result.count));
    if (back.reads_on() && session.net->readable()) session.mark_ready();
    return;
  }
  if (result.kind != event::IoResult::Kind::kWouldBlock)
    back.cancel(relay);
  else if (!reset_)
    return;
  handle_end(session, relay, result, now);
}

void ClcConnectionWatch::handle_end(SessionResources& session, SmcRelay& relay,
                                    const event::IoResult& result, TimePoint now) {
  const bool ended = result.kind == event::IoResult::Kind::kEnd;
  const bool failed = result.kind == event::IoResult::Kind::kError;
  // A network that forgot the silent connection says nothing about the path over the devices. So a
  // mere timeout is a reason to test the link, as an end is.
  const bool reset = reset_ || (failed && !means_vanished(result.error));
  if (!reset && !ended && !failed) return;
  session.net->set_not_readable();
  reset_ = false;
  if (relay.connection().finished() || relay.connection().closing().lost()) return;
  if (!reset) {
    if (ended) ended_until_ = now + kClcConnectionEndWait;
    return relay.group().doubt(relay.link(), smc::Doubt::kPeerGone, now);
  }
  // The peer's earlier messages may still be in the device's queue: the next turn looks there
  // first.
  reset_known_ = true;
  session.mark_ready();
}

SmcStage::SmcStage(SessionResources& session, UseSmc from)
    : session_(session),
      membership_(std::move(from.membership)),
      clc_connection_(from.clc_connection_reset),
      back_(session, may_return(session, from.framed != nullptr, membership_.relay())) {
  if (!from.unread.empty()) back_.take(from.unread);
  if (!from.framed) return;
  const FramedIn& in = from.framed->towards_app();
  const bool finished = in.finished(), failed = in.discards();
  membership_.relay().resume(from.framed->towards_app().release_waiting(),
                             from.framed->deferral().ended(), finished, failed);
  session.report.frames_ended(from.framed->towards_net().bytes());
}

StageResult SmcStage::handle(Entered, TimePoint) {
  session_.memory.become_smc(*session_.net);
  session_.provide_for_lasting();
  session_.reset_if_lost();
  session_.mark_ready();
  return Stay{};
}

StageResult SmcStage::handle(Ready, TimePoint now) {
  if (!session_.app) return await_peer_close(now);
  SmcRelay& relay = membership_.relay();
  smc::Connection& connection = relay.connection();
  // If a link has been lost since, the last message must first be repeated over another one.
  if (session_.close_order.waiting() && (connection.finished() || connection.closing().lost()))
    return session_.close_in_order(now);
  // The peer reuses the element for another connection as soon as this one has ended.
  if (!idle_pages_.settled(now) && !connection.closing().lost()) {
    if (idle_pages_.waited_too_long(now)) relay.group().terminate("the peer blocks its memory");
    wake_at(now + kSettleInterval);
    return Stay{};
  }
  clc_connection_.check(session_, relay, back_, now);
  if (link_lost_ && !back_.needs_no_link()) connection.handle_link_lost();
  if (is_due(connection.next_deadline(), now)) connection.handle_deadline(now);
  const SmcRelay::Step step = relay.pump(*session_.app, publish_bytes(), now);
  session_.close_order.note(connection.closing().data_ended(), connection.closing().peer_ended(),
                            session_.outbound());
  if (const std::optional<Side> full = connection.tx_blocked()) {
    WorkerStats& stats = session_.services.stats;
    (*full == Side::kLocal ? stats.buffer_full_local : stats.buffer_full_peer).add();
  }
  session_.report.count(Transport::kSmcr, session_.report.framed_tx() + connection.tx().taken(),
                        relay.rx_bytes(), now);
  session_.pay_for_growth(relay.ahead_bytes(), false);
  if (std::optional<StageResult> next = return_to_frames(now)) return std::move(*next);
  idle_pages_.check(relay, now);
  if (connection.transmit_due() && !connection.closing().lost())
    relay.group().sender().schedule(relay);
  switch (step) {
    case SmcRelay::Step::kMore:
      session_.mark_ready();
      break;
    case SmcRelay::Step::kReset:
      session_.services.stats.connections_reset.add();
      session_.net->reset_on_close();
      session_.app.reset();
      // The peer may be in frames already, and not look at the ring.
      if (*back_.fault() != '\0') session_.net.reset();
      close_wait_ = now + kCloseAnswerWait;
      return await_peer_close(now);
    case SmcRelay::Step::kFinished:
      return session_.close_in_order(now);
    case SmcRelay::Step::kIdle:
      break;
  }
  Deadline deadline = relay.next_deadline();
  if (relay.awaits_answer()) {
    if (!close_wait_) close_wait_ = now + kCloseAnswerWait;
    if (now >= *close_wait_) return End{};
    deadline = earliest(deadline, close_wait_);
  }
  deadline = earliest(deadline, clc_connection_.next_deadline());
  deadline = earliest(deadline, idle_pages_.next_deadline());
  deadline = earliest(deadline, back_.next_deadline(relay, now));
  wake_at(deadline);
  return Stay{};
}

std::optional<StageResult> SmcStage::return_to_frames(TimePoint now) {
  SmcRelay& relay = membership_.relay();
  switch (back_.step(relay, session_.services.admission.parking(), now)) {
    case SmcReturn::Step::kNothing:
      return std::nullopt;
    case SmcReturn::Step::kBroken:
      session_.report.frames_refused(session_.peer(), back_.fault());
      relay.connection().abort();
      session_.mark_ready();
      return std::nullopt;
    case SmcReturn::Step::kDone:
      break;
  }
  ParkedFrames frames = back_.finish(relay, now);
  session_.report.carried_no_longer(Transport::kSmcr);
  // The peer should write no more. In case it does, the element must not go to another connection.
  membership_.leave(now, true);
  auto stage = make_stage<FramesStage>(session_, std::move(frames), now);
  std::vector<std::byte> behind = back_.release_behind();
  stage->return_with(behind);
  // An end that was announced over SMC-R is announced again, in a frame.
  session_.app->assume_readable();
  session_.net->assume_readable();
  return UseStage{std::move(stage)};
}

bool SmcStage::try_read() {
  if (!session_.app || idle_pages_.returning() ||
      !membership_.relay().try_read(*session_.app, publish_bytes()))
    return false;
  session_.mark_ready();
  return true;
}

// A lone stream is passed on in parts, so that the peer writes while this side reads. If others are
// active, a larger part costs both sides fewer turns.
std::uint32_t SmcStage::publish_bytes() const {
  const config::Buffers& buffers = session_.services.config.buffers;
  return static_cast<std::uint32_t>(session_.services.host.many_active() ? buffers.size
                                                                         : buffers.publish);
}

// The application's stream is gone. Until the peer has answered our abort, it may write into the
// element, which therefore stays ours. Without an answer, the element is never used again.
StageResult SmcStage::await_peer_close(TimePoint now) {
  const smc::Connection& connection = membership_.relay().connection();
  const TimePoint kept_until = *close_wait_ - kCloseAnswerWait + kClcConnectionKept;
  const bool over = connection.finished() || connection.closing().lost() || now >= *close_wait_;
  if (over || now >= kept_until) session_.net.reset();
  if (over) return End{};
  wake_at(session_.net ? kept_until : *close_wait_);
  return Stay{};
}

StageResult SmcStage::handle(GroupLost, TimePoint) {
  // A peer that has returned to frames does not need the group any more.
  link_lost_ = true;
  if (!back_.needs_no_link()) membership_.relay().connection().handle_link_lost();
  session_.mark_ready();
  return Stay{};
}

StageResult SmcStage::handle(WorkerEnds, TimePoint now) {
  SmcRelay& relay = membership_.relay();
  const bool over = smc::ended_in_order(relay.connection());
  // The peer may have given the token to another connection.
  if (!over) relay.connection().abort();
  relay.group().sender().schedule(relay);
  relay.group().sender().flush(now);
  // The connection had already ended in order before its turn came: no reset may follow.
  return over ? StageResult{End{}} : Stay{};
}

void SmcStage::leave(TimePoint now) {
  session_.report.carried_no_longer(Transport::kSmcr);
  membership_.leave_at_end(now);
}

}  // namespace fairlead::relay
