// The fallback: bytes from one TCP stream to another, each direction on its own.
//
// Small messages are copied through a buffer that all connections of a worker share, because two
// system calls beat splice's four; a direction whose reads keep filling that buffer moves through a
// pipe with splice(2) until the flood ends (docs/benchmarks.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "event/stream.h"
#include "relay/pipe_pool.h"

namespace fairlead::relay {

inline constexpr std::size_t kCopyBytes = 64 * 1024;
// Moved in one turn before others get theirs.
inline constexpr std::size_t kTurnBytesMax = 512 * 1024;
// A splice that moves less than this is not worth its pipe.
inline constexpr std::size_t kSpliceBytesMin = 16 * 1024;
inline constexpr unsigned kSmallSplicesMax = 4;

// What the connections of a worker share.
struct TcpRelayResources {
  PipePool pipes;
  std::vector<std::byte> buffer = std::vector<std::byte>(kCopyBytes);
};

// One direction.
class HalfRelay {
 public:
  enum class Step : std::uint8_t {
    kIdle,   // nothing to do until a stream is ready
    kMore,   // the turn's share is used up
    kEnded,  // FIN read and passed on
    kReset,  // one of the streams is dead
  };

  HalfRelay(event::Stream& from, event::Stream& to, TcpRelayResources& shared)
      : from_(from), to_(to), shared_(shared) {}
  ~HalfRelay();

  // Bytes read before the relay began; they go first.
  void prepend(std::span<const std::byte> bytes);
  // The first bytes may be a Decline that crossed ours. It is not for the application.
  void skip_late_decline() { late_decline_ = true; }
  Step pump();
  std::uint64_t bytes() const { return bytes_; }
  bool ended() const { return ended_; }

 private:
  Step look_for_decline();
  Step flush_leftover();
  Step copy_once(std::size_t& moved);
  Step splice_once(std::size_t& moved);
  Step drain_pipe(std::size_t& moved);
  void leave_splice();
  Step finish();

  event::Stream& from_;
  event::Stream& to_;
  TcpRelayResources& shared_;
  std::vector<std::byte> leftover_;  // read but not yet written; empty as a rule
  std::size_t leftover_at_ = 0;
  std::optional<Pipe> pipe_;
  std::size_t piped_ = 0;
  unsigned small_splices_ = 0;
  std::uint64_t bytes_ = 0;
  bool late_decline_ = false;  // still looked for; what has come of it is in leftover_
  bool saw_fin_ = false;
  bool ended_ = false;
};

class TcpRelay {
 public:
  TcpRelay(event::Stream& app, event::Stream& net, TcpRelayResources& shared)
      : out_(app, net, shared), in_(net, app, shared) {}

  HalfRelay& towards_net() { return out_; }
  HalfRelay& towards_app() { return in_; }
  // kEnded when both directions are.
  HalfRelay::Step pump();

 private:
  HalfRelay out_;
  HalfRelay in_;
};

}  // namespace fairlead::relay
