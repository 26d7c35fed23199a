// What one connection costs in the kernel and in its own state, and the sizes of its sockets'
// buffers.
//
// The kernel lets the buffers of a TCP socket grow to megabytes, and charges them to the cgroup. So
// a connection pays for the maximum that they can hold. The first connections begin with the
// kernel's own buffers, which are fast. Later ones begin with the least that keeps bytes moving, so
// that the limit has room for thousands of idle ones. A connection that moves bytes gets larger
// buffers, as long as half of the budget is left for others, or a quarter for the first step; one
// that stalls keeps its buffers. At the last level a socket towards the network is left to the
// kernel's own tuning, which long paths need. It then pays for the maximum of the kernel, which may
// use it from one read to the next.
//
//   what counts            SMC-R                         TCP
//   state, kernel objects  kConnectionBytes              the same
//   application's socket   two buffers                   the same
//   socket to the network  in kConnectionBytes           two buffers
//   bytes in hand          none, they are in the ring    two copies of one read
//   in frames              -                             all that they may carry to the application
//   left over from frames  what keep_ahead() says        the same
//
// Nothing that a connection needs to continue is requested later, so an established connection
// never meets the end of the budget. One that cannot have its part at once does not begin.
//
// The kernel never takes back a window that it has announced. It drops bytes within the window that
// do not fit the receive buffer; they then wait for a retransmission timer, 200 ms. So the buffer
// is chosen before a socket listens or connects (WorkerThread, SocketNetwork), and only grows. A
// connection that was set up while there was more memory keeps room for TCP's first window, as long
// as half of the budget is left. If the buffer is small, applications agree on small segments: the
// loopback device has segments of up to 64 KiB.
//
// A buffer counts twice its size, as the kernel counts it. A send buffer counts one write more, by
// which the kernel lets it be exceeded. Bytes that a peer sent before its socket was bounded count
// as well, until the connection grows. Pipes are counted in tcp_relay.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/fallback.h"
#include "event/stream.h"
#include "relay/pipes/memory_budget.h"

namespace fairlead::relay {

// The state of the session, and two sockets with file, inode, dentry, epoll item and address. 9.5
// to 12 KiB were measured for an idle connection in total (tests/integration/idle_test.py).
inline constexpr std::size_t kConnectionBytes = 10 * 1024;
// By level: the buffer size requested from the kernel for each direction of a socket.
inline constexpr std::size_t kSocketBufferBytes[] = {2048, 4096, 16384, 65536, 262144};
inline constexpr unsigned kSocketLevels = 5;
inline constexpr unsigned kLeastLevel = 0;
// A window is half of a receive buffer, which is twice the requested size. A segment of a few bytes
// takes up to a kilobyte of the buffer, and is dropped if there is no room. So at the least level
// the window is a quarter of the buffer, and a segment at most as large as the window.
inline constexpr int kLeastWindowBytes = 1024;
// Segment size of connections that begin below kApplicationLevel. The kernel merges many of them
// into one packet.
inline constexpr int kSmallSegmentBytes = 4096;
// At the least level the kernel holds one unsent write and, towards the network, another
// unacknowledged one. An application is on this kernel, which acknowledges at once.
inline constexpr std::size_t kLeastWriteBytes = 576;
inline constexpr std::size_t kLeastSendBytes = 2304 + kLeastWriteBytes;
// After this many bytes a connection goes from the least level to kGrownLevel if half of the budget
// is left then, or one level up if 1/kLeastLevelLeaves is left.
inline constexpr std::uint64_t kGrowFromLeastBytes = 4096;
inline constexpr unsigned kGrownLevel = 2;
inline constexpr std::size_t kLeastLevelLeaves = 4;
// Below this level writes are limited to the size of a buffer.
inline constexpr unsigned kUnboundedWritesLevel = 3;
// From this level on, a receive buffer holds TCP's first window (64 KiB).
inline constexpr unsigned kFirstWindowLevel = 3;
inline constexpr std::size_t kPacketBytesMax = 64 * 1024;  // that the kernel makes of large writes
// After this many more bytes, a connection of the last level asks for the kernel's own tuning, and
// if that is refused, again after as many.
inline constexpr std::uint64_t kTunedAfterBytes = 256 * 1024;
// The level of sockets while memory is plenty. Listeners for applications are prepared for it
// (relay/worker/socket_network.h). Other sockets are bounded only after kBoundAtBytes: until then
// the kernel's own defaults are lower, and most connections end before.
inline constexpr unsigned kApplicationLevel = kSocketLevels - 1;
inline constexpr std::uint64_t kBoundAtBytes = 64 * 1024;
inline constexpr std::size_t kKernelReceiveBytes = 128 * 1024;  // of a new socket (tcp_rmem)
inline constexpr std::size_t kEarlySendBytes = 2 * kBoundAtBytes;
// New connections get kApplicationLevel while this many sixteenths of the limit are left, and
// kGrownLevel while the second number is left. With a limit below kPlentyLimitBytes, none gets
// them.
inline constexpr std::size_t kPlentySixteenths = 14;
inline constexpr std::size_t kEnoughSixteenths = 13;
inline constexpr std::size_t kPlentyLimitBytes = 64 * 1024 * 1024;
// Inbound connections leave 1/kInboundLeaves of the limit to the application's own: strangers
// decide how many they are. Rings leave an eighth anyway.
inline constexpr std::size_t kInboundLeaves = 32;
// Listeners announce frames while this many eighths of the limit are left, and start again at the
// second number. The rest has room for three times as many connections without frames as with them.
inline constexpr std::size_t kFramesOfferedEighths = 2;
inline constexpr std::size_t kFramesOfferedAgainEighths = 3;
// Frames of outbound connections leave 1/kFramesLeave of the limit: connections without frames are
// TCP, and need the rest for their sockets. Inbound ones leave no more than others, because frames
// cannot be declined.
inline constexpr std::size_t kFramesLeave = 4;
// What a receive buffer keeps for a first window, in segments of any size.
inline constexpr std::size_t kFirstWindowBufferBytes = 4 * kSocketBufferBytes[kFirstWindowLevel];
// Room for first windows leaves 1/kWindowsLeave of the limit. Otherwise a burst that was set up
// while there was more memory could have later connections refused.
inline constexpr std::size_t kWindowsLeave = 2;

class SocketMemory {
 public:
  enum class Leg : std::uint8_t { kApp, kNet };

  // For a stream without descriptor, as in most simulations: nothing counts.
  SocketMemory() = default;
  // Empty if the budget has no room for another connection, or for another of `direction`.
  static std::optional<SocketMemory> begin(MemoryBudget& budget, Direction direction);

  // For a connection that another process has begun, which need not leave room for others. At most
  // `ahead_bytes` wait for its application.
  static std::optional<SocketMemory> resume(MemoryBudget& budget, std::size_t ahead_bytes);

  // The level with which new connections begin.
  static unsigned level_for(const MemoryBudget& budget);
  // Whether peers may begin new connections in frames, which take more memory than others and
  // cannot be declined. `before` is the last answer; there is some hysteresis.
  static bool affords_frames(const MemoryBudget& budget, bool before);

  // Called when the stream is connected. Below kApplicationLevel its buffers are bounded at once.
  // False if the budget has no room for the bytes that arrived before.
  bool bound(event::Stream& stream, Leg leg);
  // The connection is SMC-R: the socket to the network carries nothing more, and nothing is written
  // to it.
  void become_smc(event::Stream& net);
  // Frames follow, with `ring_bytes` that wait for the application. False if the budget has no room
  // for both; nothing changes then.
  bool leave_smc(event::Stream& app, event::Stream& net, std::size_t ring_bytes);
  // As leave_smc(), but without its memory: another process continues the connection, and pays.
  void restore_window(const event::Stream& net) const;
  // `bytes` is the application's total. `net`: the stream of a TCP connection, else null.
  void moved(std::uint64_t bytes, event::Stream& app, event::Stream* net);

  // The connection may begin in frames. Pays for bytes beyond copy_bytes() that it may have to keep
  // for its application. False if the budget has no room; nothing changes then.
  bool begin_frames(std::size_t bytes);
  // Pays for more bytes to keep. False if less than half of the budget would be left.
  bool extend_ahead(std::size_t bytes);
  // True if the connection has begun with the largest buffers.
  bool plenty() const { return level_ == kApplicationLevel; }
  // From now on at most `bytes` are kept for the application. Gives back the rest.
  void keep_ahead(std::size_t bytes);

  // Prepares a socket that will listen or be dialled for this level.
  static void prepare(int fd, unsigned level);
  // The level for a socket that will be dialled.
  unsigned dialled_level() const { return budget_ != nullptr ? level_ : kApplicationLevel; }

  // How many bytes a TCP relay may have in hand in each direction.
  std::size_t copy_bytes() const;
  std::size_t charged_bytes() const { return charge_.bytes(); }

 private:
  static std::optional<SocketMemory> begin_at_best(MemoryBudget& budget, SocketMemory memory);
  static std::size_t copy_bytes(unsigned level);
  // `bounded`: the sockets' buffers are bounded as the level says.
  std::size_t cost(unsigned level, bool bounded) const;
  std::size_t cost(unsigned level) const { return cost(level, bounded_); }
  // The cost of one leg whose receive buffer has this size.
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

  // Kept small, because each connection has one. Receive buffers have less than 4 GiB.
  MemoryBudget* budget_ = nullptr;
  std::size_t keep_ = 0;  // bytes of the budget that the connection may not use
  MemoryCharge charge_;
  std::size_t ahead_bytes_ = 0;  // not taken by the application yet
  std::uint64_t grow_at_ = 0;
  std::uint32_t early_bytes_ = 0;  // arrived before a socket was bounded, as the kernel counts them
  // Receive buffers keep this size, as the kernel counts it, although the level has less.
  std::uint32_t app_window_bytes_ = 0;
  std::uint32_t net_window_bytes_ = 0;
  unsigned level_ = kSocketLevels - 1;
  bool smc_ = false;
  bool bounded_ = true;  // the sockets' buffers are, as level_ says
  bool used_ = false;    // the sockets may have announced more than a first window
};

}  // namespace fairlead::relay
