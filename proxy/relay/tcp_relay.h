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

#include "base/time.h"
#include "event/stream.h"
#include "relay/last_words.h"
#include "relay/memory_budget.h"
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
  MemoryBudget* budget = nullptr;  // pays for what pipes can hold; null: nobody does
};

// One direction.
class HalfRelay {
 public:
  enum class Step : std::uint8_t {
    kIdle,     // nothing to do until a stream is ready
    kMore,     // the turn's share is used up
    kEnded,    // FIN read and passed on
    kReset,    // the stream that is read was reset, and all that came before was passed on
    kRefused,  // the stream that is written takes nothing any more
  };

  HalfRelay(event::Stream& from, event::Stream& to, TcpRelayResources& shared)
      : from_(from), to_(to), shared_(shared) {}
  ~HalfRelay();

  // Bytes read before the relay began; they go first.
  void prepend(std::span<const std::byte> bytes);
  // The first bytes may be a Decline that crossed ours. It is not for the application.
  void skip_late_decline() { late_decline_ = true; }
  // The most that is read in one go, and so kept where the other side takes less.
  void set_copy_bytes(std::size_t bytes) { copy_bytes_ = bytes; }
  Step pump();
  std::uint64_t bytes() const { return bytes_; }
  bool ended() const { return ended_; }

 private:
  Step look_for_decline();
  event::IoResult write_piece(const std::byte* bytes, std::size_t count, bool urgent);
  Step flush_leftover();
  Step copy_once(std::size_t& moved);
  Step splice_once(std::size_t& moved);
  void take_pipe();
  Step drain_pipe(std::size_t& moved);
  void leave_splice();
  Step finish();

  event::Stream& from_;
  event::Stream& to_;
  TcpRelayResources& shared_;
  std::vector<std::byte> leftover_;  // read but not yet written; empty as a rule
  std::size_t leftover_at_ = 0;
  std::size_t copy_bytes_ = kCopyBytes;
  bool leftover_urgent_ = false;  // the one byte in it is urgent data
  std::optional<Pipe> pipe_;
  MemoryCharge pipe_charge_;
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
      : app_(app), net_(net), out_(app, net, shared), in_(net, app, shared) {}

  void set_copy_bytes(std::size_t bytes) {
    out_.set_copy_bytes(bytes);
    in_.set_copy_bytes(bytes);
  }
  HalfRelay& towards_net() { return out_; }
  HalfRelay& towards_app() { return in_; }
  // kEnded when both directions are. kReset when one stream was reset and the other one has what
  // came from it before, as far as it takes it; never kRefused.
  HalfRelay::Step pump(TimePoint now);
  // When the owner calls pump() again although nothing has happened.
  std::optional<TimePoint> next_deadline() const { return last_words_.next_deadline(); }

 private:
  void look_for_reset(HalfRelay::Step out, HalfRelay::Step in);
  HalfRelay::Step pump_last_words(TimePoint now);

  event::Stream& app_;
  event::Stream& net_;
  HalfRelay out_;
  HalfRelay in_;
  HalfRelay* last_ = nullptr;  // of one stream that was reset: the direction that it spoke
  LastWords last_words_;
};

}  // namespace fairlead::relay
