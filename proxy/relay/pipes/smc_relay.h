// One connection over SMC-R: the application's stream on one side, an smc::Connection on the other.
// Moves bytes between the socket and the rings and performs what the protocol asks for; it decides
// nothing. Bytes are never copied in user space: readv(2) puts them into the peer's memory (or into
// the registered send ring), writev(2) takes them out of our RMB element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "event/stream.h"
#include "relay/pipes/backlog.h"
#include "relay/pipes/parked_mode.h"
#include "relay/pipes/reset_delay.h"
#include "relay/pipes/smc_buffers.h"
#include "relay/pipes/unheard.h"
#include "smc/connection.h"
#include "smc/rmb_keys.h"

namespace fairlead::relay {

class ConnectionOwner;
class Group;

class SmcRelay {
 public:
  enum class Step : std::uint8_t {
    kIdle,
    kMore,      // the turn's share is used up
    kFinished,  // both sides have closed and said so
    kReset,     // aborted or lost, and nothing is left to be told
  };

  // Its place in a link group. Both outlive it.
  struct Place {
    Group* group = nullptr;
    smc::LinkIndex link = 0;
    ConnectionOwner* owner = nullptr;
  };
  // `local`: the memory of `element`.
  SmcRelay(AlertToken token, smc::ElementId element, std::span<std::byte> local, Place place)
      : connection_(token, static_cast<std::uint32_t>(local.size())),
        buffers_(element, local),
        place_(place) {}

  smc::Connection& connection() { return connection_; }
  const smc::Connection& connection() const { return connection_; }
  SmcBuffers& buffers() { return buffers_; }
  const SmcBuffers& buffers() const { return buffers_; }
  Group& group() const { return *place_.group; }
  ConnectionOwner& owner() const { return *place_.owner; }
  // That it uses.
  smc::LinkIndex link() const { return place_.link; }
  void move_to(smc::LinkIndex link) { place_.link = link; }
  // Whether it is among those that the group's sender has to look at. Says what it was before.
  bool exchange_scheduled(bool scheduled) { return std::exchange(scheduled_, scheduled); }

  // What the connection did before it was SMC-R. `bytes` are for the application and go first;
  // `app_ended`: it has ended its stream; `app_finished`: it was given the end of the peer's;
  // `app_failed`: it takes nothing any more.
  void resume(Backlog bytes, bool app_ended, bool app_finished, bool app_failed);

  // One turn: what can be moved now, at most about `publish_bytes` each way. Afterwards the caller
  // asks connection().transmit_due().
  Step pump(event::Stream& app, std::uint32_t publish_bytes, TimePoint now);

  // Goes back to frames: reads no more from the application, and takes no end of the peer's for
  // that of its application. What is in the ring still goes there.
  void begin_return() { return_ = Return::kBegun; }
  // The peer was told that this side has all. It may be in frames already, and awaits the ends once
  // more there: the connection does not end here, even if both sides have closed.
  void commit_return() { return_ = Return::kCommitted; }
  void cancel_return() { return_ = Return::kNone; }
  // An application that fails meanwhile does so in frames: the peer may not be over SMC-R any more.
  bool may_return() const {
    return (!app_failed_ || return_ != Return::kNone) && !app_reset_ &&
           !connection_.closing().reset() &&
           (return_ == Return::kCommitted || !connection_.finished());
  }
  // What is left for the application, the ring included. REQUIRES: begin_return()
  ParkedFrames leave_for_frames(TimePoint now);

  // Reads what the application may have sent since its stream was last found empty, before the loop
  // tells of it. True when there was something: a turn is due.
  bool try_read(event::Stream& app, std::uint32_t publish_bytes);

  // Bytes that the application got or will get, with those of resume().
  std::uint64_t rx_bytes() const { return ahead_.written() + connection_.rx().bytes(); }

  // Memory of those of resume() that the application has not taken yet.
  std::size_t ahead_bytes() const { return ahead_.held_bytes(); }

  // Only the peer's answer to our close or abort is awaited. As long as bytes of the application
  // are in a ring, the peer's application has still to read them, and may take any time for that.
  bool awaits_answer() const {
    if (return_ == Return::kCommitted || waits_for_reader_) return false;
    const bool consumed = connection_.closing().peer_closed() || connection_.tx().all_consumed();
    return app_reset_ || (app_ended_ && app_finished_ && consumed);
  }

  // An event has told of the application's stream.
  void app_changed() { app_changed_ = true; }

  // When the owner calls pump() again although nothing has happened.
  Deadline next_deadline() const;

 private:
  bool pump_to_app(event::Stream& app, TimePoint now);
  bool pump_from_app(event::Stream& app, std::uint32_t publish_bytes);
  void discard_from_app(event::Stream& app);
  void check_blocked_reset(event::Stream& app);
  void check_reset_behind_fin(event::Stream& app);
  void end_app_data(bool fin);
  Step pump_before_reset(event::Stream& app, bool more, TimePoint now);
  void end_in_reset(event::Stream& app);
  bool app_whole(const event::Stream& app) const { return app_ended_ || app.fin_arrived(); }
  bool peer_whole() const;
  Unheard drop_from_peer(TimePoint now);

  smc::Connection connection_;
  SmcBuffers buffers_;
  Place place_;
  bool scheduled_ = false;
  Backlog ahead_;
  bool app_ended_ = false;     // FIN read from the application
  bool app_finished_ = false;  // FIN given to the application
  bool app_changed_ = false;   // since it was last asked for a reset behind its FIN
  bool app_failed_ = false;    // it takes nothing any more; what it has said may still be unread
  bool app_reset_ = false;     // its stream ends in a reset
  bool waits_for_reader_ = false;  // with what came before a FIN, although a reset follows
  enum class Return : std::uint8_t { kNone, kBegun, kCommitted };
  Return return_ = Return::kNone;  // to frames
  ResetDelay reset_delay_;
};

}  // namespace fairlead::relay
