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

  // Decides what to try, and begins.
  void start(Arrival arrival, TimePoint now);
  // Goes on with what another process has parked. Its accepted stream is that of the constructor.
  void take_back(ParkedConnection parked, TimePoint now);
  struct Parkable {
    bool settled;  // as it is now
    bool live;     // the application has neither ended nor reset its stream
  };
  Parkable parkable() const {
    return {parkable(false), resources_.app && !resources_.app->hung_up()};
  }
  // ParkWanted, if it cannot be parked.
  void hurry(TimePoint now);
  // Leaves all that it has to another process, and ends without a word. Nothing if that is not
  // possible; a line of the log says what the connection waits for.
  std::optional<ParkedConnection> park(TimePoint now);
  // Gives the stage what has happened. After SessionHost::mark_ready() the worker calls it with
  // Ready, in a turn.
  void handle(const Event& event, TimePoint now) override;
  // Tries the application's stream without waiting for its event; true when a turn is due.
  bool try_read() { return stage_.try_read(); }
  void handle_ready(event::Stream& stream) override;
  void mark_ready() override { resources_.services.host.mark_ready(*this); }
  void handle_connection_event() override { mark_ready(); }

  // The worker ends: what the application was told is sent goes out, then the connection is
  // aborted.
  void shut_down(const char* why);

  std::uint64_t number() const { return resources_.number; }
  Direction direction() const { return resources_.direction; }
  bool negotiating() const { return resources_.report.setting_up(); }
  bool dead() const { return !stage_; }
  // The negotiation refers to it.
  bool uses(const DeviceSlot& slot) const { return stage_.uses(slot); }
  const SmcRelay* smc() const { return stage_.smc(); }
  ConnectionRow row(TimePoint now) const;

  bool queued = false;  // in the worker's ready list
  unsigned runs = 0;    // turns that it has had; it wraps

 private:
  bool parkable(bool at_last) const { return stage_.parkable(at_last); }
  ParkedConnection describe(TimePoint now) const;
  void apply(StageResult result, TimePoint now);
  // The deadlines of the stage before end with it.
  void set_stage(Stage next);
  // What the new stage says at its beginning.
  StageResult enter(Stage next, TimePoint now);
  void resume_handshake(ParkedFrames parked, TimePoint began, TimePoint now);
  StageResult enter_smc(UseSmc from, TimePoint now);
  StageResult enter_tcp(UseTcp from, TimePoint now);
  void end(const char* reset_why, TimePoint now);
  // REQUIRES: it is in frames.
  SessionReport::ShortEnd short_end(const smc::Deferral& frames) const;
  // For good.
  void leave_stage(TimePoint now);

  SessionResources resources_;
  Stage stage_;
};

}  // namespace fairlead::relay
