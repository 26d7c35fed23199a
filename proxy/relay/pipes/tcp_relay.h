// The fallback: moves bytes from one TCP stream to another, each direction independently.
//
// Small messages are copied through a buffer that all connections of a worker share, because two
// system calls beat the four of splice. A direction whose reads keep filling that buffer moves
// through a pipe with splice(2) until the flood ends (docs/benchmarks.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "event/stream.h"
#include "relay/pipes/backlog.h"
#include "relay/pipes/duplex.h"
#include "relay/pipes/memory_budget.h"
#include "relay/pipes/parked_mode.h"
#include "relay/pipes/pipe_pool.h"

namespace fairlead::relay {

inline constexpr std::size_t kCopyBytes = 64 * 1024;
// Bytes per turn; then other connections have their turn.
inline constexpr std::size_t kTurnBytesMax = 512 * 1024;
// A splice of fewer bytes is not worth its pipe.
inline constexpr std::size_t kSpliceBytesMin = 16 * 1024;
inline constexpr unsigned kSmallSplicesMax = 4;

// What the connections of a worker share.
struct TcpRelayResources {
  PipePool pipes;
  std::vector<std::byte> buffer = std::vector<std::byte>(kCopyBytes);
  MemoryBudget* budget = nullptr;  // pays for the capacity of pipes; null: not charged
};

// One direction.
class HalfRelay {
 public:
  using Step = RelayStep;

  HalfRelay(event::Stream& from, event::Stream& to, TcpRelayResources& shared)
      : from_(from), to_(to), shared_(shared) {}
  ~HalfRelay();

  // Bytes read before the relay began; they go first.
  void prepend(std::span<const std::byte> bytes);
  // What an earlier relay left: bytes that go first, and whether the end of `from` was read.
  void resume(Backlog bytes, bool ended) {
    ahead_ = std::move(bytes);
    saw_fin_ = ended;
  }
  // As above, for a relay of another process.
  void resume(ParkedTcpHalf parked);
  // Returns all that the relay has in hand, for resume(). It moves nothing afterwards.
  ParkedTcpHalf park();
  // The first bytes may be a Decline that crossed ours and is not for the application. `or_return`:
  // instead, the peer may have switched to SMC-R and be returning to frames, which ends in a reset.
  void skip_late_decline(bool or_return) {
    late_decline_ = true;
    late_return_ = or_return;
  }
  // Maximum size of one read, and thus of what is kept if the other side takes less.
  void set_copy_bytes(std::size_t bytes) { copy_bytes_ = bytes; }
  Step pump();
  // Includes bytes that an earlier relay passed on.
  std::uint64_t bytes() const { return ahead_.written() + bytes_; }
  // For Duplex.
  std::uint64_t passed_on() const { return bytes(); }
  static bool held() { return false; }
  bool whole() const { return saw_fin_ || from_.fin_arrived(); }
  // Memory of bytes from resume() that are not passed on yet.
  std::size_t ahead_bytes() const { return ahead_.held_bytes(); }
  bool ended() const { return ended_; }

 private:
  ParkedTcpHalf ends() const;  // without the bytes
  Step detect_late_decline();
  enum class LateReturn : std::uint8_t { kNo, kPerhaps, kYes };
  LateReturn late_return() const;
  event::IoResult write_piece(const std::byte* bytes, std::size_t count, bool urgent);
  Step flush_leftover();
  Step copy_once(std::size_t& moved);
  Step splice_once(std::size_t& moved);
  void take_pipe();
  Step drain_pipe(std::size_t& moved);
  void leave_splice();
  void read_pipe(std::vector<std::byte>& into);
  Step finish();

  event::Stream& from_;
  event::Stream& to_;
  TcpRelayResources& shared_;
  Backlog ahead_;
  std::vector<std::byte> leftover_;  // read but not yet written; usually empty
  std::size_t leftover_at_ = 0;
  std::size_t copy_bytes_ = kCopyBytes;
  bool leftover_urgent_ = false;  // leftover_ is one urgent byte
  std::optional<Pipe> pipe_;
  MemoryCharge pipe_charge_;
  std::size_t piped_ = 0;
  unsigned small_splices_ = 0;
  std::uint64_t bytes_ = 0;
  bool late_decline_ = false;  // may still come; the part that has come is in leftover_
  bool late_return_ = false;   // a return may come as well
  bool saw_fin_ = false;
  bool ended_ = false;
};

class TcpRelay {
 public:
  TcpRelay(event::Stream& app, event::Stream& net, TcpRelayResources& shared)
      : out_(app, net, shared), in_(net, app, shared), duplex_(app, net, out_, in_) {}

  void set_copy_bytes(std::size_t bytes) {
    out_.set_copy_bytes(bytes);
    in_.set_copy_bytes(bytes);
  }
  HalfRelay& towards_net() { return out_; }
  HalfRelay& towards_app() { return in_; }
  const HalfRelay& towards_net() const { return out_; }
  const HalfRelay& towards_app() const { return in_; }
  // See Duplex.
  RelayStep pump(TimePoint now) { return duplex_.pump(now); }
  Deadline next_deadline() const { return duplex_.next_deadline(); }
  void end_net() { duplex_.end_net(); }

 private:
  HalfRelay out_;
  HalfRelay in_;
  Duplex<HalfRelay, HalfRelay> duplex_;
};

}  // namespace fairlead::relay
