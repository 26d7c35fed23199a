// Moves the bytes of a CLC handshake between the stream to the peer and smc::Handshake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "event/stream.h"
#include "smc/clc/handshake.h"

namespace fairlead::relay {

inline constexpr std::size_t kHandshakeReadBytes = 4096;

class ClcExchange {
 public:
  void begin(smc::Handshake handshake) { handshake_.emplace(std::move(handshake)); }
  bool begun() const { return handshake_.has_value(); }
  // REQUIRES: begun()
  smc::Handshake& handshake() { return *handshake_; }
  const smc::Handshake& handshake() const { return *handshake_; }
  // Bytes that were read, but not taken by the handshake.
  std::vector<std::byte>& unread() { return unread_; }

  enum class Written : std::uint8_t { kAll, kBlocked, kReset };
  Written write(event::Stream& net);

  enum class Fetched : std::uint8_t { kBytes, kNothing, kEnd, kReset };
  Fetched fetch(event::Stream& net);

  // Passes the unread bytes to the handshake.
  void take(TimePoint now);

 private:
  std::optional<smc::Handshake> handshake_;
  std::vector<std::byte> unread_;
};

}  // namespace fairlead::relay
