#include "smc/frames/return_to_frames.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/reader.h"

namespace fairlead::smc {

using wire::FrameType;

Result<std::size_t> ReturnToFrames::take(std::span<const std::byte> bytes) {
  std::size_t taken = 0;
  const auto fill = [&](std::size_t wanted) {
    const std::size_t count = std::min(wanted - head_bytes_, bytes.size() - taken);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(taken), count,
                head_.begin() + static_cast<std::ptrdiff_t>(head_bytes_));
    head_bytes_ += count;
    taken += count;
    return head_bytes_ == wanted;
  };
  while (taken < bytes.size() && !peer_has_all_) {
    if (head_bytes_ < wire::kFrameHeaderBytes && !fill(wire::kFrameHeaderBytes)) break;
    const wire::FrameHeader header =
        SMC_TRY(wire::decode_frame_header(std::span(head_).first<wire::kFrameHeaderBytes>()));
    const FrameType expected = peer_sent_ ? FrameType::kReturned : FrameType::kReturn;
    if (header.type != expected) return Error{Errc::kMalformed, "return: another frame"};
    if (header.type == FrameType::kReturn) {
      if (!fill(head_.size())) break;
      peer_sent_ = wire::load_be64(std::span(head_).last<wire::kHandOverBodyBytes>());
    } else {
      if (!said_return_) return Error{Errc::kMalformed, "return: the end without a beginning"};
      peer_has_all_ = true;
    }
    head_bytes_ = 0;
  }
  return taken;
}

std::array<std::byte, wire::kFrameHeaderBytes + wire::kHandOverBodyBytes>
ReturnToFrames::send_return(std::uint64_t sent) {
  SMC_ASSERT(!said_return_, sent);
  said_return_ = true;
  return wire::encode_position(FrameType::kReturn, sent);
}

std::array<std::byte, wire::kFrameHeaderBytes> ReturnToFrames::send_returned() {
  SMC_ASSERT(peer_sent_ && said_return_ && !said_returned_);
  said_returned_ = true;
  return wire::encode_frame_header({FrameType::kReturned, 0});
}

}  // namespace fairlead::smc
