#include <algorithm>

#include "wire/llc_bodies.h"

namespace fairlead::wire {
namespace {

constexpr std::size_t kDeleteRkeysMaxV1 = 8;
constexpr std::size_t kDeleteRkeyHeadBytes = 8;

// As many of `count` links as one message holds; the number of those that it does not hold.
template <std::size_t N>
std::uint8_t read_links(Reader& in, std::size_t count, BoundedList<RkeyOnLink, N>& links) {
  for (std::size_t i = 0; i < std::min(count, N); ++i) {
    RkeyOnLink link;
    link.link = LinkNumber(in.u8());
    link.rkey = RemoteKey(in.u32());
    link.address = RemoteAddress(in.u64());
    links.push(link);
  }
  return static_cast<std::uint8_t>(count - links.count);
}

void write_links(Writer& out, std::span<const RkeyOnLink> links) {
  for (const RkeyOnLink& link : links) {
    out.u8(link.link.value);
    out.u32(link.rkey.value);
    out.u64(link.address.value);
  }
}

// What the count of the message says.
template <std::size_t N>
std::uint8_t links_left(const BoundedList<RkeyOnLink, N>& links, std::uint8_t to_follow) {
  SMC_ASSERT(to_follow == 0 || links.count == N, to_follow);
  SMC_ASSERT(links.count + to_follow <= kOtherLinksMax, to_follow);
  return static_cast<std::uint8_t>(links.count + to_follow);
}

template <class Message>
Message read_confirm_head(const LlcHead& head) {
  Message message;
  message.kind = head.kind();
  if (message.kind == LlcKind::kRequest) return message;  // both are reserved there
  message.refused = (head.flags & kConfirmRkeyRefused) != 0;
  message.retry = (head.flags & kConfirmRkeyRetry) != 0;
  return message;
}

}  // namespace

Result<LlcBody> decode_confirm_rkey(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  auto message = read_confirm_head<ConfirmRkey>(head);
  const std::size_t count = in.u8();
  if (count > kOtherLinksMax) return Error{Errc::kMalformed, "link count"};
  message.rkey = RemoteKey(in.u32());
  message.address = RemoteAddress(in.u64());
  message.to_follow = read_links(in, count, message.others);
  SMC_ASSERT(in.ok());
  return LlcBody(message);
}

void encode_body(Writer& out, LlcVersion, const ConfirmRkey& message) {
  out.u8(links_left(message.others, message.to_follow));
  out.u32(message.rkey.value);
  out.u64(message.address.value);
  write_links(out, message.others.view());
}

Result<LlcBody> decode_confirm_rkey_cont(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  auto message = read_confirm_head<ConfirmRkeyCont>(head);
  const std::size_t count = in.u8();
  if (count == 0 || count > kOtherLinksMax) return Error{Errc::kMalformed, "link count"};
  message.to_follow = read_links(in, count, message.others);
  SMC_ASSERT(in.ok());
  return LlcBody(message);
}

void encode_body(Writer& out, LlcVersion, const ConfirmRkeyCont& message) {
  SMC_ASSERT(message.others.count > 0);
  out.u8(links_left(message.others, message.to_follow));
  write_links(out, message.others.view());
}

Result<LlcBody> decode_delete_rkey(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  DeleteRkey message;
  message.kind = head.kind();
  const bool is_response = message.kind == LlcKind::kResponse;  // else both are reserved
  message.some_unknown = is_response && (head.flags & kDeleteRkeyUnknown) != 0;
  const std::size_t count = in.u8();
  const std::uint8_t error_mask = in.u8();
  if (is_response) message.error_mask = error_mask;
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
