// One proxied connection, from the accepted socket to the end. It goes through stages, each a class
// of its own:
//
//   OutboundDial, InboundDial             connects to the peer, or to the application
//   FramesStage                           in frames, until it has earned SMC-R
//   OutboundHandshake, InboundHandshake   the CLC handshake, as client or as server
//   SmcStage                              over SMC-R
//   TcpStage                              over TCP, for good
//
// Session owns what they share, and the current stage. It is the only class that changes the stage.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/snapshot.h"
#include "event/stream.h"
#include "relay/connection/connection_owner.h"
#include "relay/connection/parked_connection.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

class Session final : public StageHost {
 public:
  Session(SessionServices& services, std::uint64_t number, Direction direction,
          const SocketAddress& destination, std::unique_ptr<event::Stream> accepted,
          SocketMemory memory, TimePoint now);
  ~Session() override;

  // Decides what to try first, and begins.
  void start(Arrival arrival, TimePoint now);
  // Continues a connection that another process has parked. The accepted stream is that of the
  // constructor.
  void take_back(ParkedConnection parked, TimePoint now);
  struct Parkable {
    bool settled;  // can be parked as it is now
    bool live;     // the application has neither ended nor reset its stream
  };
  Parkable parkable() const {
    return {parkable(false), resources_.app && !resources_.app->hung_up()};
  }
  // Sends ParkWanted to the stage if the connection cannot be parked.
  void hurry(TimePoint now);
  // Leaves the whole state to another process, and ends without sending anything. Empty if that is
  // not possible; a log line then says what the connection waits for.
  std::optional<ParkedConnection> park(TimePoint now);
  // Passes an event to the stage. After SessionHost::mark_ready() the worker calls this with Ready,
  // in a turn.
  void handle(const Event& event, TimePoint now) override;
  // Tries to read the application's stream before its event arrives; true when a turn is due.
  bool try_read() { return stage_.try_read(); }
  void handle_ready(event::Stream& stream) override;
  void mark_ready() override { resources_.services.host.mark_ready(*this); }
  void handle_connection_event() override { mark_ready(); }

  // The worker ends: bytes that the application considers sent are still sent, then the connection
  // is aborted.
  void shut_down(const char* why);

  std::uint64_t number() const { return resources_.number; }
  Direction direction() const { return resources_.direction; }
  bool negotiating() const { return resources_.report.setting_up(); }
  bool dead() const { return !stage_; }
  // True if the negotiation refers to the device.
  bool uses(const DeviceSlot& slot) const { return stage_.uses(slot); }
  const SmcRelay* smc() const { return stage_.smc(); }
  ConnectionRow row(TimePoint now) const;

  bool queued = false;  // in the worker's ready list
  unsigned runs = 0;    // number of turns it has had; wraps around

 private:
  bool parkable(bool at_last) const { return stage_.parkable(at_last); }
  ParkedConnection describe(TimePoint now) const;
  void apply(StageResult result, TimePoint now);
  // Ends the deadlines of the previous stage.
  void set_stage(Stage next);
  // Returns the result of the new stage's Entered event.
  StageResult enter(Stage next, TimePoint now);
  void resume_handshake(ParkedFrames parked, TimePoint began, TimePoint now);
  StageResult enter_smc(UseSmc from, TimePoint now);
  StageResult enter_tcp(UseTcp from, TimePoint now);
  void end(const char* reset_why, TimePoint now);
  // REQUIRES: the connection is in frames.
  SessionReport::ShortEnd short_end(const smc::Deferral& frames) const;
  // A redirected connection becomes TCP for this cause.
  void learn(const FallbackCause& cause, TimePoint now);
  // Ends the last stage.
  void leave_stage(TimePoint now);

  SessionResources resources_;
  Stage stage_;
};

}  // namespace fairlead::relay
