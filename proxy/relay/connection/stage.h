// A stage in the life of a session: dialling, frames, the handshake, and at last one of the relays.
// A stage owns what only it needs. It sees the session's SessionResources, and returns what comes
// next. Only Session changes the stage.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/fallback.h"
#include "base/time.h"
#include "relay/connection/group_membership.h"
#include "relay/pipes/framed_relay.h"
#include "relay/pipes/parked_mode.h"

namespace fairlead::relay {

class DeviceSlot;
class Stage;

// The stage waits. It has called SessionResources::mark_ready() if it wants to run again at once.
struct Stay {};

// The next stage begins in this turn.
struct UseStage {
  std::unique_ptr<Stage> next;
};

// The application is dialled. Then this stage begins once more.
struct DialFirst {};

// The handshake has succeeded.
struct UseSmc {
  GroupMembership membership;
  std::unique_ptr<FramedRelay> framed;  // what it was before; null if it did not begin in frames
  bool clc_connection_reset = false;    // the peer has reset the TCP connection already
  std::vector<std::byte> unread;        // of the peer's stream, behind the handshake
};

// Why a connection is TCP.
struct FallbackCause {
  Side side = Side::kLocal;
  FallbackReason reason = FallbackReason::kInternal;
  std::uint32_t peer_code = 0;  // as the peer's Decline said it
  const char* detail = "";
  std::string device, pnet;  // that were chosen; empty if none were
};

// The connection is TCP for good. Both streams stand.
struct UseTcp {
  FallbackCause cause;
  std::vector<std::byte> unread;        // of the peer's stream; they go to the application first
  bool late_decline = false;            // a Decline of the peer may come before its bytes
  std::unique_ptr<FramedRelay> framed;  // as in UseSmc
};

// The session ends. `reset_why`: both streams are reset; null at an end in order.
struct End {
  const char* reset_why = nullptr;
};

using StageResult = std::variant<Stay, UseStage, DialFirst, UseSmc, UseTcp, End>;

class Stage {
 public:
  virtual ~Stage() = default;

  // When it becomes the stage of the session.
  virtual StageResult begin(TimePoint) { return Stay{}; }
  // In a turn after SessionResources::mark_ready().
  virtual StageResult run(TimePoint now) = 0;
  // Its timer has expired; see StageHost::handle_stage_deadline().
  virtual StageResult handle_deadline(TimePoint) { return Stay{}; }
  // A handshake with the peer has been given to it.
  virtual void handle_permit_granted() {}
  // As ConnectionOwner.
  virtual StageResult handle_group_confirmed(TimePoint) { return Stay{}; }
  virtual StageResult handle_group_refused(FallbackReason, TimePoint) { return Stay{}; }
  virtual StageResult handle_group_lost(TimePoint) { return Stay{}; }
  virtual StageResult handle_rmb_announced(TimePoint) { return Stay{}; }

  // The process ends, and another one is to go on with the connection. True when it can be parked
  // as it is now. `at_last`: there is no time to wait for a better moment.
  virtual bool parkable(bool) const { return false; }
  // There is no more time to wait: does what makes it parkable within a turn, if anything does.
  // REQUIRES: not parkable(true)
  virtual void hurry(TimePoint) {}
  // What it has in hand. The stage does nothing any more. REQUIRES: parkable(true)
  virtual ParkedMode park() { return ParkedUndialled{}; }

  // The worker ends: what the application was told is sent goes out, and the peer is told. False if
  // the connection had ended in order already, and only its turn had not come: no reset may follow.
  virtual bool abort(TimePoint) { return true; }
  // The session has ended: gives back what others count.
  virtual void end(TimePoint) {}

  // Its place in a link group, or null.
  virtual SmcRelay* smc() { return nullptr; }
  // Its frames, or null.
  virtual FramedRelay* framed() { return nullptr; }
  virtual bool uses(const DeviceSlot&) const { return false; }
  // Tries the application's stream without waiting for its event; true when a turn is due.
  virtual bool try_read() { return false; }
};

}  // namespace fairlead::relay
