#include "smc/frames/deferral.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "wire/reader.h"

namespace fairlead::smc {

using wire::FrameType;

Deferral::Deferral(Role role, const Limits& limits, TimePoint began, Windows windows)
    : role_(role), limits_(limits), began_(began) {
  state_.windows = windows == Windows::kKnown;
  state_.sent_max = state_.received_max = first_window_bytes(windows);
}

Result<Deferral> Deferral::resume(Role role, const Limits& limits, TimePoint began,
                                  const State& state) {
  Deferral resumed(role, limits, began);
  resumed.state_ = state;
  const auto impossible = [&]() -> const char* {
    const bool bounded = !resumed.unbounded();
    if (state.body_left > wire::kFrameBytesMax || (state.urgent && state.body_left > 1))
      return "more of a frame than one can have";
    for (const std::uint64_t max : {state.sent_max, state.received_max})
      if (max > kFramedBytesMax || (!state.windows && max != kFramedBytesMax))
        return "windows: more than frames may carry, or none";
    if (bounded &&
        (state.sent.bytes > state.sent_max || state.received.bytes > state.received_max ||
         state.received.bytes + state.body_left > state.received_max))
      return "more in frames than is allowed";
    if ((state.received.ended || state.received.handed_over) && state.body_left != 0)
      return "a frame behind the last";
    // A client hands over only before its end. A server's hand-over may follow its own.
    const Half& of_client = role == Role::kClient ? state.sent : state.received;
    if (of_client.ended && of_client.handed_over) return "hand-over: behind the end";
    if (role == Role::kServer && state.sent.handed_over && !state.received.handed_over)
      return "hand-over: a server's without the client's";
    if (role == Role::kClient && state.received.handed_over && !state.sent.handed_over)
      return "hand-over: a server's without the client's";
    if (state.head_bytes >= state.head.size() || (state.head_bytes != 0 && state.body_left != 0))
      return "more of a header than one can have";
    if (state.head_bytes < wire::kFrameHeaderBytes) return nullptr;
    const auto header =
        wire::decode_frame_header(std::span(state.head).first<wire::kFrameHeaderBytes>());
    const bool position = header && (header->type == FrameType::kHandOver ||
                                     (header->type == FrameType::kWindow && state.windows));
    return position ? nullptr : "a header of no hand-over";
  };
  if (const char* const what = impossible()) return Error{Errc::kMalformed, what};
  return resumed;
}

Result<Deferral::Piece> Deferral::take(std::span<const std::byte> bytes) {
  if (bytes.empty() || state_.received.handed_over) return Piece{};
  if (state_.body_left == 0) return take_header(bytes);
  const std::size_t count = std::min<std::size_t>(state_.body_left, bytes.size());
  state_.body_left -= static_cast<std::uint32_t>(count);
  state_.received.bytes += count;
  state_.answered = true;
  return Piece{state_.urgent ? Piece::Kind::kUrgent : Piece::Kind::kData, count,
               bytes.first(count)};
}

Result<Deferral::Piece> Deferral::take_header(std::span<const std::byte> bytes) {
  Piece piece;
  const auto fill = [&](std::size_t wanted) {
    const std::size_t count = std::min(wanted - state_.head_bytes, bytes.size() - piece.taken);
    std::memcpy(state_.head.data() + state_.head_bytes, bytes.data() + piece.taken, count);
    state_.head_bytes += count;
    piece.taken += count;
    return state_.head_bytes >= wanted;
  };
  if (state_.head_bytes < wire::kFrameHeaderBytes && !fill(wire::kFrameHeaderBytes)) return piece;
  const wire::FrameHeader header =
      SMC_TRY(wire::decode_frame_header(std::span(state_.head).first<wire::kFrameHeaderBytes>()));
  SMC_TRY(judge(header));
  switch (header.type) {
    case FrameType::kData:
    case FrameType::kUrgent:
      state_.body_left = header.body_bytes;
      state_.urgent = header.type == FrameType::kUrgent;
      break;
    case FrameType::kEnd:
      state_.received.ended = true;
      piece.kind = Piece::Kind::kEnd;
      break;
    case FrameType::kHandOver:
      if (!fill(state_.head.size())) return piece;
      if (wire::load_be64(std::span(state_.head).last<wire::kHandOverBodyBytes>()) !=
          state_.received.bytes)
        return Error{Errc::kMalformed, "hand-over: not the position of the stream"};
      state_.received.handed_over = true;
      piece.kind = Piece::Kind::kHandOver;
      break;
    case FrameType::kWindow:
      if (!fill(state_.head.size())) return piece;
      SMC_TRY(
          take_window(wire::load_be64(std::span(state_.head).last<wire::kHandOverBodyBytes>())));
      break;
    case FrameType::kReturn:
    case FrameType::kReturned:
      break;  // judge() refuses them
  }
  state_.head_bytes = 0;
  return piece;
}

Result<void> Deferral::take_window(std::uint64_t max) {
  if (max <= state_.sent_max || max > kFramedBytesMax)
    return Error{Errc::kMalformed, "window: not larger, or larger than is allowed"};
  state_.sent_max = max;
  return {};
}

Result<void> Deferral::judge(const wire::FrameHeader& header) const {
  if (header.type == FrameType::kReturn || header.type == FrameType::kReturned)
    return Error{Errc::kMalformed, "return: the connection is in frames"};
  const bool data = header.type == FrameType::kData || header.type == FrameType::kUrgent;
  if (header.type == FrameType::kHandOver) {
    if (role_ == Role::kClient && !state_.sent.handed_over)
      return Error{Errc::kMalformed, "hand-over: a server's without the client's"};
    if (role_ == Role::kServer && state_.received.ended)
      return Error{Errc::kMalformed, "hand-over: behind the end"};
    return {};
  }
  // A side that has ended still receives, so it may open the window.
  if (header.type == FrameType::kWindow) {
    if (!state_.windows) return Error{Errc::kMalformed, "window: the connection has none"};
    return {};
  }
  if (state_.received.ended) return Error{Errc::kMalformed, "frame behind the end"};
  if (data && !unbounded() && state_.received.bytes + header.body_bytes > state_.received_max)
    return Error{Errc::kMalformed, "more in frames than is allowed"};
  return {};
}

std::size_t Deferral::room() const {
  if (state_.sent.ended || state_.sent.handed_over) return 0;
  if (unbounded()) return wire::kFrameBytesMax;
  // Bytes sent while there was no limit may exceed it.
  if (state_.sent.bytes >= state_.sent_max) return 0;
  return std::min<std::uint64_t>(state_.sent_max - state_.sent.bytes, wire::kFrameBytesMax);
}

bool Deferral::may_open_window() const {
  return state_.windows && !state_.sent.handed_over && !state_.received.ended &&
         !state_.received.handed_over && !unbounded() && state_.received_max < kFramedBytesMax;
}

std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes> Deferral::open_window(
    std::uint64_t max) {
  SMC_ASSERT(may_open_window() && max > state_.received_max && max <= kFramedBytesMax, max,
             state_.received_max);
  state_.received_max = max;
  return wire::encode_position(FrameType::kWindow, max);
}

bool Deferral::window_blocks() const {
  if (!state_.windows || unbounded()) return false;
  return held() || (!state_.received.ended && state_.received.bytes >= state_.received_max);
}

std::array<std::byte, wire::kFrameHeaderBytes> Deferral::send_data(std::size_t count) {
  SMC_ASSERT(count != 0 && count <= room(), count, state_.sent.bytes);
  state_.sent.bytes += count;
  state_.turns += state_.answered ? 1U : 0U;
  state_.answered = false;
  return wire::encode_frame_header({FrameType::kData, static_cast<std::uint32_t>(count)});
}

std::array<std::byte, wire::kFrameHeaderBytes> Deferral::send_urgent() {
  send_data(1);
  return wire::encode_frame_header({FrameType::kUrgent, 1});
}

std::array<std::byte, wire::kFrameHeaderBytes> Deferral::send_end() {
  SMC_ASSERT(!state_.sent.ended && !state_.sent.handed_over);
  state_.sent.ended = true;
  return wire::encode_frame_header({FrameType::kEnd, 0});
}

std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes>
Deferral::send_hand_over() {
  SMC_ASSERT(may_hand_over());
  state_.sent.handed_over = true;
  return wire::encode_position(FrameType::kHandOver, state_.sent.bytes);
}

bool Deferral::may_hand_over() const {
  if (state_.sent.handed_over) return false;
  return role_ == Role::kClient ? !state_.sent.ended : state_.received.handed_over;
}

bool Deferral::earned(TimePoint now) const {
  if (role_ == Role::kServer || !may_hand_over()) return false;
  return state_.sent.bytes + state_.received.bytes >= limits_.bytes ||
         state_.turns >= limits_.turns || now - began_ >= limits_.time;
}

}  // namespace fairlead::smc
