#include <algorithm>

#include "wire/llc_bodies.h"

namespace fairlead::wire {
namespace {

constexpr std::size_t kHeadBytes = 4;
constexpr std::size_t kRkeyEntryBytes = 16;
constexpr std::size_t kRkeysPerContMax = 2;
constexpr std::size_t kReqAddLinkHeadBytes = 28;
constexpr std::size_t kGidBytes = 16;

RkeyEntry decode_entry(Reader& in) {
  RkeyEntry entry;
  entry.known_rkey = RemoteKey(in.u32());
  entry.new_rkey = RemoteKey(in.u32());
  entry.new_address = RemoteAddress(in.u64());
  return entry;
}

void encode_entry(Writer& out, const RkeyEntry& entry) {
  out.u32(entry.known_rkey.value);
  out.u32(entry.new_rkey.value);
  out.u64(entry.new_address.value);
}

// From byte 44 on.
Result<void> decode_version_2(Reader& in, AddLink& message) {
  message.direct = (in.u8() & 0x80U) != 0;
  in.skip(1);
  message.second_gid.bytes = in.bytes<16>();
  in.skip(8);
  // The count is written in the sender's byte order. It never exceeds 255, so that the one byte
  // that is not zero tells it, whatever the order.
  const std::size_t first = in.u8();
  const std::size_t second = in.u8();
  if (!in.ok()) return Error{Errc::kTruncated, "ADD_LINK"};
  if (first != 0 && second != 0) return Error{Errc::kMalformed, "rkey count"};
  const std::size_t count = first + second;
  if (in.remaining() < count * kRkeyEntryBytes) return Error{Errc::kTruncated, "rkey entries"};
  for (std::size_t i = 0; i < count; ++i) message.rkeys.push(decode_entry(in));
  return {};
}

}  // namespace

Result<LlcBody> decode_add_link(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  AddLink message;
  message.kind = head.kind();
  // Reserved in a request, and the reason in what rejects nothing.
  message.rejected = message.kind == LlcKind::kResponse && (head.flags & kAddLinkReject) != 0;
  if (message.rejected) message.reject_reason = head.reject_reason;
  message.mac.bytes = in.bytes<6>();
  in.skip(2);
  message.gid.bytes = in.bytes<16>();
  message.queue_pair = QpNumber(in.u24());
  message.link = LinkNumber(in.u8());
  message.mtu_code = static_cast<std::uint8_t>(in.u8() & 0x0fU);
  message.first_psn = PacketSeq(in.u24());
  in.skip(8);
  if (head.version == LlcVersion::k2 && !message.rejected) SMC_TRY(decode_version_2(in, message));
  SMC_ASSERT(in.ok());
  return LlcBody(message);
}

std::size_t encoded_bytes(LlcVersion version, const AddLink& message) {
  if (version == LlcVersion::k1 || message.rejected) return kLlcBytes;
  return kAddLinkHeadBytes + kRkeyEntryBytes * message.rkeys.count;
}

void encode_body(Writer& out, LlcVersion version, const AddLink& message) {
  SMC_ASSERT(message.mtu_code <= 0x0f, message.mtu_code);
  out.bytes(message.mac.bytes);
  out.zeroes(2);
  out.bytes(message.gid.bytes);
  out.u24(message.queue_pair.value);
  out.u8(message.link.value);
  out.u8(message.mtu_code);
  out.u24(message.first_psn.value);
  out.zeroes(8);
  if (version == LlcVersion::k1 || message.rejected) return;
  out.u8(message.direct ? 0x80 : 0);
  out.zeroes(1);
  out.bytes(message.second_gid.bytes);
  out.zeroes(8);
  out.u8(static_cast<std::uint8_t>(message.rkeys.count));
  out.zeroes(1);
  for (const RkeyEntry& entry : message.rkeys.view()) encode_entry(out, entry);
}

Result<LlcBody> decode_add_link_cont(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  AddLinkCont message;
  message.kind = head.kind();
  message.link = LinkNumber(in.u8());
  message.rkeys_left = in.u8();
  in.skip(2);
  const std::size_t count = std::min<std::size_t>(message.rkeys_left, kRkeysPerContMax);
  for (std::size_t i = 0; i < count; ++i) message.rkeys.push(decode_entry(in));
  SMC_ASSERT(in.ok());
  return LlcBody(message);
}

void encode_body(Writer& out, LlcVersion, const AddLinkCont& message) {
  SMC_ASSERT(message.rkeys.count == std::min<std::size_t>(message.rkeys_left, kRkeysPerContMax),
             message.rkeys.count, message.rkeys_left);
  out.u8(message.link.value);
  out.u8(message.rkeys_left);
  out.zeroes(2);
  for (const RkeyEntry& entry : message.rkeys.view()) encode_entry(out, entry);
}

Result<LlcBody> decode_req_add_link(const LlcHead& head, std::span<const std::byte> body) {
  ReqAddLink message;
  message.rejected = head.kind() == LlcKind::kResponse;
  if (message.rejected) return LlcBody(message);
  Reader in(body);
  in.skip(20);
  const std::size_t count = in.u8();
  in.skip(3);
  if (count > kConfirmGidsMax) return Error{Errc::kMalformed, "GID count"};
  if (in.remaining() < count * kGidBytes) return Error{Errc::kTruncated, "GIDs"};
  for (std::size_t i = 0; i < count; ++i) message.gids.push(Gid{in.bytes<16>()});
  return LlcBody(message);
}

std::size_t encoded_bytes(const ReqAddLink& message) {
  if (message.rejected) return kLlcBytes;
  return std::max(kLlcBytes, kReqAddLinkHeadBytes + kGidBytes * message.gids.count);
}

void encode_body(Writer& out, LlcVersion, const ReqAddLink& message) {
  if (message.rejected) return;
  out.zeroes(kReqAddLinkHeadBytes - kHeadBytes - 4);
  out.u8(static_cast<std::uint8_t>(message.gids.count));
  out.zeroes(3);
  for (const Gid& gid : message.gids.view()) out.bytes(gid.bytes);
}

}  // namespace fairlead::wire
