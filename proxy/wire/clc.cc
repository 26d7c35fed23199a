#include "wire/clc.h"

#include <algorithm>

#include "wire/clc_frame.h"

namespace fairlead::wire {
namespace {

constexpr std::size_t kDeclineBytesV1 = 28;
constexpr std::size_t kDeclineBytesV2 = 44;

// The smallest message of its type. SMC-D's Accept and Confirm are shorter than SMC-R's; they have
// to pass here so that they can be told from garbage and declined.
constexpr std::size_t length_min(ClcType type, bool v1) {
  switch (type) {
    case ClcType::kProposal:
      return v1 ? 52 : 84;
    case ClcType::kAccept:
    case ClcType::kConfirm:
      return v1 ? 48 : 78;
    case ClcType::kDecline:
      return v1 ? kDeclineBytesV1 : kDeclineBytesV2;
  }
  SMC_UNREACHABLE();
}

}  // namespace

Result<ClcHeader> decode_clc_header(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const std::uint32_t eyecatcher = in.u32();
  const std::uint8_t type = in.u8();
  const std::uint16_t length = in.u16();
  const unsigned version = in.u8() >> 4U;
  if (!in.ok()) return Error{Errc::kTruncated, "CLC header"};
  if (!is_eyecatcher(eyecatcher)) return Error{Errc::kMalformed, "CLC eyecatcher"};
  if (type < 1 || type > 4) return Error{Errc::kMalformed, "CLC type"};
  if (version < 1) return Error{Errc::kMalformed, "CLC version"};
  ClcHeader header;
  header.type = static_cast<ClcType>(type);
  header.length_bytes = length;
  header.version = version == 1 ? 1 : 2;
  if (length < length_min(header.type, version == 1) || length > kClcBytesMax)
    return Error{Errc::kMalformed, "CLC length"};
  return header;
}

bool may_be_clc(std::span<const std::byte> bytes) {
  std::array<std::byte, 4> prefix{};
  const auto starts_like = [&](std::uint32_t eyecatcher) {
    store_be32(prefix, eyecatcher);
    const std::size_t count = std::min(bytes.size(), prefix.size());
    return std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count),
                      prefix.begin());
  };
  return starts_like(kEyecatcherSmcr) || starts_like(kEyecatcherSmcd);
}

Result<ClcFrame> decode_clc_frame(std::span<const std::byte> message, Trailer trailer) {
  ClcFrame frame;
  frame.header = SMC_TRY(decode_clc_header(message));
  const std::size_t length = frame.header.length_bytes;
  if (message.size() < length) return Error{Errc::kTruncated, "CLC message"};
  if (message.size() > length) return Error{Errc::kMalformed, "CLC length"};
  if (trailer == Trailer::kChecked && !is_eyecatcher(load_be32(message.last<4>())))
    return Error{Errc::kMalformed, "CLC trailer"};
  const std::uint8_t bits = load_u8(message.subspan<7, 1>());
  frame.flag = (bits & kClcFlag) != 0;
  frame.selector1 = bits & 0x03U;
  frame.selector2 = (bits >> 2U) & 0x03U;
  frame.body = message.subspan(kClcHeaderBytes, length - kClcHeaderBytes - kClcTrailerBytes);
  return frame;
}

void encode_clc_header(Writer& out, ClcType type, std::size_t length_bytes, std::uint8_t version,
                       unsigned low_bits) {
  SMC_ASSERT(version == 1 || version == 2, version);
  out.u32(kEyecatcherSmcr);
  out.u8(static_cast<std::uint8_t>(type));
  out.u16(static_cast<std::uint16_t>(length_bytes));
  out.u8(static_cast<std::uint8_t>(unsigned{version} << 4U | low_bits));
}

PeerOs peer_os_from(unsigned nibble) {
  return nibble <= static_cast<unsigned>(PeerOs::kAix) ? static_cast<PeerOs>(nibble)
                                                       : PeerOs::kUnknown;
}

Result<Decline> decode_decline(std::span<const std::byte> message) {
  // Whoever declines wants to go on with TCP, which is what we do with a broken trailer and with
  // any reserved bits of byte 7 as well.
  const ClcFrame frame = SMC_TRY(decode_clc_frame(message, Trailer::kIgnored));
  if (frame.header.type != ClcType::kDecline) return Error{Errc::kMalformed, "CLC type"};
  const bool v1 = frame.header.version == 1;
  if (message.size() != (v1 ? kDeclineBytesV1 : kDeclineBytesV2))
    return Error{Errc::kMalformed, "CLC length"};
  Reader in(frame.body);
  Decline decline;
  decline.version = frame.header.version;
  decline.out_of_sync = frame.flag;
  decline.peer_id.bytes = in.bytes<8>();
  decline.reason = in.u32();
  decline.os = v1 ? PeerOs::kUnknown : peer_os_from(in.u8() >> 4U);
  SMC_ASSERT(in.ok());
  return decline;
}

std::size_t encode(const Decline& decline, std::span<std::byte, kDeclineBytesMax> out) {
  const bool v1 = decline.version == 1;
  const std::size_t length = v1 ? kDeclineBytesV1 : kDeclineBytesV2;
  Writer writer(out);
  encode_clc_header(writer, ClcType::kDecline, length, decline.version,
                    decline.out_of_sync ? kClcFlag : 0U);
  writer.bytes(decline.peer_id.bytes);
  writer.u32(decline.reason);
  writer.u8(v1 ? std::uint8_t{0}
               : static_cast<std::uint8_t>(static_cast<unsigned>(decline.os) << 4U));
  writer.zeroes_until(length - kClcTrailerBytes);
  encode_clc_trailer(writer);
  return writer.written();
}

}  // namespace fairlead::wire
