#include <algorithm>

#include "wire/clc.h"
#include "wire/clc_frame.h"

namespace fairlead::wire {
namespace {

constexpr std::size_t kBytesV1 = 68;
constexpr std::size_t kBytesV2 = 108;  // reuse
constexpr std::size_t kFirstContactBytes = 52;
constexpr std::size_t kGidListHeadBytes = 4;
constexpr std::size_t kGidBytes = 16;

static_assert(kBytesV2 + kFirstContactBytes == kAcceptBytesMax);
static_assert(kBytesV2 + kFirstContactBytes + kGidListHeadBytes + kGidBytes * kConfirmGidsMax ==
              kConfirmBytesMax);

// What is fixed by type, version and the first contact flag; the GIDs of a Confirm come on top.
constexpr std::size_t fixed_length(ClcType type, std::uint8_t version, bool first_contact) {
  if (version == 1) return kBytesV1;
  if (!first_contact) return kBytesV2;
  return kBytesV2 + kFirstContactBytes + (type == ClcType::kConfirm ? kGidListHeadBytes : 0);
}

bool has_gid_list(const AcceptConfirm& message) {
  return message.type == ClcType::kConfirm && message.version != 1 && message.first_contact;
}

Result<void> check_length(const ClcFrame& frame) {
  const ClcHeader& header = frame.header;
  const std::size_t fixed = fixed_length(header.type, header.version, frame.flag);
  const bool gids = header.type == ClcType::kConfirm && header.version != 1 && frame.flag;
  const bool good = gids ? header.length_bytes >= fixed : header.length_bytes == fixed;
  if (!good) return Error{Errc::kMalformed, "CLC length"};
  return {};
}

Result<void> decode_common(Reader& in, AcceptConfirm& message) {
  message.peer_id.bytes = in.bytes<8>();
  message.gid.bytes = in.bytes<16>();
  message.mac.bytes = in.bytes<6>();
  message.queue_pair = QpNumber(in.u24());
  message.rmb_rkey = RemoteKey(in.u32());
  message.rmb_index = RmbIndex(in.u8());
  message.alert_token = AlertToken(in.u32());
  const unsigned size_and_mtu = in.u8();
  message.rmb_size_code = static_cast<std::uint8_t>(size_and_mtu >> 4U);
  in.skip(1);
  message.rmb_address = RemoteAddress(in.u64());
  in.skip(1);
  message.first_psn = PacketSeq(in.u24());

  const unsigned mtu = size_and_mtu & 0x0fU;
  if (message.rmb_index.value == 0) return Error{Errc::kMalformed, "RMB index"};
  if (message.alert_token.value == 0) return Error{Errc::kMalformed, "alert token"};
  if (mtu < static_cast<unsigned>(Mtu::k256) || mtu > static_cast<unsigned>(Mtu::k4096))
    return Error{Errc::kMalformed, "MTU code"};
  message.mtu = static_cast<Mtu>(mtu);
  return {};
}

bool printable(char c) { return c >= ' ' && c <= '~'; }

FirstContact decode_first_contact(Reader& in) {
  FirstContact first;
  first.direct = (in.u8() & 0x80U) != 0;
  const unsigned os_and_release = in.u8();
  first.os = peer_os_from(os_and_release >> 4U);
  first.release = static_cast<std::uint8_t>(os_and_release & 0x0fU);
  in.skip(2);
  first.host_name = in.chars<32>();
  // It is shown to people only, and a hostile one could forge lines of a log.
  if (!std::all_of(first.host_name.begin(), first.host_name.end(), printable))
    first.host_name = Eid::blank();
  first.max_connections = 0;
  first.max_links = 0;
  if (first.release == 0) {
    in.skip(16);
    return first;
  }
  first.max_connections = in.u8();
  first.max_links = in.u8();
  first.feature_mask = in.u16();
  first.vendor_options = in.u32();
  in.skip(8);
  return first;
}

void encode_first_contact(Writer& out, const FirstContact& first) {
  SMC_ASSERT(first.release <= 0x0f, first.release);
  out.u8(first.direct ? 0x80 : 0);
  out.u8(static_cast<std::uint8_t>(static_cast<unsigned>(first.os) << 4U | first.release));
  out.zeroes(2);
  out.chars(first.host_name);
  if (first.release == 0) {
    out.zeroes(16);
    return;
  }
  out.u8(first.max_connections);
  out.u8(first.max_links);
  out.u16(first.feature_mask);
  out.u32(first.vendor_options);
  out.zeroes(8);
}

Result<void> decode_gids(Reader& in, AcceptConfirm& message) {
  const std::size_t count = in.u8();
  in.skip(3);
  if (count > kConfirmGidsMax) return Error{Errc::kMalformed, "GID count"};
  if (in.remaining() != count * kGidBytes) return Error{Errc::kMalformed, "GID count"};
  for (std::size_t i = 0; i < count; ++i) message.gids.push(Gid{in.bytes<16>()});
  return {};
}

}  // namespace

Result<AcceptConfirm> decode_accept_confirm(std::span<const std::byte> bytes) {
  const ClcFrame frame = SMC_TRY(decode_clc_frame(bytes, Trailer::kChecked));
  if (frame.header.type != ClcType::kAccept && frame.header.type != ClcType::kConfirm)
    return Error{Errc::kMalformed, "CLC type"};
  if (frame.selector1 == static_cast<unsigned>(ClcPath::kSmcd))
    return Error{Errc::kUnsupported, "path"};
  if (frame.selector1 != static_cast<unsigned>(ClcPath::kSmcr))
    return Error{Errc::kMalformed, "path"};
  SMC_TRY(check_length(frame));

  AcceptConfirm message;
  message.type = frame.header.type;
  message.version = frame.header.version;
  message.first_contact = frame.flag;
  Reader in(frame.body);
  SMC_TRY(decode_common(in, message));
  if (message.version != 1) {
    message.eid.bytes = in.chars<32>();
    in.skip(8);
    if (message.first_contact) message.first_contact_v2 = decode_first_contact(in);
    if (has_gid_list(message)) SMC_TRY(decode_gids(in, message));
  }
  SMC_ASSERT(in.ok());
  return message;
}

std::size_t encode(const AcceptConfirm& message, std::span<std::byte, kConfirmBytesMax> out) {
  SMC_ASSERT(message.type == ClcType::kAccept || message.type == ClcType::kConfirm, message.type);
  SMC_ASSERT(message.path == ClcPath::kSmcr, message.path);
  SMC_ASSERT(message.rmb_size_code <= 0x0f, message.rmb_size_code);
  const bool gid_list = has_gid_list(message);
  const std::size_t length = fixed_length(message.type, message.version, message.first_contact) +
                             (gid_list ? message.gids.count * kGidBytes : 0);
  Writer writer(out);
  encode_clc_header(writer, message.type, length, message.version,
                    message.first_contact ? kClcFlag : 0U);
  writer.bytes(message.peer_id.bytes);
  writer.bytes(message.gid.bytes);
  writer.bytes(message.mac.bytes);
  writer.u24(message.queue_pair.value);
  writer.u32(message.rmb_rkey.value);
  writer.u8(message.rmb_index.value);
  writer.u32(message.alert_token.value);
  writer.u8(static_cast<std::uint8_t>(unsigned{message.rmb_size_code} << 4U |
                                      static_cast<unsigned>(message.mtu)));
  writer.zeroes(1);
  writer.u64(message.rmb_address.value);
  writer.zeroes(1);
  writer.u24(message.first_psn.value);
  if (message.version != 1) {
    writer.chars(message.eid.bytes);
    writer.zeroes(8);
    SMC_ASSERT(message.first_contact == message.first_contact_v2.has_value());
    if (message.first_contact_v2) encode_first_contact(writer, *message.first_contact_v2);
    if (gid_list) {
      writer.u8(static_cast<std::uint8_t>(message.gids.count));
      writer.zeroes(3);
      for (const Gid& gid : message.gids.view()) writer.bytes(gid.bytes);
    }
  }
  encode_clc_trailer(writer);
  SMC_ASSERT(writer.written() == length, writer.written(), length);
  return length;
}

}  // namespace fairlead::wire
