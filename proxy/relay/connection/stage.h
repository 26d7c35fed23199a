// A stage in the life of a connection: dialling, frames, the handshake, and finally one of the
// relays. A stage owns what only it needs. It uses the session's SessionResources, and returns what
// comes next. Only Session changes the stage.
//
// Each stage is a class with a function handle(event, now) for each event that it acts on, and a
// list `Ignores` of the other events. A stage that omits an event does not compile.
// docs/architecture.md shows the table of both.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/fallback.h"
#include "base/time.h"
#include "relay/connection/event.h"
#include "relay/connection/group_membership.h"
#include "relay/pipes/framed_relay.h"
#include "relay/pipes/parked_mode.h"

namespace fairlead::relay {

class DeviceSlot;
class FramesStage;
class InboundDial;
class InboundHandshake;
class OutboundDial;
class OutboundHandshake;
class SmcStage;
class TcpStage;

struct Stay;
struct UseStage;
struct DialFirst;
struct UseSmc;
struct UseTcp;
struct End;
// The result of a stage's handle().
using StageResult = std::variant<Stay, UseStage, DialFirst, UseSmc, UseTcp, End>;

struct DeleteStage {
  template <class One>
  void operator()(One* stage) const;
};
template <class One>
using StagePtr = std::unique_ptr<One, DeleteStage>;
template <class One, class... Arguments>
StagePtr<One> make_stage(Arguments&&... arguments) {
  return StagePtr<One>(new One(std::forward<Arguments>(arguments)...));
}

// The stage of a connection, or none once the connection has ended. Handshakes are many times
// larger than the stages of idle connections, so each stage has its own allocation.
class Stage {
 public:
  using Any = std::variant<std::monostate, StagePtr<OutboundDial>, StagePtr<InboundDial>,
                           StagePtr<FramesStage>, StagePtr<OutboundHandshake>,
                           StagePtr<InboundHandshake>, StagePtr<SmcStage>, StagePtr<TcpStage>>;
  Stage() = default;
  template <class One>
  Stage(StagePtr<One> stage) : any_(std::move(stage)) {}

  explicit operator bool() const { return !std::holds_alternative<std::monostate>(any_); }
  // Null if the current stage is another one.
  template <class One>
  One* get() const {
    const StagePtr<One>* const found = std::get_if<StagePtr<One>>(&any_);
    return found != nullptr ? found->get() : nullptr;
  }
  template <class One>
  StagePtr<One> release() {
    return std::move(std::get<StagePtr<One>>(any_));
  }

  StageResult handle(const Event& event, TimePoint now);

  // True when the connection can be parked as it is now, for another process. `at_last`: there is
  // no time to wait for a better moment.
  bool parkable(bool at_last) const;
  // Returns the state and waiting bytes. The stage does nothing afterwards. REQUIRES:
  // parkable(true)
  ParkedMode park();
  // The connection has ended: gives back counted resources.
  void leave(TimePoint now);

  // The connection's relay in a link group, or null.
  SmcRelay* smc() const;
  // The connection's frames, or null.
  FramedRelay* framed() const;
  bool uses(const DeviceSlot& slot) const;
  // Tries to read the application's stream before its event arrives; true when a turn is due.
  bool try_read();

 private:
  Any any_;
};

// The names of stages and events, and whether a stage acts on an event.
struct StageRow {
  const char* stage;
  std::array<bool, std::variant_size_v<Event>> acts;
};
inline constexpr std::size_t kStages = std::variant_size_v<Stage::Any> - 1;
std::array<StageRow, kStages> stage_rows();

// The stage waits. It has called SessionResources::mark_ready() if it wants to run again at once.
struct Stay {};

// The next stage begins in this turn.
struct UseStage {
  Stage next;
};

// The application must be dialled first. Then this stage begins again.
struct DialFirst {};

// The handshake has succeeded.
struct UseSmc {
  GroupMembership membership;
  std::unique_ptr<FramedRelay> framed;  // the frames before; null if there were none
  bool clc_connection_reset = false;    // the peer has already reset the TCP connection
  std::vector<std::byte> unread;        // bytes of the peer's stream after the handshake
};

// Why a connection is TCP.
struct FallbackCause {
  Side side = Side::kLocal;
  FallbackReason reason = FallbackReason::kInternal;
  std::uint32_t peer_code = 0;  // from the peer's Decline
  const char* detail = "";
  std::string device, pnet;  // as chosen; empty if none were
};

// The connection is permanently TCP. Both streams are connected.
struct UseTcp {
  FallbackCause cause;
  std::vector<std::byte> unread;        // from the peer's stream; goes to the application first
  bool late_decline = false;            // a Decline of the peer may come before its bytes
  std::unique_ptr<FramedRelay> framed;  // as in UseSmc
};

// The session ends. `reset_why`: why both streams are reset; null for an orderly end.
struct End {
  const char* reset_why = nullptr;
};

}  // namespace fairlead::relay
