#include "relay/connection/tcp_stage.h"

#include <cerrno>
#include <utility>

namespace fairlead::relay {

TcpStage::TcpStage(SessionResources& session, const UseTcp& from)
    : session_(session), relay_(*session.app, *session.net, session.services.tcp) {
  relay_.set_copy_bytes(session.memory.copy_bytes());
  if (from.framed) {
    relay_.towards_net().resume({}, from.framed->deferral().ended());
    relay_.towards_app().resume(from.framed->towards_app().release_waiting(), false);
    session.report.frames_ended(from.framed->towards_net().bytes());
  }
  if (!from.unread.empty()) relay_.towards_app().prepend(from.unread);
  if (from.late_decline) relay_.towards_app().skip_late_decline(from.framed != nullptr);
}

TcpStage::TcpStage(SessionResources& session, ParkedTcp parked)
    : session_(session), relay_(*session.app, *session.net, session.services.tcp) {
  relay_.set_copy_bytes(session.memory.copy_bytes());
  relay_.towards_net().resume(std::move(parked.towards_net));
  relay_.towards_app().resume(std::move(parked.towards_app));
}

StageResult TcpStage::handle(Entered, TimePoint) {
  liveness_.watch(session_);
  session_.provide_for_lasting();
  if (session_.outbound()) session_.net->expect_urgent_data();
  session_.mark_ready();
  return Stay{};
}

StageResult TcpStage::handle(Ready, TimePoint now) {
  if (liveness_.gone()) {
    session_.net->note_error(ETIMEDOUT);
    relay_.end_net();
  }
  const RelayStep step = relay_.pump(now);
  session_.report.count(Transport::kTcp, session_.report.framed_tx() + relay_.towards_net().bytes(),
                        relay_.towards_app().bytes(), now);
  session_.pay_for_growth(relay_.towards_app().ahead_bytes(), true);
  relay_.set_copy_bytes(session_.memory.copy_bytes());
  switch (step) {
    case RelayStep::kIdle:
      session_.deadlines.set(DeadlineKind::kHalfClose, relay_.next_deadline());
      return Stay{};
    case RelayStep::kMore:
      session_.mark_ready();
      return Stay{};
    case RelayStep::kEnded:
      return End{};
    case RelayStep::kReset:
    case RelayStep::kRefused:
      // The stream keeps the error that ended it.
      return session_.lose_net(session_.net->take_error());
  }
  return Stay{};
}

}  // namespace fairlead::relay
