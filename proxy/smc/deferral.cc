#include "smc/deferral.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "wire/reader.h"

namespace fairlead::smc {

using wire::FrameType;

Result<Deferral::Piece> Deferral::take(std::span<const std::byte> bytes) {
  if (bytes.empty() || received_.handed_over) return Piece{};
  if (body_left_ == 0) return take_header(bytes);
  const std::size_t count = std::min<std::size_t>(body_left_, bytes.size());
  body_left_ -= static_cast<std::uint32_t>(count);
  received_.bytes += count;
  answered_ = true;
  return Piece{urgent_ ? Piece::Kind::kUrgent : Piece::Kind::kData, count, bytes.first(count)};
}

Result<Deferral::Piece> Deferral::take_header(std::span<const std::byte> bytes) {
  Piece piece;
  const auto fill = [&](std::size_t wanted) {
    const std::size_t count = std::min(wanted - head_bytes_, bytes.size() - piece.taken);
    std::memcpy(head_.data() + head_bytes_, bytes.data() + piece.taken, count);
    head_bytes_ += count;
    piece.taken += count;
    return head_bytes_ >= wanted;
  };
  if (head_bytes_ < wire::kFrameHeaderBytes && !fill(wire::kFrameHeaderBytes)) return piece;
  const wire::FrameHeader header =
      SMC_TRY(wire::decode_frame_header(std::span(head_).first<wire::kFrameHeaderBytes>()));
  SMC_TRY(judge(header));
  switch (header.type) {
    case FrameType::kData:
    case FrameType::kUrgent:
      body_left_ = header.body_bytes;
      urgent_ = header.type == FrameType::kUrgent;
      break;
    case FrameType::kEnd:
      received_.ended = true;
      piece.kind = Piece::Kind::kEnd;
      break;
    case FrameType::kHandOver:
      if (!fill(head_.size())) return piece;
      if (wire::load_be64(std::span(head_).last<wire::kHandOverBodyBytes>()) != received_.bytes)
        return Error{Errc::kMalformed, "hand-over: not the position of the stream"};
      received_.handed_over = true;
      piece.kind = Piece::Kind::kHandOver;
      break;
  }
  head_bytes_ = 0;
  return piece;
}

Result<void> Deferral::judge(const wire::FrameHeader& header) const {
  const bool data = header.type == FrameType::kData || header.type == FrameType::kUrgent;
  if (header.type == FrameType::kHandOver) {
    if (role_ == Role::kClient && !sent_.handed_over)
      return Error{Errc::kMalformed, "hand-over: a server's without the client's"};
    if (role_ == Role::kServer && received_.ended)
      return Error{Errc::kMalformed, "hand-over: behind the end"};
    return {};
  }
  if (received_.ended) return Error{Errc::kMalformed, "frame behind the end"};
  if (data && !unbounded() && received_.bytes + header.body_bytes > kFramedBytesMax)
    return Error{Errc::kMalformed, "more in frames than is allowed"};
  return {};
}

std::size_t Deferral::room() const {
  if (sent_.ended || sent_.handed_over) return 0;
  if (unbounded()) return wire::kFrameBytesMax;
  return std::min<std::uint64_t>(kFramedBytesMax - sent_.bytes, wire::kFrameBytesMax);
}

std::array<std::byte, wire::kFrameHeaderBytes> Deferral::send_data(std::size_t count) {
  SMC_ASSERT(count != 0 && count <= room(), count, sent_.bytes);
  sent_.bytes += count;
  turns_ += answered_ ? 1U : 0U;
  answered_ = false;
  return wire::encode_frame_header({FrameType::kData, static_cast<std::uint32_t>(count)});
}

std::array<std::byte, wire::kFrameHeaderBytes> Deferral::send_urgent() {
  send_data(1);
  return wire::encode_frame_header({FrameType::kUrgent, 1});
}

std::array<std::byte, wire::kFrameHeaderBytes> Deferral::send_end() {
  SMC_ASSERT(!sent_.ended && !sent_.handed_over);
  sent_.ended = true;
  return wire::encode_frame_header({FrameType::kEnd, 0});
}

std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes>
Deferral::send_hand_over() {
  SMC_ASSERT(may_hand_over());
  sent_.handed_over = true;
  return wire::encode_hand_over(sent_.bytes);
}

bool Deferral::may_hand_over() const {
  if (sent_.handed_over) return false;
  return role_ == Role::kClient ? !sent_.ended : received_.handed_over;
}

bool Deferral::earned(TimePoint now) const {
  if (role_ == Role::kServer || !may_hand_over()) return false;
  return sent_.bytes + received_.bytes >= limits_.bytes || turns_ >= limits_.turns ||
         now - began_ >= limits_.time;
}

}  // namespace fairlead::smc
