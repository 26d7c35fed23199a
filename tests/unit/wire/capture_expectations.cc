#include "unit/wire/capture_expectations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "unit/wire/hex.h"
#include "unit/wire/pcap_reader.h"

namespace fairlead::wire::test {
namespace {

constexpr std::uint32_t kLabNetwork = 0x0a090000;  // 10.9.0.0

Origin origin_of(std::uint32_t address) {
  const bool client =
      address == (kLabNetwork | kClientHost) || address == (kLabNetwork | kClientSecond);
  return client ? Origin::kClient : Origin::kServer;
}

template <class T>
Result<Message> as_message(Result<T> decoded) {
  if (!decoded) return Error(decoded.error());
  return Message(*std::move(decoded));
}

Result<Message> decode(const CapturedMessage& captured) {
  if (captured.channel == Channel::kRoce)
    return is_cdc(captured.bytes) ? as_message(decode_cdc(captured.bytes))
                                  : as_message(decode_llc(captured.bytes));
  const ClcHeader header = SMC_TRY(decode_clc_header(captured.bytes));
  switch (header.type) {
    case ClcType::kProposal:
      return as_message(decode_proposal(captured.bytes));
    case ClcType::kAccept:
    case ClcType::kConfirm:
      return as_message(decode_accept_confirm(captured.bytes));
    case ClcType::kDecline:
      return as_message(decode_decline(captured.bytes));
  }
  SMC_UNREACHABLE();
}

Bytes encode_again(const Message& message) {
  std::array<std::byte, kLlcBytesMax> buffer{};
  const std::span<std::byte> out(buffer);
  const auto length = std::visit(
      [&]<class T>(const T& value) -> std::size_t {
        if constexpr (std::is_same_v<T, Proposal>) {
          return encode(value, out.first<kProposalBytesMax>());
        } else if constexpr (std::is_same_v<T, AcceptConfirm>) {
          return encode(value, out.first<kConfirmBytesMax>());
        } else if constexpr (std::is_same_v<T, Decline>) {
          return encode(value, out.first<kDeclineBytesMax>());
        } else if constexpr (std::is_same_v<T, LlcMessage>) {
          return encode(value, out.first<kLlcBytesMax>());
        } else {
          encode(value, out.first<kCdcBytes>());
          return kCdcBytes;
        }
      },
      message);
  return Bytes(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(length));
}

AcceptConfirm reuse(ClcType type, std::uint8_t host, std::uint32_t token) {
  const bool server = type == ClcType::kAccept;
  AcceptConfirm message;
  message.type = type;
  message.peer_id = server ? PeerId{{0x85, 0x88, 0x52, 0x54, 0, 0, 0, 1}}
                           : PeerId{{0x79, 0x7b, 0x52, 0x54, 0, 0, 0, 2}};
  message.gid = gid_of(host);
  message.mac = mac_of(host);
  message.queue_pair = QpNumber(0x11);
  message.rmb_rkey = server ? kServerRkey : kClientRkey;
  message.alert_token = AlertToken(token);
  message.rmb_size_code = 2;
  message.mtu = Mtu::k1024;
  message.rmb_address = server ? kServerRmb : kClientRmb;
  message.first_psn = PacketSeq(server ? 0xd44517 : 0xd92c3c);
  message.eid = lab_eid();
  return message;
}

Expected rkey_exchange(std::size_t frame, LlcKind kind, bool of_server) {
  ConfirmRkey message;
  message.kind = kind;
  message.rkey = of_server ? kServerRkey : kClientRkey;
  message.address = of_server ? kServerRmb : kClientRmb;
  message.others.push({LinkNumber(2), of_server ? kServerRkey2 : kClientRkey2, message.address});
  const bool from_server = of_server == (kind == LlcKind::kRequest);
  return llc(frame, from_server ? Origin::kServer : Origin::kClient, message);
}

}  // namespace

Gid gid_of(std::uint8_t host) {
  return Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, host}};
}

Mac mac_of(std::uint8_t host) {
  const auto second = static_cast<std::uint8_t>(host > 10 ? 1 : 0);
  return Mac{{0x52, 0x54, 0, 0, second, static_cast<std::uint8_t>(host - 10 * second)}};
}

Eid lab_eid() {
  Eid eid;
  const std::string_view text = "FAIRLEAD-LAB";
  std::copy(text.begin(), text.end(), eid.bytes.begin());
  return eid;
}

Expected proposal(std::size_t frame) {
  Proposal message;
  message.v1_path = ClcPath::kNone;
  message.v2_path = ClcPath::kSmcr;
  ProposalV2& v2 = message.v2.emplace();
  v2.ueids.push(lab_eid());
  v2.release = 1;
  v2.gid = gid_of(kClientHost);
  v2.max_connections = 255;
  v2.max_links = 2;
  v2.feature_mask = 1;
  return {frame, Origin::kClient, message};
}

Expected accept_reuse(std::size_t frame, std::uint32_t token) {
  return {frame, Origin::kServer, reuse(ClcType::kAccept, kServerHost, token)};
}
Expected confirm_reuse(std::size_t frame, std::uint32_t token) {
  return {frame, Origin::kClient, reuse(ClcType::kConfirm, kClientHost, token)};
}

Expected server_rkey(std::size_t frame, LlcKind kind) { return rkey_exchange(frame, kind, true); }
Expected client_rkey(std::size_t frame, LlcKind kind) { return rkey_exchange(frame, kind, false); }

Expected delete_rkey(std::size_t frame, Origin from, RemoteKey rkey) {
  DeleteRkey message;
  message.rkeys.push(rkey);
  return llc(frame, from, message);
}

Expected rkey_deleted(std::size_t frame, Origin from) {
  DeleteRkey message;
  message.kind = LlcKind::kResponse;
  message.rkeys.push(RemoteKey(0));
  return llc(frame, from, message);
}

Expected llc(std::size_t frame, Origin from, LlcBody body) {
  return {frame, from, LlcMessage{LlcVersion::k2, std::move(body)}};
}

Expected cdc(std::size_t frame, Origin from, CdcMessage message) { return {frame, from, message}; }

void expect_messages(const std::string& name, const std::vector<Expected>& expected) {
  const Capture capture = read_capture(name);
  ASSERT_EQ(capture.error, "");
  ASSERT_EQ(capture.messages.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const CapturedMessage& captured = capture.messages[i];
    SCOPED_TRACE(name + " frame " + std::to_string(captured.frame) + ": " + to_hex(captured.bytes));
    EXPECT_EQ(captured.frame, expected[i].frame);
    EXPECT_EQ(origin_of(captured.from), expected[i].from);
    const Result<Message> decoded = decode(captured);
    if (!decoded) {
      ADD_FAILURE() << "not decoded: " << decoded.error().what;
      continue;
    }
    EXPECT_TRUE(*decoded == expected[i].message)
        << "expected " << to_hex(encode_again(expected[i].message));
    EXPECT_EQ(to_hex(encode_again(*decoded)), to_hex(captured.bytes));
  }
}

}  // namespace fairlead::wire::test
