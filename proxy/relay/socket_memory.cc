#include "relay/socket_memory.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "event/tcp_stream.h"
#include "relay/tcp_relay.h"
#include "smc/deferral.h"

namespace fairlead::relay {
namespace {

// The kernel counts a buffer's bookkeeping, and allows twice what it was asked for.
constexpr std::size_t kKernelFactor = 2;
constexpr std::size_t kDirections = 2;
constexpr int kLeast = 1;  // the kernel makes its minimum of it

int option(int fd, int name) {
  int value = 0;
  socklen_t length = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, name, &value, &length) != 0) return 0;
  return value;
}

bool set_tuning(int fd, bool by_kernel) {
  // Both locks of <linux/sockios.h>'s SOCK_BUF_LOCK_MASK: send and receive buffer.
  const int locks = by_kernel ? 0 : 3;
  return ::setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locks, sizeof locks) == 0;
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
  return begin_at_best(budget, std::move(memory));
}

std::optional<SocketMemory> SocketMemory::begin_at_best(MemoryBudget& budget, SocketMemory memory) {
  memory.budget_ = &budget;
  memory.level_ = level_for(budget);
  for (;;) {
    auto charge = MemoryCharge::take(budget, MemoryUse::kConnections, memory.cost(memory.level_),
                                     memory.keep_);
    if (charge) {
      memory.charge_ = std::move(*charge);
      memory.bounded_ = memory.level_ < kApplicationLevel;
      memory.grow_at_ = memory.bounded_ ? kSocketBufferBytes[memory.level_] : kBoundAtBytes;
      return memory;
    }
    if (memory.level_-- == 0) return std::nullopt;
  }
}

std::size_t SocketMemory::copy_bytes() const {
  return std::min(kSocketBufferBytes[level_], kCopyBytes);
}

std::size_t SocketMemory::cost(unsigned level) const {
  const std::size_t write =
      level < kUnboundedWritesLevel ? kSocketBufferBytes[level] : kPacketBytesMax;
  const std::size_t socket = kDirections * kKernelFactor * kSocketBufferBytes[level] + write;
  const std::size_t window = level < kFirstWindowLevel ? window_bytes_ : 0;
  const std::size_t fixed = kConnectionBytes + early_bytes_ + ahead_bytes_ + window;
  if (smc_) return fixed + socket;
  const std::size_t in_hand = kDirections * std::min(kSocketBufferBytes[level], kCopyBytes);
  return fixed + 2 * socket + in_hand;
}

// Where memory is plenty, with the largest: a receive buffer of two packets of the loopback device
// leaves the window of TCP small for good, however much it grows later.
unsigned SocketMemory::level_for(const MemoryBudget& budget) {
  const std::size_t left = budget.left_bytes();
  const std::size_t limit = budget.limit_bytes();
  return left >= limit - limit / 4 ? kApplicationLevel : left >= limit / 2 ? 1 : 0;
}

int SocketMemory::dialled_buffer_bytes() const {
  return budget_ != nullptr && bounded_ ? static_cast<int>(kSocketBufferBytes[level_]) : 0;
}

bool SocketMemory::affords_frames(const MemoryBudget& budget, bool before) {
  const std::size_t eighths = before ? kFramesOfferedEighths : kFramesOfferedAgainEighths;
  return budget.left_bytes() >= budget.limit_bytes() / 8 * eighths;
}

bool SocketMemory::bound(event::Stream& stream) {
  if (!bounded_ || budget_ == nullptr || stream.descriptor() < 0) return true;
  keep_first_window(stream);
  resize(stream);
  return charge_early(stream);
}

void SocketMemory::bound_late(event::Stream& app, event::Stream* net) {
  bounded_ = true;
  resize(app);
  if (net != nullptr) resize(*net);
}

bool SocketMemory::charge_early(event::Stream& stream) {
  int waiting = 0;
  if (::ioctl(stream.descriptor(), FIONREAD, &waiting) != 0) return true;
  const std::size_t early = kKernelFactor * static_cast<std::size_t>(waiting);
  if (early <= kKernelFactor * kSocketBufferBytes[level_]) return true;
  if (!charge_.resize(charge_.bytes() + early, keep_)) return false;
  early_bytes_ += early;
  return true;
}

void SocketMemory::keep_first_window(const event::Stream& stream) {
  const auto now = static_cast<std::size_t>(option(stream.descriptor(), SO_RCVBUF));
  const std::size_t wanted = kKernelFactor * kSocketBufferBytes[level_];
  const std::size_t kept = std::min(now, kKernelFactor * kSocketBufferBytes[kFirstWindowLevel]);
  if (level_ >= kFirstWindowLevel || kept <= wanted) return;
  if (charge_.resize(charge_.bytes() + kept - wanted, budget_->limit_bytes() / kWindowsLeave))
    window_bytes_ += kept - wanted;
}

void SocketMemory::resize(event::Stream& stream) const {
  if (stream.descriptor() < 0) return;
  event::resize_memory(stream.descriptor(), static_cast<int>(kSocketBufferBytes[level_]));
  if (window_bytes_ != 0 && level_ < kFirstWindowLevel)
    event::bound_receive_memory(stream.descriptor(),
                                static_cast<int>(kSocketBufferBytes[kFirstWindowLevel]));
  stream.set_write_max(level_ < kUnboundedWritesLevel ? kSocketBufferBytes[level_] : 0);
}

void SocketMemory::become_smc(event::Stream& net) {
  if (budget_ == nullptr) return;
  smc_ = true;
  tuned_ = false;
  if (net.descriptor() >= 0) event::bound_receive_memory(net.descriptor(), kLeast);
  charge_.resize(cost(level_));
}

// A receive buffer smaller than the window that the peer knows loses packets, so the connection
// keeps its level while half of the budget is left. Many may do this at once: beyond that, each
// takes no more than it has, as far as that suffices.
bool SocketMemory::leave_smc(event::Stream& net, std::size_t ring_bytes) {
  if (budget_ == nullptr) return true;
  const unsigned level = level_;
  const std::size_t ahead = ahead_bytes_;
  smc_ = false;
  ahead_bytes_ += smc::kFramedBytesMax + ring_bytes;
  const std::size_t left = budget_->left_bytes();
  const std::size_t kept = budget_->limit_bytes() / 2;
  const std::size_t affordable = charge_.bytes() + (left > kept ? left - kept : 0);
  while (level_ != 0 && cost(level_) > affordable) --level_;
  if (!charge_.resize(cost(level_), 0)) {
    level_ = level;
    ahead_bytes_ = ahead;
    smc_ = true;
    return false;
  }
  bounded_ = true;
  tuned_ = false;
  grow_at_ = 0;
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
    grow_at_ = bytes + kSocketBufferBytes[level_];
  } else if (net != nullptr && net->descriptor() >= 0) {
    check_tuned(*net);
    grow_at_ = bytes + kTunedCheckBytes;
  } else {
    grow_at_ = UINT64_MAX;
  }
}

bool SocketMemory::begin_frames() {
  if (budget_ == nullptr) return true;
  const std::size_t keep = keep_ != 0 ? keep_ : budget_->limit_bytes() / kFramesLeave;
  if (!charge_.resize(charge_.bytes() + smc::kFramedBytesMax, keep)) return false;
  ahead_bytes_ += smc::kFramedBytesMax;
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
  if (!charge_.resize(cost(level_ + 1), budget_->limit_bytes() / 2)) return;
  ++level_;
  resize(app);
  if (net != nullptr) resize(*net);
}

// What the kernel has made of the buffers is paid for, or stays as it is from now on.
void SocketMemory::check_tuned(event::Stream& net) {
  const int fd = net.descriptor();
  const std::size_t fixed = cost(level_) - kDirections * kKernelFactor * kSocketBufferBytes[level_];
  const std::size_t now = static_cast<std::size_t>(option(fd, SO_SNDBUF)) +
                          static_cast<std::size_t>(option(fd, SO_RCVBUF));
  const std::size_t wanted = fixed + now + kTunedMarginBytes;
  const bool paid = charge_.resize(std::max(wanted, cost(level_)), budget_->limit_bytes() / 2);
  if (paid == tuned_) return;
  // Kernels before 5.15 know no way back to tuning: the buffers keep the size of the last level.
  if (set_tuning(fd, paid)) tuned_ = paid;
}

}  // namespace fairlead::relay
