#include "relay/connection/frames_stage.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>

#include "base/assert.h"
#include "relay/connection/inbound_handshake.h"
#include "relay/connection/outbound_handshake.h"
#include "wire/frame.h"

namespace fairlead::relay {
namespace {

// The client hands over if a window blocks for this long.
constexpr Duration kWindowWait = std::chrono::milliseconds(100);
constexpr std::uint64_t kWindowGrowth = 4;

smc::Deferral::Role role_of(const SessionResources& session) {
  return session.outbound() ? smc::Deferral::Role::kClient : smc::Deferral::Role::kServer;
}

smc::Deferral::Limits limits_of(const SessionResources& session) {
  const config::Smc& smc = session.services.config.smc;
  return {smc.defer_bytes, smc.defer_turns, smc.defer_time};
}

}  // namespace

smc::Deferral::Windows windows_in(std::span<const std::byte> first_bytes) {
  const bool known = first_bytes[wire::kFramePreface.size() - 1] == wire::kWindowsPreface.back();
  return known ? smc::Deferral::Windows::kKnown : smc::Deferral::Windows::kNone;
}

std::unique_ptr<FramedRelay> resume_frames(SessionResources& session, ParkedFrames parked,
                                           TimePoint began) {
  Result<smc::Deferral> rules =
      smc::Deferral::resume(role_of(session), limits_of(session), began, parked.rules);
  SMC_ASSERT(rules.has_value());
  auto relay = std::make_unique<FramedRelay>(std::move(*rules), std::move(parked), *session.app,
                                             *session.net, session.services.tcp);
  relay->towards_net().set_copy_bytes(session.memory.copy_bytes());
  return relay;
}

FramesStage::FramesStage(SessionResources& session, smc::Deferral::Windows windows, TimePoint now)
    : session_(session) {
  relay_ = std::make_unique<FramedRelay>(role_of(session_), limits_of(session_), *session_.app,
                                         *session_.net, session_.services.tcp, now, windows);
  relay_->towards_net().set_copy_bytes(session_.memory.copy_bytes());
}

FramesStage::FramesStage(SessionResources& session, std::unique_ptr<FramedRelay> relay)
    : session_(session), relay_(std::move(relay)), counted_(true), peer_over_(true) {}

FramesStage::FramesStage(SessionResources& session, ParkedFrames parked, TimePoint began)
    : session_(session), peer_over_(parked.peer_over) {
  relay_ = resume_frames(session, std::move(parked), began);
}

void FramesStage::take(std::span<std::byte> unread) {
  // If this fails, the next turn fails as well and handles it.
  (void)relay_->towards_app().take(unread.subspan(wire::kFramePreface.size()));
}

StageResult FramesStage::handle(Entered, TimePoint now) {
  session_.report.setup_ended();
  if (!counted_) session_.report.carried(Transport::kShort);
  if (peer_over_) {
    relay_->end_peer();
    session_.mark_ready();
    return Stay{};
  }
  liveness_.watch(session_);
  session_.provide_for_lasting();
  // The client's first window is sent with its preface.
  if (session_.outbound() && session_.memory.plenty()) open_window();
  return handle(Ready{}, now);
}

StageResult FramesStage::handle(Ready, TimePoint now) {
  if (session_.close_order.waiting()) return session_.close_in_order(now);
  if (liveness_.gone()) {
    session_.net->note_error(ETIMEDOUT);
    relay_->end_net();
  }
  const RelayStep step = relay_->pump(now);
  session_.report.count(Transport::kShort, relay_->towards_net().bytes(),
                        relay_->towards_app().bytes(), now);
  session_.pay_for_growth(relay_->towards_app().ahead_bytes_max(), true);
  const std::uint64_t received_max = relay_->deferral().bytes_received_max();
  if (received_max - std::min(received_max, relay_->deferral().bytes_received()) <= window_ / 2)
    open_window();
  relay_->towards_net().set_copy_bytes(session_.memory.copy_bytes());
  const smc::Deferral& deferral = relay_->deferral();
  session_.close_order.note(deferral.ended(), deferral.peer_ended(), session_.outbound());
  // A handshake for which the connection waits is pointless once its application has ended.
  if (!deferral.may_hand_over()) cancel_handshake();
  switch (step) {
    case RelayStep::kEnded:
      return session_.close_in_order(now);
    case RelayStep::kReset:
    case RelayStep::kRefused:
      return broken();
    case RelayStep::kMore:
      session_.mark_ready();
      break;
    case RelayStep::kIdle:
      break;
  }
  session_.deadlines.set(DeadlineKind::kHalfClose, relay_->next_deadline());
  if (relay_->ending()) return Stay{};
  const bool parking = session_.services.admission.parking();
  // A connection back from SMC-R waits to be parked; any other answers once, because the client may
  // wait for the answer before it can be parked itself.
  if (deferral.peer_handed_over() && !(parking && returned_)) return answer_hand_over(now);
  if (parking) return Stay{};
  return deferral.earned(now) || window_blocks_too_long(now) ? hand_over(now) : Stay{};
}

// While there is memory, the peer gets a larger window; otherwise a window of the same size beyond
// what the application has taken.
void FramesStage::open_window() {
  const smc::Deferral& deferral = relay_->deferral();
  if (!deferral.may_open_window()) return;
  const FramedIn& in = relay_->towards_app();
  const std::uint64_t passed = std::min(in.bytes(), deferral.bytes_received_max());
  std::uint64_t window = in.window_bytes();
  const std::uint64_t wanted =
      std::min(session_.memory.plenty() ? smc::kFramedBytesMax : kWindowGrowth * window,
               smc::kFramedBytesMax - passed);
  if (wanted > window && session_.memory.extend_ahead(wanted)) window = wanted;
  const std::uint64_t max = std::min(passed + window, smc::kFramedBytesMax);
  if (max <= deferral.bytes_received_max()) return;
  window_ = window;
  relay_->towards_net().open_window(max);
}

// An application that does not read must not delay the other direction: over SMC-R or TCP, each
// direction has its own flow control.
bool FramesStage::window_blocks_too_long(TimePoint now) {
  const smc::Deferral& deferral = relay_->deferral();
  if (!session_.outbound() || !deferral.may_hand_over() || !deferral.window_blocks()) {
    blocked_until_.reset();
    session_.deadlines.cancel(DeadlineKind::kWindow);
    return false;
  }
  if (!blocked_until_) {
    blocked_until_ = now + kWindowWait;
    session_.deadlines.set(DeadlineKind::kWindow, blocked_until_);
  }
  return now >= *blocked_until_;
}

StageResult FramesStage::broken() {
  const char* const fault = relay_->towards_app().fault();
  if (*fault == '\0') return session_.lose_net(session_.net->take_error());
  session_.report.frames_refused(session_.peer(), fault);
  return End{"the peer broke the rules of frames"};
}

void FramesStage::cancel_handshake() {
  if (!earned_) return;
  earned_.reset();
  session_.deadlines.cancel(DeadlineKind::kPermit);
  session_.report.setup_ended();
}

// The client's part. If no handshake is possible, a Decline tells both proxies, and the connection
// continues without frames.
StageResult FramesStage::hand_over(TimePoint now) {
  if (!earned_) prepare_handshake(now);
  if (earned_->permit.waiting()) return Stay{};
  relay_->towards_net().hand_over();
  return UseStage{make_stage<OutboundHandshake>(session_, std::move(earned_->permit),
                                                std::move(relay_), earned_->declined_for)};
}

void FramesStage::prepare_handshake(TimePoint now) {
  SessionServices& services = session_.services;
  session_.report.setup_began("hand_over", now);
  session_.note("the connection has earned SMC-R");
  earned_.reset(new Earned{HandshakePermit(services, session_.number), std::nullopt});
  std::optional<FallbackReason> obstacle;
  if (services.admission.draining())
    obstacle = FallbackReason::kDraining;
  else if (!services.devices.any_in_network())
    obstacle = services.devices.no_device_reason();
  else if (!earned_->permit.count())
    obstacle = FallbackReason::kConnectionLimit;
  if (obstacle) {
    earned_->declined_for = FallbackCause{.reason = *obstacle};
  } else if (!earned_->permit.acquire(session_.destination)) {
    session_.note("waiting: the peer has many handshakes in hand");
    session_.deadlines.set(DeadlineKind::kPermit, now + services.config.smc.handshake_timeout);
  }
}

StageResult FramesStage::handle(PermitGranted, TimePoint) {
  earned_->permit.granted();
  session_.deadlines.cancel(DeadlineKind::kPermit);
  session_.mark_ready();
  return Stay{};
}

StageResult FramesStage::handle(DeadlineDue due, TimePoint now) {
  if (due.kind == DeadlineKind::kLiveness) {
    liveness_.check(session_, now);
    return Stay{};
  }
  earned_->permit.release();
  session_.note(kNoPermitStep);
  earned_->declined_for = kNoPermit;
  return hand_over(now);
}

// The server's part.
StageResult FramesStage::answer_hand_over(TimePoint now) {
  session_.report.setup_began("clc_proposal", now);
  session_.note("the client says that the connection has earned SMC-R");
  relay_->towards_net().hand_over();
  return UseStage{make_stage<InboundHandshake>(session_, std::move(relay_))};
}

}  // namespace fairlead::relay
