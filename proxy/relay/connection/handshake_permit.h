// What a handshake needs from the worker's limits: one of limits.handshakes, and on a client one of
// the handshakes with its peer. Given back on destruction.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "relay/connection/session_services.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

// For a client that has waited for a permit as long as a handshake may take.
inline const FallbackCause kNoPermit{.reason = FallbackReason::kConnectionLimit,
                                     .detail = "no turn among limits.handshakes_per_peer"};
inline constexpr const char* kNoPermitStep = "no turn for a handshake with the peer";

class HandshakePermit {
 public:
  // Holds nothing yet. The services outlive it.
  HandshakePermit(SessionServices& services, std::uint64_t session)
      : services_(&services), session_(session) {}
  HandshakePermit(HandshakePermit&& other) noexcept
      : services_(other.services_),
        session_(other.session_),
        counted_(std::exchange(other.counted_, false)),
        client_(other.client_),
        peer_(other.peer_),
        state_(std::exchange(other.state_, State::kNone)) {}
  HandshakePermit& operator=(HandshakePermit&&) = delete;
  ~HandshakePermit() {
    if (counted_) services_->admission.end_handshake(client_);
    release();
  }

  // Takes one of limits.handshakes. False: as Admission::begin_handshake().
  bool count(const std::optional<SocketAddress>& client = std::nullopt) {
    if (!counted_ && (counted_ = services_->admission.begin_handshake(client))) client_ = client;
    return counted_;
  }
  // Takes one of the handshakes with `peer`. False: the session waits in the queue, and granted()
  // follows.
  bool acquire(const SocketAddress& peer) {
    peer_ = peer;
    const bool taken = services_->admission.limiter().take(peer, session_);
    state_ = taken ? State::kHeld : State::kWaiting;
    return taken;
  }
  bool waiting() const { return state_ == State::kWaiting; }
  bool held() const { return state_ == State::kHeld; }
  void granted() { state_ = State::kHeld; }
  void release() {
    HandshakeLimiter& limiter = services_->admission.limiter();
    switch (std::exchange(state_, State::kNone)) {
      case State::kNone:
        return;
      case State::kWaiting:
        return limiter.leave(peer_, session_);
      case State::kHeld:
        if (const std::optional<std::uint64_t> next = limiter.give_back(peer_))
          services_->host.grant_permit(*next);
    }
  }

 private:
  enum class State : std::uint8_t { kNone, kWaiting, kHeld };

  SessionServices* services_;
  std::uint64_t session_;
  bool counted_ = false;
  std::optional<SocketAddress> client_;  // on a server: the client's address
  SocketAddress peer_;
  State state_ = State::kNone;
};

}  // namespace fairlead::relay
