// What one connection costs in the kernel and in its own state, and how large its sockets' buffers
// are.
//
// The kernel lets the buffers of a TCP socket grow to megabytes, and charges them to the cgroup. So
// a connection pays for what they can hold at most. The first ones begin with the kernel's own
// buffers, which are fast. Later ones begin with the least that keeps bytes moving, so that the
// limit has room for thousands which are idle. One that moves bytes gets larger buffers, as long as
// half of the budget is left for others, or a quarter for the first step: buffers of a connection
// that stalls stay as they are. In the end a socket towards the network is left to the kernel's own
// tuning, which a long way needs, and pays for the most that the kernel makes of it: it may do so
// from one read to the next.
//
//   what counts            SMC-R                         TCP
//   state, kernel objects  kConnectionBytes              the same
//   application's socket   two buffers                   the same
//   socket to the network  in kConnectionBytes           two buffers
//   bytes in hand          none, they are in the ring    two copies of one read
//   in frames              -                             all that they may carry to the application
//   left over from frames  what keep_ahead() says        the same
//
// Nothing that a connection needs to go on is asked for later: a connection that stands never meets
// the end of the budget. One that cannot have its part at once does not begin.
//
// The kernel never takes back a window that it has announced, and drops what comes within it and
// does not fit the receive buffer; the rest then waits for a retransmission timer, 200 ms. So the
// buffer of a connection is chosen before it listens or connects (WorkerThread, SocketNetwork), and
// then only grows. One that was set up while there was more memory keeps room for the window with
// which TCP begins, as long as half of the budget is left. Where the buffer is small,
// applications agree on small segments: one of the loopback device has up to 64 KiB.
//
// A buffer counts twice its size, as the kernel counts it, and a send buffer one write more, by
// which the kernel lets it be exceeded. What a peer sent before its socket was bounded counts as
// well, until the connection grows. Pipes count in tcp_relay.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/fallback.h"
#include "event/stream.h"
#include "relay/pipes/memory_budget.h"

namespace fairlead::relay {

// State of the session, two sockets with file, inode, dentry, epoll item and address. 9.5 to 12 KiB
// were measured for all that an idle connection uses (tests/integration/idle_test.py).
inline constexpr std::size_t kConnectionBytes = 10 * 1024;
// By level: what is asked of the kernel for each direction of a socket.
inline constexpr std::size_t kSocketBufferBytes[] = {2048, 4096, 16384, 65536, 262144};
inline constexpr unsigned kSocketLevels = 5;
inline constexpr unsigned kLeastLevel = 0;
// A window is half of a receive buffer, which is twice what is asked for. A segment of a few bytes
// takes up to a kilobyte of the buffer, and one that finds no room is dropped. So at the least
// level the window is a quarter of the buffer, and a segment at most as large as the window.
inline constexpr int kLeastWindowBytes = 1024;
// The segments of connections that begin below kApplicationLevel. The kernel makes one packet of
// many of them.
inline constexpr int kSmallSegmentBytes = 4096;
// At the least level the kernel has one write that is not sent, and towards the network another one
// that is not acknowledged. An application's kernel is this one, and acknowledges at once.
inline constexpr std::size_t kLeastWriteBytes = 576;
inline constexpr std::size_t kLeastSendBytes = 2304 + kLeastWriteBytes;
// So many bytes take a connection from the least level to kGrownLevel if half of the budget is left
// then, and to the next one if this part of the budget is left.
inline constexpr std::uint64_t kGrowFromLeastBytes = 4096;
inline constexpr unsigned kGrownLevel = 2;
inline constexpr std::size_t kLeastLevelLeaves = 4;
// Below this level writes are bounded to the size of a buffer.
inline constexpr unsigned kUnboundedWritesLevel = 3;
// From this level on, a receive buffer holds the window with which TCP begins (64 KiB).
inline constexpr unsigned kFirstWindowLevel = 3;
inline constexpr std::size_t kPacketBytesMax = 64 * 1024;  // that the kernel makes of large writes
// A connection of the last level that has moved so many more bytes asks for the kernel's own
// tuning, and again after as many.
inline constexpr std::uint64_t kTunedAfterBytes = 256 * 1024;
// The level of sockets where memory is plenty. Listeners for applications are prepared for it
// (relay/worker/socket_network.h). Other sockets get their bounds only once kBoundAtBytes have been
// moved: until then the kernel's own defaults are less, and most connections have ended before.
inline constexpr unsigned kApplicationLevel = kSocketLevels - 1;
inline constexpr std::uint64_t kBoundAtBytes = 64 * 1024;
inline constexpr std::size_t kKernelReceiveBytes = 128 * 1024;  // of a new socket (tcp_rmem)
inline constexpr std::size_t kEarlySendBytes = 2 * kBoundAtBytes;
// New connections have that level as long as so many sixteenths of the limit are left, and
// kGrownLevel as long as the second number is. Of a smaller limit, none has.
inline constexpr std::size_t kPlentySixteenths = 14;
inline constexpr std::size_t kEnoughSixteenths = 13;
inline constexpr std::size_t kPlentyLimitBytes = 64 * 1024 * 1024;
// Inbound connections leave this part of the limit to the application's own: strangers decide how
// many they are. Rings leave an eighth anyway.
inline constexpr std::size_t kInboundLeaves = 32;
// Listeners announce frames as long as this part of the limit is left, and again from the second.
// What is left then has room for three times as many connections without frames as with them.
inline constexpr std::size_t kFramesOfferedEighths = 2;
inline constexpr std::size_t kFramesOfferedAgainEighths = 3;
// Frames of outbound connections leave this part: those without frames are TCP, and need the rest
// for their sockets. Inbound ones leave no more than others, because frames cannot be declined.
inline constexpr std::size_t kFramesLeave = 4;
// That a receive buffer keeps for a first window, in segments of any size.
inline constexpr std::size_t kFirstWindowBufferBytes = 4 * kSocketBufferBytes[kFirstWindowLevel];
// Room for first windows leaves this part: a burst that was set up while there was more memory must
// not have the connections behind it refused.
inline constexpr std::size_t kWindowsLeave = 2;

class SocketMemory {
 public:
  enum class Leg : std::uint8_t { kApp, kNet };

  // Of a stream without descriptor, as in most simulations: nothing counts.
  SocketMemory() = default;
  // Nothing where the budget has no room for one more connection, or none for one of `direction`.
  static std::optional<SocketMemory> begin(MemoryBudget& budget, Direction direction);

  // Of a connection that another process has begun, and that needs no room to spare: with so many
  // bytes that wait for its application at most.
  static std::optional<SocketMemory> resume(MemoryBudget& budget, std::size_t ahead_bytes);

  // With which new connections begin.
  static unsigned level_for(const MemoryBudget& budget);
  // Whether peers may begin new connections in frames, which take more memory than others and
  // cannot be declined. `before`: the answer of the last call, from which a little more has to
  // change.
  static bool affords_frames(const MemoryBudget& budget, bool before);

  // The stream is connected. Below kApplicationLevel it is bounded at once. False where the budget
  // has no room for what has come in before.
  bool bound(event::Stream& stream, Leg leg);
  // The connection is SMC-R: the socket to the network carries nothing more, and nothing is written
  // to it.
  void become_smc(event::Stream& net);
  // Frames follow, with so many bytes of the ring that wait for the application. False where the
  // budget has no room for both; nothing changes then.
  bool leave_smc(event::Stream& app, event::Stream& net, std::size_t ring_bytes);
  // The same without its memory: another process goes on, and pays.
  void restore_window(const event::Stream& net) const;
  // The application has moved so many bytes in all. `net`: of a TCP connection, else null.
  void moved(std::uint64_t bytes, event::Stream& app, event::Stream* net);

  // The connection may begin in frames: pays for so many bytes that it may have to keep for its
  // application, beyond copy_bytes(). False where the budget has no room for it; nothing changes
  // then.
  bool begin_frames(std::size_t bytes);
  // It may have to keep more. False where less than half of the budget would be left.
  bool extend_ahead(std::size_t bytes);
  // It has begun with the largest buffers.
  bool plenty() const { return level_ == kApplicationLevel; }
  // From here on no more than this is kept for the application. Gives back the rest.
  void keep_ahead(std::size_t bytes);

  // For a socket that listens, or will be dialled, at this level.
  static void prepare(int fd, unsigned level);
  // For a socket that will be dialled.
  unsigned dialled_level() const { return budget_ != nullptr ? level_ : kApplicationLevel; }

  // How much a TCP relay may have in hand in each direction.
  std::size_t copy_bytes() const;
  std::size_t charged_bytes() const { return charge_.bytes(); }

 private:
  static std::optional<SocketMemory> begin_at_best(MemoryBudget& budget, SocketMemory memory);
  static std::size_t copy_bytes(unsigned level);
  // `bounded`: the sockets are, as the level says.
  std::size_t cost(unsigned level, bool bounded) const;
  std::size_t cost(unsigned level) const { return cost(level, bounded_); }
  // Of one leg with so many bytes of receive buffer.
  static std::size_t leg_cost(Leg leg, unsigned level, bool bounded, std::size_t receive_bytes);
  std::uint32_t& window_of(Leg leg) {
    return leg == Leg::kApp ? app_window_bytes_ : net_window_bytes_;
  }
  void bound_late(event::Stream& app, event::Stream* net);
  bool charge_early(event::Stream& stream);
  bool keep_window(const event::Stream& stream, Leg leg);
  void resize(event::Stream& stream) const;
  void grow(event::Stream& app, event::Stream* net);
  bool leave_to_tuning(event::Stream& net);

  // Each connection has one of these, so it is kept small. Receive buffers have less than 4 GiB.
  MemoryBudget* budget_ = nullptr;
  std::size_t keep_ = 0;  // bytes of the budget that the connection may not use
  MemoryCharge charge_;
  std::size_t ahead_bytes_ = 0;  // of an application that has not taken them
  std::uint64_t grow_at_ = 0;
  std::uint32_t early_bytes_ = 0;  // before a socket was bounded, as the kernel counts them
  // Of receive buffers, as the kernel counts them: they keep so much although the level has less.
  std::uint32_t app_window_bytes_ = 0;
  std::uint32_t net_window_bytes_ = 0;
  unsigned level_ = kSocketLevels - 1;
  bool smc_ = false;
  bool bounded_ = true;  // the sockets are, as level_ says
  bool used_ = false;    // its sockets may have announced more than a first window
};

}  // namespace fairlead::relay
