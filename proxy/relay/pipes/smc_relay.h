// One connection over SMC-R: the application's stream on one side, an smc::Connection on the other.
// Moves bytes between the socket and the rings, and performs what the protocol asks for, but
// decides nothing. Bytes are never copied in user space: readv(2) puts them into the peer's memory
// (or the registered send ring), writev(2) takes them out of our RMB element.
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
#include "smc/connection/connection.h"
#include "smc/group/rmb_keys.h"

namespace fairlead::relay {

class ConnectionOwner;
class Group;

class SmcRelay {
 public:
  enum class Step : std::uint8_t {
    kIdle,
    kMore,      // the turn's share is used up
    kFinished,  // both sides have closed and told each other
    kReset,     // aborted or lost, and no message remains to be sent
  };

  // The connection's place in a link group. Group and owner outlive the relay.
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
  // The link that the connection uses.
  smc::LinkIndex link() const { return place_.link; }
  void move_to(smc::LinkIndex link) { place_.link = link; }
  // Sets whether the relay is in the sender's list; returns the previous value.
  bool exchange_scheduled(bool scheduled) { return std::exchange(scheduled_, scheduled); }

  // Continues a connection that was not SMC-R before. `bytes` go to the application first.
  // `app_ended`: the application has ended its stream. `app_finished`: it has received the peer's
  // end. `app_failed`: it takes nothing any more.
  void resume(Backlog bytes, bool app_ended, bool app_finished, bool app_failed);

  // One turn: moves what it can, at most about `publish_bytes` each way. Afterwards the caller
  // checks connection().transmit_due().
  Step pump(event::Stream& app, std::uint32_t publish_bytes, TimePoint now);

  // Begins to return to frames: reads no more from the application, and does not take the peer's
  // end for that of its application. Bytes in the ring still go to the application.
  void begin_return() { return_ = Return::kBegun; }
  // The peer was told that this side has everything, and may be in frames already. Both ends are
  // repeated in frames, so the connection does not end here even if both sides have closed.
  void commit_return() { return_ = Return::kCommitted; }
  void cancel_return() { return_ = Return::kNone; }
  // If the application fails during a return, frames report it: the peer may have left SMC-R.
  bool may_return() const {
    return (!app_failed_ || return_ != Return::kNone) && !app_reset_ &&
           !connection_.closing().reset() &&
           (return_ == Return::kCommitted || !connection_.finished());
  }
  // What remains for the application, including the ring. REQUIRES: begin_return()
  ParkedFrames leave_for_frames(TimePoint now);

  // Reads what the application may have sent since its stream was last empty, before the loop
  // reports it. True if there was something: a turn is due.
  bool try_read(event::Stream& app, std::uint32_t publish_bytes);

  // Bytes that the application received or will receive, including those of resume().
  std::uint64_t rx_bytes() const { return ahead_.written() + connection_.rx().bytes(); }

  // Memory of bytes from resume() that the application has not taken yet.
  std::size_t ahead_bytes() const { return ahead_.held_bytes(); }

  // True if only the peer's answer to our close or abort is missing. While bytes of the application
  // are in a ring, the peer's application must still read them, which may take any time.
  bool awaits_answer() const {
    if (return_ == Return::kCommitted || waits_for_reader_) return false;
    const bool consumed = connection_.closing().peer_closed() || connection_.tx().all_consumed();
    return app_reset_ || (app_ended_ && app_finished_ && consumed);
  }

  // An event of the application's stream has occurred.
  void app_changed() { app_changed_ = true; }

  // When the owner must call pump() again although nothing has happened.
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
  bool app_ended_ = false;         // FIN read from the application
  bool app_finished_ = false;      // FIN sent to the application
  bool app_changed_ = false;       // an event came since the last check for a reset behind the FIN
  bool app_failed_ = false;        // it takes nothing any more; its bytes may still be unread
  bool app_reset_ = false;         // its stream ends in a reset
  bool waits_for_reader_ = false;  // for bytes from before a FIN, although a reset follows
  enum class Return : std::uint8_t { kNone, kBegun, kCommitted };
  Return return_ = Return::kNone;  // to frames
  ResetDelay reset_delay_;
};

}  // namespace fairlead::relay
