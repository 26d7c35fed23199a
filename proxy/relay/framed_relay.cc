#include "relay/framed_relay.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace fairlead::relay {
namespace {

using Kind = event::IoResult::Kind;

// In front of the bytes, so that a frame is written in one piece.
constexpr std::size_t kHeadBytes = wire::kFramePreface.size() + wire::kFrameHeaderBytes;
static_assert(kCopyBytes >= kHeadBytes + wire::kFrameBytesMax);

}  // namespace

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
    if (const RelayStep step = send_piece(got.count, got.urgent); step != RelayStep::kMore)
      return step;
    moved += got.count;
    bytes_ += got.count;
  }
  if (!preface_due_) return RelayStep::kIdle;
  // The server may have to speak first.
  preface_due_ = false;
  return send(wire::kFramePreface) == RelayStep::kRefused ? RelayStep::kRefused : RelayStep::kIdle;
}

// The bytes stand in the buffer, behind room for the head.
RelayStep FramedOut::send_piece(std::size_t count, bool urgent) {
  const auto header = urgent ? deferral_.send_urgent() : deferral_.send_data(count);
  std::byte* begin = shared_.buffer.data() + kHeadBytes - header.size();
  std::memcpy(begin, header.data(), header.size());
  if (preface_due_) {
    begin -= wire::kFramePreface.size();
    std::memcpy(begin, wire::kFramePreface.data(), wire::kFramePreface.size());
    preface_due_ = false;
  }
  return send({begin, shared_.buffer.data() + kHeadBytes + count});
}

RelayStep FramedOut::send_end() {
  if (preface_due_ && send(wire::kFramePreface) == RelayStep::kRefused) return RelayStep::kRefused;
  preface_due_ = false;
  const RelayStep step = send(deferral_.send_end());
  return step == RelayStep::kMore ? RelayStep::kEnded : step;
}

// kMore when all has been taken.
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
  if (preface_due_) (void)send(wire::kFramePreface);
  preface_due_ = false;
  // A stream that refuses it says so again when something is read from it.
  (void)send(deferral_.send_hand_over());
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
    if (got.kind != Kind::kBytes) {
      lost_ = true;
      return settle();
    }
    moved += got.count;
    const RelayStep step = take(std::span(shared_.buffer).first(got.count));
    if (step != RelayStep::kMore) return step;
  }
  const RelayStep step = settle();
  return step == RelayStep::kMore ? RelayStep::kIdle : step;
}

// kMore when there may be more to read.
RelayStep FramedIn::take(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Result<smc::Deferral::Piece> piece = deferral_.take(bytes);
    if (!piece) {
      fault_ = piece.error().what;
      lost_ = true;
      break;
    }
    bytes = bytes.subspan(piece->taken);
    using PieceKind = smc::Deferral::Piece::Kind;
    if (piece->kind == PieceKind::kHandOver) {
      behind_.assign(bytes.begin(), bytes.end());
      break;
    }
    if (piece->kind != PieceKind::kData && piece->kind != PieceKind::kUrgent) continue;
    if (waiting_.write(app_, piece->bytes, piece->kind == PieceKind::kUrgent) ==
        Backlog::State::kRefused) {
      refused_ = true;
      break;
    }
  }
  return settle();
}

RelayStep FramedIn::settle() {
  if (!refused_) refused_ = waiting_.flush(app_) == Backlog::State::kRefused;
  if (refused_) return RelayStep::kRefused;
  if (!waiting_.empty())
    return deferral_.unbounded() || lost_ ? RelayStep::kIdle : RelayStep::kMore;
  if (deferral_.peer_ended() && !finished_) {
    finished_ = true;
    app_.shutdown_write();
  }
  if (lost_) return RelayStep::kReset;
  // Both ends close when both directions have ended. A reset is looked for until then.
  return finished_ && (deferral_.ended() || !net_.readable()) ? RelayStep::kEnded
                                                              : RelayStep::kMore;
}

}  // namespace fairlead::relay
