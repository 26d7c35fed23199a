#include "relay/connection/socket_memory.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "event/socket_buffers.h"
#include "event/tcp_stream.h"
#include "relay/pipes/tcp_relay.h"
#include "smc/frames/deferral.h"

namespace fairlead::relay {
namespace {

int window_bytes(unsigned level) {
  return level == kLeastLevel ? kLeastWindowBytes : static_cast<int>(kSocketBufferBytes[level]);
}

// The kernel includes a buffer's bookkeeping, and allows twice the requested size.
constexpr std::size_t kKernelFactor = 2;
constexpr std::size_t kDirections = 2;
constexpr int kLeast = 1;  // the kernel raises it to its minimum

int option(int fd, int name) {
  int value = 0;
  socklen_t length = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, name, &value, &length) != 0) return 0;
  return value;
}

std::size_t receive_buffer_bytes(const event::Stream& stream) {
  return static_cast<std::size_t>(option(stream.descriptor(), SO_RCVBUF));
}

}  // namespace

std::optional<SocketMemory> SocketMemory::begin(MemoryBudget& budget, Direction direction) {
  SocketMemory memory;
  if (direction == Direction::kInbound) memory.keep_ = budget.limit_bytes() / kInboundLeaves;
  return begin_at_best(budget, std::move(memory));
}

std::optional<SocketMemory> SocketMemory::resume(MemoryBudget& budget, std::size_t ahead_bytes) {
  SocketMemory memory;
  memory.ahead_bytes_ = ahead_bytes;
  memory.used_ = true;
  return begin_at_best(budget, std::move(memory));
}

std::optional<SocketMemory> SocketMemory::begin_at_best(MemoryBudget& budget, SocketMemory memory) {
  memory.budget_ = &budget;
  memory.level_ = level_for(budget);
  for (;;) {
    // Sockets whose sizes another process has chosen are not left to the kernel.
    memory.bounded_ = memory.level_ < kApplicationLevel || memory.used_;
    auto charge = MemoryCharge::take(budget, MemoryUse::kConnections, memory.cost(memory.level_),
                                     memory.keep_);
    if (charge) {
      memory.charge_ = std::move(*charge);
      memory.grow_at_ = !memory.bounded_               ? kBoundAtBytes
                        : memory.level_ == kLeastLevel ? kGrowFromLeastBytes
                                                       : kSocketBufferBytes[memory.level_];
      return memory;
    }
    if (memory.level_-- == 0) return std::nullopt;
  }
}

std::size_t SocketMemory::copy_bytes() const { return copy_bytes(level_); }

std::size_t SocketMemory::copy_bytes(unsigned level) {
  return level == kLeastLevel ? kLeastWriteBytes : std::min(kSocketBufferBytes[level], kCopyBytes);
}

std::size_t SocketMemory::leg_cost(Leg leg, unsigned level, bool bounded,
                                   std::size_t receive_bytes) {
  if (!bounded) return receive_bytes + kEarlySendBytes;
  const std::size_t buffer = kKernelFactor * kSocketBufferBytes[level];
  const std::size_t receive = std::max(buffer, receive_bytes);
  if (level == kLeastLevel) return receive + (leg == Leg::kApp ? 1 : 2) * kLeastSendBytes;
  const std::size_t write =
      level < kUnboundedWritesLevel ? kSocketBufferBytes[level] : kPacketBytesMax;
  return receive + buffer + write;
}

std::size_t SocketMemory::cost(unsigned level, bool bounded) const {
  const std::size_t app = bounded ? app_window_bytes_ : kKernelFactor * kSocketBufferBytes[level];
  const std::size_t net = bounded ? net_window_bytes_ : kKernelReceiveBytes;
  const std::size_t bytes =
      kConnectionBytes + early_bytes_ + ahead_bytes_ + leg_cost(Leg::kApp, level, bounded, app);
  if (smc_) return bytes;
  return bytes + leg_cost(Leg::kNet, level, bounded, net) + kDirections * copy_bytes(level);
}

// While memory is plenty, new connections begin at the largest level. A receive buffer of only two
// packets of the loopback device would keep the TCP window small permanently, however much the
// buffer grows later.
unsigned SocketMemory::level_for(const MemoryBudget& budget) {
  const std::size_t left = budget.left_bytes();
  const std::size_t sixteenth = budget.limit_bytes() / 16;
  if (budget.limit_bytes() < kPlentyLimitBytes) return kLeastLevel;
  if (left >= kPlentySixteenths * sixteenth) return kApplicationLevel;
  return left >= kEnoughSixteenths * sixteenth ? kGrownLevel : kLeastLevel;
}

void SocketMemory::prepare(int fd, unsigned level) {
  event::bound_memory(fd, static_cast<int>(kSocketBufferBytes[level]));
  event::bound_window(fd,
                      level == kApplicationLevel ? event::kWindowBytesMax : window_bytes(level));
  event::bound_segments(fd, level == kApplicationLevel ? 0
                            : level == kLeastLevel     ? kLeastWindowBytes
                                                       : kSmallSegmentBytes);
}

bool SocketMemory::affords_frames(const MemoryBudget& budget, bool before) {
  const std::size_t eighths = before ? kFramesOfferedEighths : kFramesOfferedAgainEighths;
  return budget.left_bytes() >= budget.limit_bytes() / 8 * eighths;
}

bool SocketMemory::bound(event::Stream& stream, Leg leg) {
  if (!bounded_ || budget_ == nullptr || stream.descriptor() < 0) return true;
  if (!keep_window(stream, leg))
    event::bound_receive_memory(stream.descriptor(), static_cast<int>(kSocketBufferBytes[level_]));
  resize(stream);
  return charge_early(stream);
}

// Without the memory for its level, the connection keeps its receive buffers, and gets small send
// buffers, which are paid for.
void SocketMemory::bound_late(event::Stream& app, event::Stream* net) {
  bounded_ = true;
  if (!charge_.resize(cost(level_), budget_->limit_bytes() / 2)) {
    level_ = kGrownLevel;
    used_ = true;
    (void)keep_window(app, Leg::kApp);
    if (net != nullptr) (void)keep_window(*net, Leg::kNet);
  }
  resize(app);
  if (net != nullptr) resize(*net);
}

bool SocketMemory::charge_early(event::Stream& stream) {
  int waiting = 0;
  if (::ioctl(stream.descriptor(), FIONREAD, &waiting) != 0) return true;
  const std::size_t early = kKernelFactor * static_cast<std::size_t>(waiting);
  if (early <= kKernelFactor * kSocketBufferBytes[level_]) return true;
  if (!charge_.resize(charge_.bytes() + early, keep_)) return false;
  early_bytes_ += static_cast<std::uint32_t>(early);
  return true;
}

// False if the receive buffer gets the size of the level, although it may have announced more. The
// memory of a used connection was paid for before, so it leaves nothing for others.
bool SocketMemory::keep_window(const event::Stream& stream, Leg leg) {
  const std::size_t now = receive_buffer_bytes(stream);
  const std::size_t wanted = kKernelFactor * kSocketBufferBytes[level_];
  if (now <= wanted) return true;
  const std::size_t kept = used_ ? now : std::min(now, kFirstWindowBufferBytes);
  const std::size_t leave = used_ ? 0 : budget_->limit_bytes() / kWindowsLeave;
  std::uint32_t& window = window_of(leg);
  window = static_cast<std::uint32_t>(kept);
  const std::size_t paid = cost(level_);
  if (kept <= wanted || (paid > charge_.bytes() && !charge_.resize(paid, leave))) {
    window = 0;
    return false;
  }
  event::bound_receive_memory(stream.descriptor(), static_cast<int>(kept / kKernelFactor));
  return true;
}

// Receive buffers never shrink.
void SocketMemory::resize(event::Stream& stream) const {
  if (stream.descriptor() < 0) return;
  const int bytes = static_cast<int>(kSocketBufferBytes[level_]);
  event::bound_send_memory(stream.descriptor(), bytes);
  event::bound_unsent(stream.descriptor(), level_ == kLeastLevel);
  if (receive_buffer_bytes(stream) <= kKernelFactor * kSocketBufferBytes[level_]) {
    event::bound_receive_memory(stream.descriptor(), bytes);
    event::bound_window(stream.descriptor(), window_bytes(level_));
  }
  stream.set_write_max(level_ == kLeastLevel            ? kLeastWriteBytes
                       : level_ < kUnboundedWritesLevel ? kSocketBufferBytes[level_]
                                                        : 0);
}

void SocketMemory::become_smc(event::Stream& net) {
  if (budget_ == nullptr) return;
  smc_ = true;
  if (net.descriptor() >= 0) {
    net_window_bytes_ = static_cast<std::uint32_t>(receive_buffer_bytes(net));
    event::bound_receive_memory(net.descriptor(), kLeast);
  }
  charge_.resize(cost(level_));
}

void SocketMemory::restore_window(const event::Stream& net) const {
  if (net.descriptor() >= 0 && net_window_bytes_ != 0)
    event::bound_receive_memory(net.descriptor(),
                                static_cast<int>(net_window_bytes_ / kKernelFactor));
}

// The peer knows the previous window. Send buffers keep their level while half of the budget is
// left. Many connections may do this at once: beyond that, each takes no more than it has, if that
// suffices.
bool SocketMemory::leave_smc(event::Stream& app, event::Stream& net, std::size_t ring_bytes) {
  if (budget_ == nullptr) return true;
  const unsigned level = level_;
  const std::size_t ahead = ahead_bytes_;
  const std::uint32_t window = app_window_bytes_;
  const bool bounded = bounded_;
  smc_ = false;
  bounded_ = true;
  ahead_bytes_ += smc::kFramedBytesMax + ring_bytes;
  app_window_bytes_ =
      std::max(window, static_cast<std::uint32_t>(kKernelFactor * kSocketBufferBytes[level_]));
  const std::size_t left = budget_->left_bytes();
  const std::size_t kept = budget_->limit_bytes() / 2;
  const std::size_t affordable = charge_.bytes() + (left > kept ? left - kept : 0);
  while (level_ != 0 && cost(level_) > affordable) --level_;
  if (!charge_.resize(cost(level_), 0)) {
    level_ = level;
    ahead_bytes_ = ahead;
    app_window_bytes_ = window;
    bounded_ = bounded;
    smc_ = true;
    return false;
  }
  grow_at_ = 0;
  restore_window(net);
  resize(app);
  resize(net);
  return true;
}

void SocketMemory::moved(std::uint64_t bytes, event::Stream& app, event::Stream* net) {
  if (budget_ == nullptr || bytes < grow_at_) return;
  if (!bounded_) {
    bound_late(app, net);
    grow_at_ = kSocketBufferBytes[level_];
    return;
  }
  if (level_ + 1 < kSocketLevels) {
    grow(app, net);
    grow_at_ = bytes + std::max<std::uint64_t>(kSocketBufferBytes[level_], kGrowFromLeastBytes);
  } else {
    const bool once_more = net != nullptr && net->descriptor() >= 0 && !leave_to_tuning(*net);
    grow_at_ = once_more ? bytes + kTunedAfterBytes : UINT64_MAX;
  }
}

bool SocketMemory::begin_frames(std::size_t bytes) {
  if (budget_ == nullptr) return true;
  const std::size_t keep = keep_ != 0 ? keep_ : budget_->limit_bytes() / kFramesLeave;
  if (!charge_.resize(charge_.bytes() + bytes, keep)) return false;
  ahead_bytes_ += bytes;
  return true;
}

bool SocketMemory::extend_ahead(std::size_t bytes) {
  if (budget_ == nullptr || bytes <= ahead_bytes_) return true;
  if (!charge_.resize(charge_.bytes() - ahead_bytes_ + bytes, budget_->limit_bytes() / 2))
    return false;
  ahead_bytes_ = bytes;
  return true;
}

void SocketMemory::keep_ahead(std::size_t bytes) {
  if (bytes >= ahead_bytes_) return;
  charge_.resize(charge_.bytes() - ahead_bytes_ + bytes);
  ahead_bytes_ = bytes;
}

void SocketMemory::grow(event::Stream& app, event::Stream* net) {
  early_bytes_ = 0;
  charge_.resize(cost(level_));
  const auto grows_to = [this](unsigned level, std::size_t leaves) {
    if (!charge_.resize(cost(level), budget_->limit_bytes() / leaves)) return false;
    level_ = level;
    return true;
  };
  const bool least = level_ == kLeastLevel;
  if (!(least && grows_to(kGrownLevel, 2)) && !grows_to(level_ + 1, least ? kLeastLevelLeaves : 2))
    return;
  resize(app);
  if (net != nullptr) resize(*net);
}

bool SocketMemory::leave_to_tuning(event::Stream& net) {
  const std::size_t most = event::tuned_memory_max_bytes();
  const std::size_t own = kDirections * kKernelFactor * kSocketBufferBytes[level_];
  if (most == 0 ||
      !charge_.resize(cost(level_) + std::max(most, own) - own, budget_->limit_bytes() / 2))
    return false;
  event::bound_window(net.descriptor(), event::kWindowBytesMax);
  (void)event::tune_memory(net.descriptor());
  return true;
}

}  // namespace fairlead::relay
