// Goal: the codecs read every message of Linux kernels in tests/captures, and write the bytes that
// the kernels sent. Method: one Expected a message, in the order of the packets. The numbers were
// read off the packets by hand and, for CLC and CDC, with another dissector; nothing here was
// printed by the codec under test.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <variant>

#include "unit/wire/hex.h"
#include "unit/wire/pcap_reader.h"
#include "wire/cdc.h"
#include "wire/clc.h"
#include "wire/llc.h"

namespace fairlead::wire::test {
namespace {

constexpr Origin kClient = Origin::kClient;
constexpr Origin kServer = Origin::kServer;
constexpr LlcKind kRequest = LlcKind::kRequest;
constexpr LlcKind kResponse = LlcKind::kResponse;

using Message = std::variant<Proposal, AcceptConfirm, Decline, LlcMessage, CdcMessage>;

struct Expected {
  std::size_t frame = 0;
  Origin from = kClient;
  Message message;
};

// Counts of other programs for the same file, so that no packet is passed over in silence.
struct Packets {
  std::size_t frames, writes, acknowledgements;
};

// The RMB that both connections of a side use, one after the other, with its keys on links 1 and 2.
constexpr RemoteAddress kServerRmb{0xff11a1ffc4700000};
constexpr RemoteAddress kClientRmb{0xff4843cc08980000};
constexpr RemoteKey kServerRkey{0x35c}, kServerRkey2{0x3b3};
constexpr RemoteKey kClientRkey{0x39a}, kClientRkey2{0x3cb};

// ::ffff:10.9.0.`host`
Gid gid_of(std::uint8_t host) {
  return Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, host}};
}

// 52:54:00:00:RR:HH, RR the RNIC, HH the host
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

// Of a connection that joins an existing link group.
AcceptConfirm reuse(ClcType type, std::uint32_t token) {
  const bool server = type == ClcType::kAccept;
  const std::uint8_t host = server ? kServerHost : kClientHost;
  AcceptConfirm message;
  message.type = type;
  message.version = 2;
  message.path = ClcPath::kSmcr;
  message.peer_id = server ? PeerId{{0x85, 0x88, 0x52, 0x54, 0, 0, 0, 1}}
                           : PeerId{{0x79, 0x7b, 0x52, 0x54, 0, 0, 0, 2}};
  message.gid = gid_of(host);
  message.mac = mac_of(host);
  message.queue_pair = QpNumber(0x11);
  message.rmb_rkey = server ? kServerRkey : kClientRkey;
  message.rmb_index = RmbIndex(1);
  message.alert_token = AlertToken(token);
  message.rmb_size_code = 2;
  message.mtu = Mtu::k1024;
  message.rmb_address = server ? kServerRmb : kClientRmb;
  message.first_psn = PacketSeq(server ? 0xd44517 : 0xd92c3c);
  message.eid = lab_eid();
  return message;
}

AcceptConfirm first_contact(ClcType type) {
  AcceptConfirm message = reuse(type, 1);
  message.first_contact = true;
  FirstContact& first = message.first_contact_v2.emplace();
  first.direct = true;
  first.os = PeerOs::kLinux;
  first.release = 1;
  first.host_name = Eid::blank();
  const std::string_view name = "(none)";
  std::copy(name.begin(), name.end(), first.host_name.begin());
  first.max_connections = 255;
  first.max_links = 2;
  first.feature_mask = 1;
  first.vendor_options = 0;
  if (type == ClcType::kAccept) return message;
  message.gids.push(gid_of(kClientHost));
  message.gids.push(gid_of(kClientSecond));
  return message;
}

// The same in all captures.
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

Expected llc(std::size_t frame, Origin from, LlcBody body) {
  return {frame, from, LlcMessage{LlcVersion::k2, std::move(body)}};
}

// A request or answer of the exchange that announces the RMB of one side.
Expected rkey_exchange(std::size_t frame, LlcKind kind, bool of_server) {
  ConfirmRkey message{.kind = kind,
                      .rkey = of_server ? kServerRkey : kClientRkey,
                      .address = of_server ? kServerRmb : kClientRmb};
  message.others.push({LinkNumber(2), of_server ? kServerRkey2 : kClientRkey2, message.address});
  const bool from_server = of_server == (kind == LlcKind::kRequest);
  return llc(frame, from_server ? Origin::kServer : Origin::kClient, message);
}

// The handshake of a connection that joins the group, one message in every second frame.
std::vector<Expected> joining(std::size_t frame, std::uint32_t token) {
  return {proposal(frame),
          rkey_exchange(frame + 2, kRequest, true),
          rkey_exchange(frame + 4, kResponse, true),
          {frame + 6, kServer, reuse(ClcType::kAccept, token)},
          rkey_exchange(frame + 8, kRequest, false),
          rkey_exchange(frame + 10, kResponse, false),
          {frame + 12, kClient, reuse(ClcType::kConfirm, token)}};
}

Expected delete_rkey(std::size_t frame, Origin from, RemoteKey rkey) {
  DeleteRkey message;
  message.rkeys.push(rkey);
  return llc(frame, from, message);
}

// Linux answers with the count, but without the keys.
Expected rkey_deleted(std::size_t frame, Origin from) {
  DeleteRkey message{.kind = LlcKind::kResponse};
  message.rkeys.push(RemoteKey(0));
  return llc(frame, from, message);
}

DeleteLink delete_link(LlcKind kind, std::uint8_t link, DeleteLinkReason reason) {
  return {.kind = kind, .all = false, .orderly = true, .link = LinkNumber(link), .reason = reason};
}

AddLink add_link(LlcKind kind, std::uint8_t host, std::uint32_t queue_pair, std::uint8_t link,
                 std::uint32_t psn, RkeyEntry rmb) {
  AddLink message{.kind = kind,
                  .mac = mac_of(host),
                  .gid = gid_of(host),
                  .queue_pair = QpNumber(queue_pair),
                  .link = LinkNumber(link),
                  .mtu_code = 3,
                  .first_psn = PacketSeq(psn),
                  .direct = true,
                  .second_gid = gid_of(host)};
  message.rkeys.push(rmb);
  return message;
}

ConfirmLink confirm_link(LlcKind kind, std::uint8_t host, std::uint32_t queue_pair,
                         std::uint8_t link) {
  return {.kind = kind,
          .eyecatcher_flags = 0x03,
          .mac = mac_of(host),
          .gid = gid_of(host),
          .queue_pair = QpNumber(queue_pair),
          .link = LinkNumber(link),
          .link_user_id = 0x100U + link,
          .max_links = 2,
          .max_connections = 255};
}

ReqAddLink client_gids() {
  ReqAddLink message;
  message.gids.push(gid_of(kClientHost));
  message.gids.push(gid_of(kClientSecond));
  return message;
}

// Messages of one connection.
struct Cdc {
  AlertToken token;
  Expected operator()(std::size_t frame, Origin from, std::uint16_t sequence, CdcCursor producer,
                      CdcCursor consumer = {}, ConnectionStateFlags state = {},
                      ProducerFlags flags = {}) const {
    return {frame, from, CdcMessage{sequence, token, producer, consumer, flags, state}};
  }
};

constexpr ConnectionStateFlags kClosed{.closed = true};

void expect_messages(const std::string& name, const Packets& packets,
                     std::vector<Expected> expected, const std::vector<Expected>& rest) {
  expected.insert(expected.end(), rest.begin(), rest.end());
  const Capture capture = read_capture(name);
  ASSERT_EQ(capture.error, "");
  EXPECT_EQ(capture.frames, packets.frames);
  EXPECT_EQ(capture.roce_writes, packets.writes);
  EXPECT_EQ(capture.roce_acknowledgements, packets.acknowledgements);
  ASSERT_EQ(capture.messages.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const CapturedMessage& captured = capture.messages[i];
    SCOPED_TRACE(name + " frame " + std::to_string(captured.frame) + ": " + to_hex(captured.bytes));
    EXPECT_EQ(captured.frame, expected[i].frame);
    EXPECT_EQ(origin_of(captured), expected[i].from);
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

}  // namespace

TEST(CaptureMessages, OfAFirstContact) {
  const Cdc cdc{AlertToken(1)};
  const CdcCursor end{0, 10};
  const RkeyEntry server_rmb{kServerRkey, kServerRkey2, kServerRmb};
  const RkeyEntry client_rmb{kClientRkey, kClientRkey2, kClientRmb};
  expect_messages(
      "first-contact-two-rnics.pcap", {53, 2, 17}, {},
      {
          proposal(7),
          {9, kServer, first_contact(ClcType::kAccept)},
          {11, kClient, first_contact(ClcType::kConfirm)},
          llc(12, kServer, confirm_link(kRequest, kServerHost, 0x11, 1)),
          llc(14, kClient, confirm_link(kResponse, kClientHost, 0x11, 1)),
          llc(17, kServer, add_link(kRequest, kServerSecond, 0x11, 2, 0x14f02b, server_rmb)),
          llc(19, kClient, add_link(kResponse, kClientSecond, 0x11, 2, 0xa1cb74, client_rmb)),
          llc(24, kServer, confirm_link(kRequest, kServerSecond, 0x11, 2)),
          llc(26, kClient, confirm_link(kResponse, kClientSecond, 0x11, 2)),
          cdc(28, kClient, 1, end),
          cdc(32, kServer, 1, end, end),
          cdc(36, kClient, 2, end, end, {.done_writing = true}),
          cdc(39, kServer, 2, end, end, kClosed),
          cdc(41, kClient, 3, end, end, {.done_writing = true, .closed = true}),
          delete_rkey(43, kClient, kClientRkey),
          delete_rkey(44, kServer, kServerRkey),
          rkey_deleted(46, kClient),
          rkey_deleted(48, kServer),
      });
}

TEST(CaptureMessages, OfAConnectionThatJoinsTheGroup) {
  const Cdc cdc{AlertToken(2)};
  const CdcCursor end{0, 3005};
  expect_messages("second-connection-reuse.pcap", {49, 6, 14}, joining(9, 2),
                  {
                      cdc(26, kClient, 1, end),
                      cdc(32, kServer, 1, end, end),
                      cdc(35, kClient, 2, end, end, kClosed),
                      cdc(39, kServer, 2, end, end, kClosed),
                      delete_rkey(42, kClient, kClientRkey),
                      delete_rkey(43, kServer, kServerRkey),
                      rkey_deleted(45, kClient),
                      rkey_deleted(47, kServer),
                  });
}

TEST(CaptureMessages, OfAnAbort) {
  const Cdc cdc{AlertToken(3)};
  const CdcCursor end{0, 10};
  expect_messages("two-connections-abort.pcap", {40, 2, 14}, joining(4, 3),
                  {
                      cdc(18, kClient, 1, end),
                      cdc(23, kServer, 1, end, end),
                      cdc(27, kClient, 2, end, end, kClosed),
                      cdc(30, kServer, 2, end, end, kClosed),
                      delete_rkey(33, kClient, kClientRkey),
                      rkey_deleted(35, kServer),
                      delete_rkey(36, kServer, kServerRkey),
                      rkey_deleted(39, kClient),
                  });
}

// Three full elements of 64 KiB, then the rest of 200,000 bytes.
TEST(CaptureMessages, OfABulkTransferWhoseCursorsWrap) {
  const Cdc cdc{AlertToken(4)};
  const ProducerFlags blocked{.write_blocked = true};
  const CdcCursor full1{1, 0}, full2{2, 0}, full3{3, 0}, end{3, 3392};
  expect_messages("bulk-200k.pcap", {246, 196, 21}, joining(4, 4),
                  {
                      cdc(82, kClient, 1, full1, {}, {}, blocked),
                      cdc(85, kServer, 1, {}, full1),
                      cdc(151, kClient, 2, full2, {}, {}, blocked),
                      cdc(154, kServer, 2, {}, full2),
                      cdc(220, kClient, 3, full3, {}, {}, blocked),
                      cdc(223, kServer, 3, {}, full3),
                      cdc(230, kClient, 4, end),
                      cdc(231, kClient, 5, end, {}, kClosed),
                      cdc(236, kServer, 4, {}, end, kClosed),
                      delete_rkey(239, kClient, kClientRkey),
                      delete_rkey(240, kServer, kServerRkey),
                      rkey_deleted(243, kServer),
                      rkey_deleted(244, kClient),
                  });
}

TEST(CaptureMessages, OfAFailover) {
  const auto server_rmb = [](std::uint32_t rkey) {
    return RkeyEntry{kServerRkey, RemoteKey(rkey), kServerRmb};
  };
  const auto client_rmb = [](std::uint32_t rkey) {
    return RkeyEntry{kClientRkey, RemoteKey(rkey), kClientRmb};
  };
  const DeleteLinkReason lost = DeleteLinkReason::kPathLost;
  const DeleteLinkReason unknown = DeleteLinkReason::kUnknownLink;
  const DeleteLinkReason not_needed = DeleteLinkReason::kAsymmetricNotNeeded;
  const DeleteLinkReason ok = DeleteLinkReason::kOk;
  const Cdc cdc{AlertToken(5)};
  expect_messages(
      "link-failover.pcap", {99, 6, 36}, joining(4, 5),
      {
          cdc(18, kClient, 1, {0, 8}),
          cdc(23, kServer, 1, {0, 8}, {0, 8}),
          llc(26, kClient, delete_link(kRequest, 2, lost)),
          llc(28, kServer, delete_link(kRequest, 2, lost)),
          llc(30, kClient, delete_link(kResponse, 2, unknown)),
          llc(32, kServer, add_link(kRequest, 11, 0x12, 3, 0xa45304, server_rmb(0x50a))),
          llc(34, kClient, add_link(kResponse, 2, 0x12, 3, 0x06f4d3, client_rmb(0x594))),
          llc(38, kServer, confirm_link(kRequest, 11, 0x12, 3)),
          llc(40, kClient, confirm_link(kResponse, 2, 0x12, 3)),
          cdc(44, kClient, 2, {0, 16}, {0, 8}),
          cdc(48, kServer, 2, {0, 16}, {0, 16}),
          llc(52, kClient, client_gids()),
          llc(55, kServer, add_link(kRequest, 11, 0x13, 4, 0x1e4408, server_rmb(0x735))),
          llc(57, kClient, add_link(kResponse, 12, 0x12, 4, 0x0ca92b, client_rmb(0x57a))),
          llc(59, kServer, confirm_link(kRequest, 11, 0x13, 4)),
          llc(64, kClient, confirm_link(kResponse, 12, 0x12, 4)),
          llc(66, kServer, delete_link(kRequest, 3, not_needed)),
          llc(68, kClient, delete_link(kResponse, 3, ok)),
          cdc(78, kClient, 3, {0, 26}, {0, 16}),
          cdc(83, kServer, 3, {0, 26}, {0, 26}),
          cdc(85, kClient, 4, {0, 26}, {0, 26}, kClosed),
          cdc(89, kServer, 4, {0, 26}, {0, 26}, kClosed),
          delete_rkey(92, kClient, kClientRkey),
          delete_rkey(94, kServer, kServerRkey),
          rkey_deleted(95, kServer),
          rkey_deleted(98, kClient),
      });
}

}  // namespace fairlead::wire::test
