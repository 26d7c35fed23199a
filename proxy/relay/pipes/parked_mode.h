// What a connection has in hand when its proxy ends before it does, by what carries it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "relay/pipes/backlog.h"
#include "smc/deferral.h"

namespace fairlead::relay {

// One direction of a connection in TCP.
struct ParkedTcpHalf {
  BacklogContent waiting;            // read, and not passed on; in order
  std::vector<std::byte> undecided;  // behind them: what may be the beginning of a late Decline
  bool late_decline = false;         // still looked for
  bool late_return = false;          // of the peer, looked for as well
  bool end_read = false;
  bool end_passed_on = false;
};

struct ParkedTcp {
  ParkedTcpHalf towards_net, towards_app;
};

// A connection in frames; the role is that of its direction.
struct ParkedFrames {
  smc::Deferral::State rules;
  BacklogContent to_net;        // frames, whole but for the first
  BacklogContent to_app;        // data of frames
  std::uint64_t app_bytes = 0;  // that were read from the application
  bool preface_due = false;
  std::vector<std::byte> behind;  // the peer's hand-over
  bool app_refuses = false;       // what comes for the application is dropped
  bool app_finished = false;      // the application has got the end
  bool peer_over = false;         // the peer is reset once the application has what came before
  bool peer_lost = false;         // what the peer still sends is not read
  bool accept_sent = false;       // a server within a handshake
  bool declined = false;          // a client within a handshake, which has sent a Decline

  // This side has handed over. The client has sent its Proposal, and all of it is in to_net or on
  // its way.
  bool within_handshake() const { return rules.sent.handed_over && !peer_over; }
};

// Of those that wait for the application: what did not come in frames.
inline std::size_t bytes_before_frames(const ParkedFrames& parked) {
  const std::size_t waiting = parked.to_app.bytes.size();
  const std::uint64_t framed = parked.rules.received.bytes;
  return waiting > framed ? waiting - static_cast<std::size_t>(framed) : 0;
}

// An outbound connection that is dialled again: nothing has been read from the application.
struct ParkedUndialled {};

using ParkedMode = std::variant<ParkedUndialled, ParkedTcp, ParkedFrames>;

// Bytes in hand, both directions together.
inline std::size_t waiting_bytes(const ParkedMode& mode) {
  if (const auto* const tcp = std::get_if<ParkedTcp>(&mode))
    return tcp->towards_net.waiting.bytes.size() + tcp->towards_net.undecided.size() +
           tcp->towards_app.waiting.bytes.size() + tcp->towards_app.undecided.size();
  const auto* const frames = std::get_if<ParkedFrames>(&mode);
  if (frames == nullptr) return 0;
  return frames->to_net.bytes.size() + frames->to_app.bytes.size() + frames->behind.size();
}

}  // namespace fairlead::relay
