#include "relay/tcp_relay.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "smc/clc_stream.h"

namespace fairlead::relay {

using Kind = event::IoResult::Kind;

HalfRelay::~HalfRelay() { leave_splice(); }

void HalfRelay::prepend(std::span<const std::byte> bytes) {
  leftover_.assign(bytes.begin(), bytes.end());
  leftover_at_ = 0;
}

HalfRelay::Step HalfRelay::pump() {
  if (ended_) return Step::kEnded;
  if (late_decline_)
    if (const Step step = look_for_decline(); step != Step::kMore) return step;
  std::size_t moved = 0;
  while (moved < kTurnBytesMax) {
    const std::size_t before = moved;
    Step step = flush_leftover();
    if (step != Step::kMore) return step;
    if (saw_fin_ && piped_ == 0) return finish();
    step = pipe_ ? splice_once(moved) : copy_once(moved);
    if (step != Step::kMore) return step;
    if (moved == before && !saw_fin_ && !from_.readable()) return Step::kIdle;
  }
  return Step::kMore;
}

// kMore when it is known what the first bytes are.
HalfRelay::Step HalfRelay::look_for_decline() {
  for (;;) {
    smc::ClcStream stream;
    const Result<std::size_t> taken = stream.feed(leftover_);
    const bool whole = taken && stream.complete();
    if (whole && stream.header().type == wire::ClcType::kDecline)
      leftover_.erase(leftover_.begin(), leftover_.begin() + static_cast<std::ptrdiff_t>(*taken));
    late_decline_ = taken && !whole && !saw_fin_;
    if (!late_decline_) return Step::kMore;
    if (!from_.readable()) return Step::kIdle;
    std::array<std::byte, wire::kDeclineBytesMax> chunk;
    const iovec into{chunk.data(), chunk.size()};
    const event::IoResult got = from_.read({&into, 1});
    if (got.kind == Kind::kError) return Step::kReset;
    if (got.kind == Kind::kWouldBlock) return Step::kIdle;
    saw_fin_ = got.kind == Kind::kEnd;
    leftover_.insert(leftover_.end(), chunk.begin(),
                     chunk.begin() + static_cast<std::ptrdiff_t>(got.count));
  }
}

HalfRelay::Step HalfRelay::finish() {
  leave_splice();
  to_.shutdown_write();
  ended_ = true;
  return Step::kEnded;
}

HalfRelay::Step HalfRelay::flush_leftover() {
  while (leftover_at_ < leftover_.size()) {
    if (!to_.writable()) return Step::kIdle;
    const iovec piece{leftover_.data() + leftover_at_, leftover_.size() - leftover_at_};
    const event::IoResult result = to_.write({&piece, 1});
    if (result.kind == Kind::kError) return Step::kReset;
    if (result.kind == Kind::kWouldBlock) return Step::kIdle;
    leftover_at_ += result.count;
    bytes_ += result.count;
  }
  if (!leftover_.empty()) {
    leftover_ = {};
    leftover_at_ = 0;
  }
  return Step::kMore;
}

HalfRelay::Step HalfRelay::copy_once(std::size_t& moved) {
  if (!from_.readable() || !to_.writable()) return Step::kIdle;
  const iovec into{shared_.buffer.data(), shared_.buffer.size()};
  const event::IoResult got = from_.read({&into, 1});
  if (got.kind == Kind::kError) return Step::kReset;
  if (got.kind == Kind::kEnd) {
    saw_fin_ = true;
    return Step::kMore;
  }
  if (got.kind == Kind::kWouldBlock) return Step::kIdle;
  const iovec piece{shared_.buffer.data(), got.count};
  const event::IoResult put = to_.write({&piece, 1});
  if (put.kind == Kind::kError) return Step::kReset;
  const std::size_t written = put.kind == Kind::kBytes ? put.count : 0;
  bytes_ += written;
  moved += got.count;
  if (written < got.count) {
    const auto* rest = shared_.buffer.data() + written;
    leftover_.assign(rest, rest + (got.count - written));
    leftover_at_ = 0;
  }
  // A full buffer means that more waits: from now on the kernel moves pages instead.
  if (got.count == shared_.buffer.size() && from_.descriptor() >= 0 && to_.descriptor() >= 0) {
    pipe_ = shared_.pipes.take();
    small_splices_ = 0;
  }
  return Step::kMore;
}

HalfRelay::Step HalfRelay::drain_pipe(std::size_t& moved) {
  while (piped_ != 0) {
    if (!to_.writable()) return Step::kIdle;
    const ssize_t n = ::splice(pipe_->read_end.get(), nullptr, to_.descriptor(), nullptr, piped_,
                               SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      to_.set_not_writable();
      return Step::kIdle;
    }
    if (n <= 0) return Step::kReset;
    piped_ -= static_cast<std::size_t>(n);
    bytes_ += static_cast<std::size_t>(n);
    moved += static_cast<std::size_t>(n);
  }
  return Step::kMore;
}

HalfRelay::Step HalfRelay::splice_once(std::size_t& moved) {
  if (const Step step = drain_pipe(moved); step != Step::kMore) return step;
  if (!from_.readable()) return Step::kIdle;
  const ssize_t n = ::splice(from_.descriptor(), nullptr, pipe_->write_end.get(), nullptr,
                             pipe_->capacity_bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    // The pipe is empty, so it is the socket that has nothing.
    from_.set_not_readable();
    if (++small_splices_ >= kSmallSplicesMax) leave_splice();
    return Step::kIdle;
  }
  if (n < 0) return Step::kReset;
  if (n == 0) {
    saw_fin_ = true;
    return Step::kMore;
  }
  piped_ = static_cast<std::size_t>(n);
  small_splices_ = piped_ < kSpliceBytesMin ? small_splices_ + 1 : 0;
  if (const Step step = drain_pipe(moved); step != Step::kMore) return step;
  if (small_splices_ >= kSmallSplicesMax) leave_splice();
  return Step::kMore;
}

void HalfRelay::leave_splice() {
  // A pipe with bytes in it dies with the connection.
  if (pipe_ && piped_ == 0) shared_.pipes.give_back(std::move(*pipe_));
  pipe_.reset();
  small_splices_ = 0;
}

HalfRelay::Step TcpRelay::pump() {
  const HalfRelay::Step out = out_.pump();
  const HalfRelay::Step in = in_.pump();
  if (out == HalfRelay::Step::kReset || in == HalfRelay::Step::kReset)
    return HalfRelay::Step::kReset;
  if (out == HalfRelay::Step::kMore || in == HalfRelay::Step::kMore) return HalfRelay::Step::kMore;
  if (out == HalfRelay::Step::kEnded && in == HalfRelay::Step::kEnded)
    return HalfRelay::Step::kEnded;
  return HalfRelay::Step::kIdle;
}

}  // namespace fairlead::relay
