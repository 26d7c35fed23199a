#include "relay/pipes/tcp_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"
#include "smc/clc/clc_stream.h"
#include "wire/frame.h"

namespace fairlead::relay {
namespace {

ssize_t splice_now(int from, int to, std::size_t bytes_max) {
  ssize_t n;
  do n = ::splice(from, nullptr, to, nullptr, bytes_max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  while (n < 0 && errno == EINTR);
  return n;
}

}  // namespace

using Kind = event::IoResult::Kind;

HalfRelay::~HalfRelay() { leave_splice(); }

void HalfRelay::prepend(std::span<const std::byte> bytes) {
  leftover_.assign(bytes.begin(), bytes.end());
  leftover_at_ = 0;
}

void HalfRelay::resume(ParkedTcpHalf parked) {
  ahead_ = Backlog(std::move(parked.waiting));
  leftover_ = std::move(parked.undecided);
  late_decline_ = parked.late_decline;
  late_return_ = parked.late_return;
  saw_fin_ = parked.end_read;
  ended_ = parked.end_passed_on;
}

ParkedTcpHalf HalfRelay::ends() const {
  ParkedTcpHalf half;
  half.late_decline = late_decline_;
  half.late_return = late_decline_ && late_return_;
  half.end_read = saw_fin_;
  half.end_passed_on = ended_;
  return half;
}

ParkedTcpHalf HalfRelay::park() {
  ParkedTcpHalf parked = ends();
  parked.waiting = ahead_.release();
  parked.waiting.written += bytes_;
  const auto rest = std::span(leftover_).subspan(leftover_at_);
  if (late_decline_) {
    parked.undecided.assign(rest.begin(), rest.end());
    return parked;
  }
  std::vector<std::byte>& waiting = parked.waiting.bytes;
  if (leftover_urgent_ && !rest.empty()) parked.waiting.urgent_at = waiting.size();
  waiting.insert(waiting.end(), rest.begin(), rest.end());
  read_pipe(waiting);
  return parked;
}

// The bytes in the pipe came after all that is left over.
void HalfRelay::read_pipe(std::vector<std::byte>& into) {
  while (piped_ != 0) {
    const std::size_t before = into.size();
    into.resize(before + piped_);
    ssize_t n;
    do n = ::read(pipe_->read_end.get(), into.data() + before, piped_);
    while (n < 0 && errno == EINTR);
    // A pipe holds what splice(2) put into it.
    SMC_ASSERT(n > 0, n, errno, piped_);
    into.resize(before + static_cast<std::size_t>(n));
    piped_ -= static_cast<std::size_t>(n);
  }
}

HalfRelay::Step HalfRelay::pump() {
  if (ended_) return Step::kEnded;
  if (!ahead_.empty()) {
    const Backlog::State state = ahead_.flush(to_);
    if (state == Backlog::State::kRefused) return Step::kRefused;
    if (state == Backlog::State::kWaiting) return Step::kIdle;
  }
  if (late_decline_)
    if (const Step step = detect_late_decline(); step != Step::kMore) return step;
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

// Whether the first bytes look like a return. An application's bytes may look the same, but that is
// unlikely: type and length are four bytes.
HalfRelay::LateReturn HalfRelay::late_return() const {
  static constexpr auto kHeader =
      wire::FrameHeader{wire::FrameType::kReturn, wire::kHandOverBodyBytes};
  if (!late_return_) return LateReturn::kNo;
  const auto header = wire::encode_frame_header(kHeader);
  const std::size_t common = std::min(header.size(), leftover_.size());
  if (!std::equal(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(common),
                  leftover_.begin()))
    return LateReturn::kNo;
  return common == header.size() ? LateReturn::kYes : LateReturn::kPerhaps;
}

// kMore when it is known what the first bytes are.
HalfRelay::Step HalfRelay::detect_late_decline() {
  for (;;) {
    smc::ClcStream stream;
    const Result<std::size_t> taken = stream.feed(leftover_);
    const bool whole = taken && stream.complete();
    if (whole && stream.header().type == wire::ClcType::kDecline) {
      leftover_.erase(leftover_.begin(), leftover_.begin() + static_cast<std::ptrdiff_t>(*taken));
      late_return_ = false;  // everything that follows is the application's
    }
    const LateReturn back = late_return();
    if (back == LateReturn::kYes) return Step::kReset;
    late_decline_ = ((taken && !whole) || back == LateReturn::kPerhaps) && !saw_fin_;
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

event::IoResult HalfRelay::write_piece(const std::byte* bytes, std::size_t count, bool urgent) {
  if (urgent) return to_.write_urgent(*bytes);
  const iovec piece{const_cast<std::byte*>(bytes), count};
  return to_.write({&piece, 1});
}

HalfRelay::Step HalfRelay::flush_leftover() {
  while (leftover_at_ < leftover_.size()) {
    if (!to_.writable()) return Step::kIdle;
    const event::IoResult result = write_piece(leftover_.data() + leftover_at_,
                                               leftover_.size() - leftover_at_, leftover_urgent_);
    if (result.kind == Kind::kError) return Step::kRefused;
    if (result.kind == Kind::kWouldBlock) return Step::kIdle;
    leftover_at_ += result.count;
    bytes_ += result.count;
  }
  if (!leftover_.empty()) {
    leftover_ = {};
    leftover_at_ = 0;
    leftover_urgent_ = false;
  }
  return Step::kMore;
}

HalfRelay::Step HalfRelay::copy_once(std::size_t& moved) {
  if (!from_.readable() || !to_.writable()) return Step::kIdle;
  const iovec into{shared_.buffer.data(), std::min(shared_.buffer.size(), copy_bytes_)};
  const event::IoResult got = from_.read({&into, 1});
  if (got.kind == Kind::kError) return Step::kReset;
  if (got.kind == Kind::kEnd) {
    saw_fin_ = true;
    return Step::kMore;
  }
  if (got.kind == Kind::kWouldBlock) return Step::kIdle;
  const event::IoResult put = write_piece(shared_.buffer.data(), got.count, got.urgent);
  if (put.kind == Kind::kError) return Step::kRefused;
  const std::size_t written = put.kind == Kind::kBytes ? put.count : 0;
  bytes_ += written;
  moved += got.count;
  if (written < got.count) {
    const auto* rest = shared_.buffer.data() + written;
    leftover_.assign(rest, rest + (got.count - written));
    leftover_at_ = 0;
    leftover_urgent_ = got.urgent;
  }
  // A full buffer means that more is waiting: from now on the kernel moves pages instead.
  if (got.count == shared_.buffer.size() && from_.descriptor() >= 0 && to_.descriptor() >= 0)
    take_pipe();
  return Step::kMore;
}

// Without a pipe, or without memory to pay for its capacity, copying continues.
void HalfRelay::take_pipe() {
  pipe_ = shared_.pipes.take();
  small_splices_ = 0;
  if (!pipe_ || shared_.budget == nullptr) return;
  auto charge = MemoryCharge::take(*shared_.budget, MemoryUse::kConnections, pipe_->capacity_bytes,
                                   shared_.budget->limit_bytes() / 2);
  if (charge)
    pipe_charge_ = std::move(*charge);
  else
    leave_splice();
}

HalfRelay::Step HalfRelay::drain_pipe(std::size_t& moved) {
  while (piped_ != 0) {
    if (!to_.writable()) return Step::kIdle;
    const ssize_t n = splice_now(pipe_->read_end.get(), to_.descriptor(), piped_);
    if (n < 0 && errno == EAGAIN) {
      to_.set_not_writable();
      return Step::kIdle;
    }
    if (n <= 0) {
      to_.note_error(errno);
      return Step::kRefused;
    }
    piped_ -= static_cast<std::size_t>(n);
    bytes_ += static_cast<std::size_t>(n);
    moved += static_cast<std::size_t>(n);
  }
  return Step::kMore;
}

HalfRelay::Step HalfRelay::splice_once(std::size_t& moved) {
  if (const Step step = drain_pipe(moved); step != Step::kMore) return step;
  if (!from_.readable()) return Step::kIdle;
  const ssize_t n = splice_now(from_.descriptor(), pipe_->write_end.get(), pipe_->capacity_bytes);
  const int error = n < 0 ? errno : 0;
  // splice(2) moves no urgent byte; if a FIN follows, the result looks like the end of the stream.
  if (n <= 0 && from_.at_urgent_byte()) {
    leave_splice();
    return Step::kMore;
  }
  if (error == EAGAIN) {
    // The pipe is empty, so the socket must be the one that has nothing.
    from_.set_not_readable();
    if (++small_splices_ >= kSmallSplicesMax) leave_splice();
    return Step::kIdle;
  }
  if (n <= 0) {
    // A read tells a FIN from a reset, whose error splice has consumed.
    if (n < 0) from_.note_error(error);
    leave_splice();
    return Step::kMore;
  }
  from_.assume_readable();
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
  pipe_charge_ = {};
  small_splices_ = 0;
}

}  // namespace fairlead::relay
