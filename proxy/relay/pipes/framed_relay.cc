#include "relay/pipes/framed_relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace fairlead::relay {
namespace {

using Kind = event::IoResult::Kind;

// Room before the bytes, so that a frame is written in one piece.
constexpr std::size_t kWindowFrameBytes = wire::kFrameHeaderBytes + wire::kHandOverBodyBytes;
constexpr std::size_t kHeadBytes =
    wire::kFramePreface.size() + kWindowFrameBytes + wire::kFrameHeaderBytes;
static_assert(kCopyBytes >= kHeadBytes + wire::kFrameBytesMax);
// A part of a frame counts as at least this many bytes of a turn. A peer may send frames of one
// byte, whose headers take the time then.
constexpr std::size_t kPartCostBytes = 64;

// Sends bytes so that a shutdown right afterwards puts its FIN into the same segment. Returns how
// many were sent; the caller writes the rest.
std::size_t send_with_fin(event::Stream& to, std::span<const std::byte> bytes) {
  if (to.descriptor() < 0 || !to.writable()) return 0;
  const ssize_t sent =
      ::send(to.descriptor(), bytes.data(), bytes.size(), MSG_MORE | MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno != EAGAIN && errno != EINTR) to.note_error(errno);
  return 0;
}

}  // namespace

void FramedOut::resume(ParkedFrames& parked) {
  waiting_ = Backlog(std::move(parked.to_net));
  bytes_ = parked.app_bytes;
  preface_due_ = parked.preface_due;
}

void FramedOut::park(ParkedFrames& into) {
  if (window_due_) (void)send_due();
  into.app_bytes = bytes_;
  into.preface_due = preface_due_;
  into.to_net = waiting_.release();
}

RelayStep FramedOut::pump() {
  switch (waiting_.flush(net_)) {
    case Backlog::State::kRefused:
      return RelayStep::kRefused;
    case Backlog::State::kWaiting:
      return RelayStep::kIdle;
    case Backlog::State::kEmpty:
      break;
  }
  if (deferral_.ended()) return RelayStep::kEnded;
  std::size_t moved = 0;
  while (app_.readable() && waiting_.empty()) {
    const std::size_t room = std::min(deferral_.room(), copy_bytes_);
    if (room == 0) break;
    if (moved >= kTurnBytesMax) return RelayStep::kMore;
    const iovec into{shared_.buffer.data() + kHeadBytes, room};
    const event::IoResult got = app_.read({&into, 1});
    if (got.kind == Kind::kError) return RelayStep::kReset;
    if (got.kind == Kind::kEnd) return send_end();
    if (got.kind == Kind::kWouldBlock) break;
    moved += got.count;
    bytes_ += got.count;
    if (const RelayStep step = send_piece(got.count, got.urgent); step != RelayStep::kMore)
      return step;
  }
  if (!preface_due_) return RelayStep::kIdle;
  // Send the preface without data: the server may have to speak first.
  return send_due() == RelayStep::kRefused ? RelayStep::kRefused : RelayStep::kIdle;
}

std::byte* FramedOut::put_due(std::byte* end) {
  const auto put = [&end](std::span<const std::byte> bytes) {
    end -= bytes.size();
    std::memcpy(end, bytes.data(), bytes.size());
  };
  if (window_due_)
    put(wire::encode_position(wire::FrameType::kWindow, deferral_.bytes_received_max()));
  window_due_ = false;
  if (preface_due_) put(deferral_.windows() ? wire::kWindowsPreface : wire::kFramePreface);
  preface_due_ = false;
  return end;
}

RelayStep FramedOut::send_due() {
  std::array<std::byte, wire::kFramePreface.size() + kWindowFrameBytes> due;
  std::byte* const end = due.data() + due.size();
  return send({put_due(end), end});
}

void FramedOut::open_window(std::uint64_t max) {
  const auto frame = deferral_.open_window(max);
  if (preface_due_)
    window_due_ = true;
  else if (send(frame) == RelayStep::kRefused)
    net_.assume_readable();  // the stream reports the error at the next read
}

// The bytes are in the buffer, after room for the head.
RelayStep FramedOut::send_piece(std::size_t count, bool urgent) {
  const auto header = urgent ? deferral_.send_urgent() : deferral_.send_data(count);
  std::byte* begin = shared_.buffer.data() + kHeadBytes - header.size();
  std::memcpy(begin, header.data(), header.size());
  begin = put_due(begin);
  return send({begin, shared_.buffer.data() + kHeadBytes + count});
}

RelayStep FramedOut::send_end() {
  if (preface_due_ && send_due() == RelayStep::kRefused) return RelayStep::kRefused;
  const auto frame = deferral_.send_end();
  // After the client's end no handshake can follow. But if the server has ended before, it closes
  // first (relay/connection/close_order.h).
  const bool last = deferral_.unbounded() && !deferral_.peer_ended() && waiting_.empty();
  const std::size_t sent = last ? send_with_fin(net_, frame) : 0;
  if (sent < frame.size())
    if (const RelayStep step = send(std::span(frame).subspan(sent)); step != RelayStep::kMore)
      return step;
  if (last) net_.shutdown_write();
  return RelayStep::kEnded;
}

// kMore when all bytes have been taken.
RelayStep FramedOut::send(std::span<const std::byte> bytes) {
  switch (waiting_.write(net_, bytes, false)) {
    case Backlog::State::kRefused:
      return RelayStep::kRefused;
    case Backlog::State::kWaiting:
      return RelayStep::kIdle;
    case Backlog::State::kEmpty:
      return RelayStep::kMore;
  }
  return RelayStep::kIdle;
}

void FramedOut::hand_over() {
  if (preface_due_) (void)send_due();
  // A stream that refuses the hand-over reports this at the next read. No event follows.
  if (send(deferral_.send_hand_over()) == RelayStep::kRefused) net_.assume_readable();
}

void FramedIn::resume(ParkedFrames& parked) {
  before_bytes_ = bytes_before_frames(parked);
  before_until_ = parked.to_app.written + before_bytes_;
  waiting_ = Backlog(std::move(parked.to_app));
  behind_ = std::move(parked.behind);
  discards_ = parked.app_refuses;
  finished_ = parked.app_finished;
  lost_ = parked.peer_lost;
}

void FramedIn::park(ParkedFrames& into) {
  into.app_refuses = discards_;
  into.app_finished = finished_;
  into.to_app = waiting_.release();
  into.behind = std::move(behind_);
  into.peer_over = peer_over_;
  into.peer_lost = lost_;
  if (!lost_) return;
  // The stream broke off within a frame, or between two.
  into.rules.head_bytes = into.rules.body_left = 0;
  into.rules.urgent = false;
}

RelayStep FramedIn::pump() {
  if (const RelayStep step = settle(); step != RelayStep::kMore) return step;
  std::size_t moved = 0;
  while (net_.readable() && !deferral_.peer_handed_over()) {
    if (deferral_.unbounded() && !waiting_.empty()) break;
    if (moved >= kTurnBytesMax) return RelayStep::kMore;
    const iovec into{shared_.buffer.data(), shared_.buffer.size()};
    const event::IoResult got = net_.read({&into, 1});
    if (got.kind == Kind::kWouldBlock) break;
    // After our hand-over the peer owes its own. After the peer's FIN a reset may follow.
    if (got.kind == Kind::kEnd && deferral_.peer_ended() && !deferral_.handed_over() &&
        net_.take_error() == 0)
      break;
    if (got.kind != Kind::kBytes) {
      lost_ = true;
      return settle();
    }
    const std::uint64_t parts_before = parts_;
    const RelayStep step = take(std::span(shared_.buffer).first(got.count));
    moved += got.count + (parts_ - parts_before) * kPartCostBytes;
    if (step != RelayStep::kMore) return step;
  }
  if (peer_over_) lost_ = lost_ || !net_.readable() || deferral_.peer_handed_over();
  const RelayStep step = settle();
  return step == RelayStep::kMore ? RelayStep::kIdle : step;
}

// kMore if there may be more to read.
RelayStep FramedIn::take(std::span<std::byte> bytes) {
  // The data of all frames is moved together, so that small frames cost the peer more than us.
  std::byte* data = nullptr;
  std::size_t count = 0;
  std::optional<std::size_t> urgent_at;
  while (!bytes.empty()) {
    const Result<smc::Deferral::Piece> piece = deferral_.take(bytes);
    ++parts_;
    if (!piece) {
      fault_ = piece.error().what;
      lost_ = true;
      break;
    }
    using PieceKind = smc::Deferral::Piece::Kind;
    if (piece->kind == PieceKind::kData || piece->kind == PieceKind::kUrgent) {
      if (count == 0)
        data = bytes.data();
      else
        std::memmove(data + count, bytes.data(), piece->bytes.size());
      if (piece->kind == PieceKind::kUrgent) urgent_at = count;
      count += piece->bytes.size();
    }
    bytes = bytes.subspan(piece->taken);
    if (piece->kind == PieceKind::kHandOver) {
      behind_.assign(bytes.begin(), bytes.end());
      break;
    }
  }
  deliver({data, count}, urgent_at);
  return settle();
}

void FramedIn::deliver(std::span<const std::byte> bytes, std::optional<std::size_t> urgent_at) {
  const auto write = [&](std::span<const std::byte> part, bool urgent) {
    if (part.empty() || refused_ || discards_) return;
    refused_ = waiting_.write(app_, part, urgent) == Backlog::State::kRefused;
  };
  if (urgent_at) {
    write(bytes.first(*urgent_at), false);
    write(bytes.subspan(*urgent_at, 1), true);
    bytes = bytes.subspan(*urgent_at + 1);
  }
  write(bytes, false);
}

RelayStep FramedIn::settle() {
  if (!refused_) refused_ = waiting_.flush(app_) == Backlog::State::kRefused;
  if (refused_ && deferral_.held()) {
    // The next relay reads what the application sent before it went.
    discard();
    app_.assume_readable();
  }
  if (refused_) return RelayStep::kRefused;
  if (!waiting_.empty())
    return deferral_.unbounded() || lost_ ? RelayStep::kIdle : RelayStep::kMore;
  if (deferral_.peer_ended() && !finished_) {
    finished_ = true;
    app_.shutdown_write();
  }
  if (lost_) return RelayStep::kReset;
  // The connection closes when both directions have ended. Until then, a reset is looked for. An
  // end that was told over SMC-R is repeated by the peer in a frame.
  return finished_ && deferral_.peer_ended() && (deferral_.ended() || !net_.readable())
             ? RelayStep::kEnded
             : RelayStep::kMore;
}

}  // namespace fairlead::relay
