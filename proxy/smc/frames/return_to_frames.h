// How an SMC-R connection between two proxies goes back to frames over its CLC connection, so that
// one of them can be replaced. Sans-IO. Read first: docs/wire.md, "Return".
//
// Each side says how many bytes it has sent over SMC-R, sends no more of them, and says when it has
// all of the peer's. When both have said both, nothing is under way over the link group, and the
// next byte of each direction is a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "wire/frame.h"

namespace fairlead::smc {

class ReturnToFrames {
 public:
  // Takes the peer's frames from the front of `bytes`; returns how many. What comes behind its last
  // one is not taken. Error kMalformed: the connection must end.
  Result<std::size_t> take(std::span<const std::byte> bytes);

  // How many bytes the peer has sent over SMC-R, once it has said so.
  std::optional<std::uint64_t> peer_sent() const { return peer_sent_; }
  // The peer has all that was sent to it over SMC-R.
  bool peer_has_all() const { return peer_has_all_; }

  // Frames for the peer; each is sent once.
  std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes> send_return(
      std::uint64_t sent);
  // REQUIRES: peer_sent(), said_return()
  std::array<std::byte, wire::kFrameHeaderBytes> send_returned();

  bool said_return() const { return said_return_; }
  bool said_returned() const { return said_returned_; }
  bool complete() const { return said_return_ && said_returned_ && peer_sent_ && peer_has_all_; }

 private:
  std::optional<std::uint64_t> peer_sent_;
  bool peer_has_all_ = false;
  bool said_return_ = false;
  bool said_returned_ = false;
  std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes> head_{};
  std::size_t head_bytes_ = 0;
};

}  // namespace fairlead::smc
