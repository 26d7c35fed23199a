// What a connection still has in hand when its proxy ends before it does, by transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "relay/pipes/backlog.h"
#include "smc/frames/deferral.h"

namespace fairlead::relay {

// One direction of a connection in TCP.
struct ParkedTcpHalf {
  BacklogContent waiting;            // read but not passed on, in order
  std::vector<std::byte> undecided;  // after `waiting`: perhaps the beginning of a late Decline
  bool late_decline = false;         // a late Decline may still come
  bool late_return = false;          // a late return of the peer may still come
  bool end_read = false;
  bool end_passed_on = false;
};

struct ParkedTcp {
  ParkedTcpHalf towards_net, towards_app;
};

// A connection in frames; the role is that of its direction.
struct ParkedFrames {
  smc::Deferral::State rules;
  BacklogContent to_net;        // whole frames, except perhaps the first
  BacklogContent to_app;        // data of frames
  std::uint64_t app_bytes = 0;  // read from the application
  bool preface_due = false;
  std::vector<std::byte> behind;  // sent by the peer after its hand-over
  bool app_refuses = false;       // bytes for the application are dropped
  bool app_finished = false;      // the application has received the end
  bool peer_over = false;         // the peer is reset once the application has what came before
  bool peer_lost = false;         // further bytes of the peer are not read
  bool accept_sent = false;       // a server within a handshake
  bool declined = false;          // a client within a handshake, which has sent a Decline

  // True if this side has handed over. A client has then sent its Proposal; to_net holds what is
  // unsent.
  bool within_handshake() const { return rules.sent.handed_over && !peer_over; }
};

// The bytes waiting for the application that did not arrive in frames.
inline std::size_t bytes_before_frames(const ParkedFrames& parked) {
  const std::size_t waiting = parked.to_app.bytes.size();
  const std::uint64_t framed = parked.rules.received.bytes;
  return waiting > framed ? waiting - static_cast<std::size_t>(framed) : 0;
}

// An outbound connection that must be dialled again: nothing was read from the application.
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
