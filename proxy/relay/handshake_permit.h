// What a handshake needs of the worker's limits: one of limits.handshakes, and for a client one of
// the handshakes with its peer. Given back on destruction.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "relay/session_services.h"
#include "relay/stage.h"

namespace fairlead::relay {

// Of a client that has waited for its turn as long as a handshake may take.
inline constexpr FallbackCause kNoTurn{.reason = FallbackReason::kConnectionLimit,
                                       .detail = "no turn among limits.handshakes_per_peer"};
inline constexpr const char* kNoTurnStep = "no turn for a handshake with the peer";

class HandshakePermit {
 public:
  // Holds nothing. The services outlive it.
  HandshakePermit(SessionServices& services, std::uint64_t session)
      : services_(&services), session_(session) {}
  HandshakePermit(HandshakePermit&& other) noexcept
      : services_(other.services_),
        session_(other.session_),
        counted_(std::exchange(other.counted_, false)),
        client_(other.client_),
        peer_(other.peer_),
        turn_(std::exchange(other.turn_, Turn::kNone)) {}
  HandshakePermit& operator=(HandshakePermit&&) = delete;
  ~HandshakePermit() {
    if (counted_) services_->admission.end_handshake(client_);
    give_back_turn();
  }

  // False: as Admission::begin_handshake().
  bool count(const std::optional<SocketAddress>& client = std::nullopt) {
    if (!counted_ && (counted_ = services_->admission.begin_handshake(client))) client_ = client;
    return counted_;
  }
  // One of the handshakes with `peer`. False: the session stands in line, and turn_came() follows.
  bool take_turn(const SocketAddress& peer) {
    peer_ = peer;
    const bool taken = services_->admission.turns().take(peer, session_);
    turn_ = taken ? Turn::kTaken : Turn::kInLine;
    return taken;
  }
  bool in_line() const { return turn_ == Turn::kInLine; }
  bool has_turn() const { return turn_ == Turn::kTaken; }
  void turn_came() { turn_ = Turn::kTaken; }
  void give_back_turn() {
    HandshakeTurns& turns = services_->admission.turns();
    switch (std::exchange(turn_, Turn::kNone)) {
      case Turn::kNone:
        return;
      case Turn::kInLine:
        return turns.leave(peer_, session_);
      case Turn::kTaken:
        if (const std::optional<std::uint64_t> next = turns.give_back(peer_))
          services_->host.grant_turn(*next);
    }
  }

 private:
  enum class Turn : std::uint8_t { kNone, kInLine, kTaken };

  SessionServices* services_;
  std::uint64_t session_;
  bool counted_ = false;
  std::optional<SocketAddress> client_;  // whose it is, for a server
  SocketAddress peer_;
  Turn turn_ = Turn::kNone;
};

}  // namespace fairlead::relay
