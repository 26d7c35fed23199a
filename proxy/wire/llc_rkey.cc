#include <algorithm>

#include "wire/llc_bodies.h"

namespace fairlead::wire {
namespace {

constexpr std::size_t kOtherLinksMax = 2;
constexpr std::size_t kDeleteRkeysMaxV1 = 8;
constexpr std::size_t kDeleteRkeyHeadBytes = 8;

}  // namespace

Result<LlcBody> decode_confirm_rkey(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  ConfirmRkey message;
  message.kind = head.kind();
  message.refused = (head.flags & kConfirmRkeyRefused) != 0;
  message.retry = (head.flags & kConfirmRkeyRetry) != 0;
  const std::size_t count = in.u8();
  if (count > kOtherLinksMax) return Error{Errc::kMalformed, "link count"};
  message.rkey = RemoteKey(in.u32());
  message.address = RemoteAddress(in.u64());
  for (std::size_t i = 0; i < count; ++i) {
    RkeyOnLink other;
    other.link = LinkNumber(in.u8());
    other.rkey = RemoteKey(in.u32());
    other.address = RemoteAddress(in.u64());
    message.others.push(other);
  }
  SMC_ASSERT(in.ok());
  return LlcBody(message);
}

void encode_body(Writer& out, LlcVersion, const ConfirmRkey& message) {
  out.u8(static_cast<std::uint8_t>(message.others.count));
  out.u32(message.rkey.value);
  out.u64(message.address.value);
  for (const RkeyOnLink& other : message.others.view()) {
    out.u8(other.link.value);
    out.u32(other.rkey.value);
    out.u64(other.address.value);
  }
}

Result<LlcBody> decode_delete_rkey(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  DeleteRkey message;
  message.kind = head.kind();
  message.some_unknown = (head.flags & kDeleteRkeyUnknown) != 0;
  const std::size_t count = in.u8();
  message.error_mask = in.u8();
  in.skip(2);
  if (count == 0 || (head.version == LlcVersion::k1 && count > kDeleteRkeysMaxV1))
    return Error{Errc::kMalformed, "rkey count"};
  if (in.remaining() < count * 4) return Error{Errc::kTruncated, "rkeys"};
  for (std::size_t i = 0; i < count; ++i) message.rkeys.push(RemoteKey(in.u32()));
  return LlcBody(message);
}

std::size_t encoded_bytes(const DeleteRkey& message) {
  return std::max(kLlcBytes, kDeleteRkeyHeadBytes + 4 * message.rkeys.count);
}

void encode_body(Writer& out, LlcVersion version, const DeleteRkey& message) {
  SMC_ASSERT(message.rkeys.count > 0);
  SMC_ASSERT(version == LlcVersion::k2 || message.rkeys.count <= kDeleteRkeysMaxV1,
             message.rkeys.count);
  out.u8(static_cast<std::uint8_t>(message.rkeys.count));
  out.u8(message.error_mask);
  out.zeroes(2);
  for (const RemoteKey& rkey : message.rkeys.view()) out.u32(rkey.value);
}

}  // namespace fairlead::wire
