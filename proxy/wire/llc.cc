#include "wire/llc.h"

#include "wire/llc_bodies.h"

namespace fairlead::wire {
namespace {

constexpr std::uint8_t kOpConfirmLink = 1;
constexpr std::uint8_t kOpAddLink = 2;
constexpr std::uint8_t kOpAddLinkCont = 3;
constexpr std::uint8_t kOpDeleteLink = 4;
constexpr std::uint8_t kOpReqAddLink = 5;
constexpr std::uint8_t kOpConfirmRkey = 6;
constexpr std::uint8_t kOpTestLink = 7;
constexpr std::uint8_t kOpConfirmRkeyCont = 8;
constexpr std::uint8_t kOpDeleteRkey = 9;

constexpr std::uint8_t kEyecatcherBits = 0x03;
constexpr std::uint8_t kDeleteLinkAll = 0x40;
constexpr std::uint8_t kDeleteLinkOrderly = 0x20;

constexpr std::uint8_t flag_if(bool set, std::uint8_t flag) { return set ? flag : std::uint8_t{0}; }

constexpr std::uint8_t kind_flag(LlcKind kind) {
  return flag_if(kind == LlcKind::kResponse, kLlcResponse);
}

Result<LlcHead> decode_head(std::span<const std::byte> message) {
  Reader in(message);
  const unsigned type = in.u8();
  const unsigned low_length = in.u8();
  const unsigned third = in.u8();
  LlcHead head;
  head.flags = in.u8();
  if (message.size() < kLlcBytes) return Error{Errc::kTruncated, "LLC message"};
  head.opcode = static_cast<std::uint8_t>(type & 0x0fU);
  switch (type >> 4U) {
    case 0:
      head.version = LlcVersion::k1;
      if (low_length != kLlcBytes) return Error{Errc::kMalformed, "LLC length"};
      head.reject_reason = static_cast<std::uint8_t>(third & 0x0fU);
      return head;
    case 2:
      head.version = LlcVersion::k2;
      return head;
    default:
      return Error{Errc::kUnsupported, "LLC type"};
  }
}

ConfirmLink decode_confirm_link(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  ConfirmLink message;
  message.kind = head.kind();
  message.eyecatcher_flags = static_cast<std::uint8_t>(head.flags & kEyecatcherBits);
  message.mac.bytes = in.bytes<6>();
  message.gid.bytes = in.bytes<16>();
  message.queue_pair = QpNumber(in.u24());
  message.link = LinkNumber(in.u8());
  message.link_user_id = in.u32();
  message.max_links = in.u8();
  // Reserved in version 1.
  const std::uint8_t max_connections = in.u8();
  if (head.version == LlcVersion::k2) message.max_connections = max_connections;
  SMC_ASSERT(in.ok());
  return message;
}

DeleteLink decode_delete_link(const LlcHead& head, std::span<const std::byte> body) {
  Reader in(body);
  DeleteLink message;
  message.kind = head.kind();
  message.all = (head.flags & kDeleteLinkAll) != 0;
  message.orderly = (head.flags & kDeleteLinkOrderly) != 0;
  message.link = LinkNumber(in.u8());
  message.reason = static_cast<DeleteLinkReason>(in.u32());
  SMC_ASSERT(in.ok());
  return message;
}

TestLink decode_test_link(const LlcHead& head, std::span<const std::byte> body) {
  TestLink message;
  message.kind = head.kind();
  for (std::size_t i = 0; i < message.user_data.size(); ++i) message.user_data[i] = body[i];
  return message;
}

Result<LlcBody> decode_body(const LlcHead& head, std::span<const std::byte> body) {
  const bool v1 = head.version == LlcVersion::k1;
  switch (head.opcode) {
    case kOpConfirmLink:
      return LlcBody(decode_confirm_link(head, body));
    case kOpAddLink:
      return decode_add_link(head, body);
    case kOpAddLinkCont:
      if (v1) return decode_add_link_cont(head, body);
      break;
    case kOpDeleteLink:
      return LlcBody(decode_delete_link(head, body));
    case kOpReqAddLink:
      if (!v1) return decode_req_add_link(head, body);
      break;
    case kOpConfirmRkey:
      return decode_confirm_rkey(head, body);
    case kOpTestLink:
      return LlcBody(decode_test_link(head, body));
    case kOpConfirmRkeyCont:
      return decode_confirm_rkey_cont(head, body);
    case kOpDeleteRkey:
      return decode_delete_rkey(head, body);
    default:
      break;
  }
  return Error{Errc::kUnsupported, "LLC type"};
}

void encode_body(Writer& out, LlcVersion, const ConfirmLink& message) {
  out.bytes(message.mac.bytes);
  out.bytes(message.gid.bytes);
  out.u24(message.queue_pair.value);
  out.u8(message.link.value);
  out.u32(message.link_user_id);
  out.u8(message.max_links);
  out.u8(message.max_connections);
}

void encode_body(Writer& out, LlcVersion, const DeleteLink& message) {
  out.u8(message.link.value);
  out.u32(static_cast<std::uint32_t>(message.reason));
}

void encode_body(Writer& out, LlcVersion, const TestLink& message) {
  for (std::byte byte : message.user_data) out.u8(std::to_integer<std::uint8_t>(byte));
}

struct Shape {
  std::uint8_t opcode = 0;
  std::uint8_t flags = 0;
  std::uint8_t reject_reason = 0;
  std::size_t bytes = kLlcBytes;
};

Shape shape_of(LlcVersion, const ConfirmLink& message) {
  const unsigned flags = kind_flag(message.kind) | (message.eyecatcher_flags & kEyecatcherBits);
  return {kOpConfirmLink, static_cast<std::uint8_t>(flags)};
}
Shape shape_of(LlcVersion version, const AddLink& message) {
  const unsigned flags = kind_flag(message.kind) | flag_if(message.rejected, kAddLinkReject);
  return {kOpAddLink, static_cast<std::uint8_t>(flags), message.reject_reason,
          encoded_bytes(version, message)};
}
Shape shape_of(LlcVersion version, const AddLinkCont& message) {
  SMC_ASSERT(version == LlcVersion::k1);
  return {kOpAddLinkCont, kind_flag(message.kind)};
}
Shape shape_of(LlcVersion, const DeleteLink& message) {
  const unsigned flags = kind_flag(message.kind) | flag_if(message.all, kDeleteLinkAll) |
                         flag_if(message.orderly, kDeleteLinkOrderly);
  return {kOpDeleteLink, static_cast<std::uint8_t>(flags)};
}
Shape shape_of(LlcVersion version, const ReqAddLink& message) {
  SMC_ASSERT(version == LlcVersion::k2);
  return {kOpReqAddLink, flag_if(message.rejected, kLlcResponse), 0, encoded_bytes(message)};
}
template <class Message>
std::uint8_t confirm_rkey_flags(const Message& message) {
  return static_cast<std::uint8_t>(kind_flag(message.kind) |
                                   flag_if(message.refused, kConfirmRkeyRefused) |
                                   flag_if(message.retry, kConfirmRkeyRetry));
}
Shape shape_of(LlcVersion, const ConfirmRkey& message) {
  return {kOpConfirmRkey, confirm_rkey_flags(message)};
}
Shape shape_of(LlcVersion, const ConfirmRkeyCont& message) {
  return {kOpConfirmRkeyCont, confirm_rkey_flags(message)};
}
Shape shape_of(LlcVersion, const DeleteRkey& message) {
  const unsigned flags =
      kind_flag(message.kind) | flag_if(message.some_unknown, kDeleteRkeyUnknown);
  return {kOpDeleteRkey, static_cast<std::uint8_t>(flags), 0, encoded_bytes(message)};
}
Shape shape_of(LlcVersion, const TestLink& message) {
  return {kOpTestLink, kind_flag(message.kind)};
}

void encode_head(Writer& out, LlcVersion version, const Shape& shape) {
  if (version == LlcVersion::k1) {
    SMC_ASSERT(shape.bytes == kLlcBytes, shape.bytes);
    SMC_ASSERT(shape.reject_reason <= 0x0f, shape.reject_reason);
    out.u8(shape.opcode);
    out.u8(kLlcBytes);
    out.u8(shape.reject_reason);
  } else {
    out.u8(static_cast<std::uint8_t>(0x20U | shape.opcode));
    // Little endian, unlike everything else: the kernel reads it in its own order.
    out.u8(static_cast<std::uint8_t>(shape.bytes & 0xffU));
    out.u8(static_cast<std::uint8_t>(shape.bytes >> 8U));
  }
  out.u8(shape.flags);
}

}  // namespace

Result<LlcMessage> decode_llc(std::span<const std::byte> message) {
  const LlcHead head = SMC_TRY(decode_head(message));
  return LlcMessage{head.version, SMC_TRY(decode_body(head, message.subspan(4)))};
}

std::size_t encode(const LlcMessage& message, std::span<std::byte, kLlcBytesMax> out) {
  return std::visit(
      [&](const auto& body) {
        const Shape shape = shape_of(message.version, body);
        Writer writer(out);
        encode_head(writer, message.version, shape);
        encode_body(writer, message.version, body);
        writer.zeroes_until(shape.bytes);
        return shape.bytes;
      },
      message.body);
}

}  // namespace fairlead::wire
