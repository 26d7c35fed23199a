#include "wire/frame.h"

#include <algorithm>

#include "wire/reader.h"
#include "wire/writer.h"

namespace fairlead::wire {

std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  Writer out(bytes);
  out.u8(static_cast<std::uint8_t>(header.type));
  out.u24(header.body_bytes);
  return bytes;
}

Result<FrameHeader> decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::uint8_t type = load_u8(bytes.first<1>());
  const std::uint32_t length = load_be24(bytes.last<3>());
  bool fits = false;
  switch (static_cast<FrameType>(type)) {
    case FrameType::kData:
      fits = length != 0 && length <= kFrameBytesMax;
      break;
    case FrameType::kUrgent:
      fits = length == 1;
      break;
    case FrameType::kEnd:
    case FrameType::kReturned:
      fits = length == 0;
      break;
    case FrameType::kHandOver:
    case FrameType::kReturn:
    case FrameType::kWindow:
      fits = length == kHandOverBodyBytes;
      break;
    default:
      return Error{Errc::kMalformed, "frame type"};
  }
  if (!fits) return Error{Errc::kMalformed, "frame length"};
  return FrameHeader{static_cast<FrameType>(type), length};
}

std::array<std::byte, kFrameHeaderBytes + kHandOverBodyBytes> encode_position(
    FrameType type, std::uint64_t position) {
  std::array<std::byte, kFrameHeaderBytes + kHandOverBodyBytes> bytes;
  const auto header = encode_frame_header({type, kHandOverBodyBytes});
  std::copy(header.begin(), header.end(), bytes.begin());
  const std::span<std::byte> rest = std::span(bytes).subspan(kFrameHeaderBytes);
  Writer body(rest);
  body.u64(position);
  return bytes;
}

}  // namespace fairlead::wire
