// Goal: the codecs read the LLC messages that delete a link and add it again. Method: see
// capture_expectations.h.
#include <gtest/gtest.h>

#include "unit/wire/capture_expectations.h"

namespace fairlead::wire::test {
namespace {

constexpr Origin kClient = Origin::kClient;
constexpr Origin kServer = Origin::kServer;
constexpr LlcKind kRequest = LlcKind::kRequest;
constexpr LlcKind kResponse = LlcKind::kResponse;

DeleteLink delete_link(LlcKind kind, std::uint8_t link, DeleteLinkReason reason) {
  DeleteLink message;
  message.kind = kind;
  message.all = false;
  message.orderly = true;
  message.link = LinkNumber(link);
  message.reason = reason;
  return message;
}

AddLink add_link(LlcKind kind, std::uint8_t host, std::uint32_t queue_pair, std::uint8_t link,
                 std::uint32_t psn, RkeyEntry rmb) {
  AddLink message;
  message.kind = kind;
  message.mac = mac_of(host);
  message.gid = gid_of(host);
  message.queue_pair = QpNumber(queue_pair);
  message.link = LinkNumber(link);
  message.mtu_code = 3;
  message.first_psn = PacketSeq(psn);
  message.direct = true;
  message.second_gid = gid_of(host);
  message.rkeys.push(rmb);
  return message;
}

ConfirmLink confirm_link(LlcKind kind, std::uint8_t host, std::uint32_t queue_pair,
                         std::uint8_t link) {
  ConfirmLink message;
  message.kind = kind;
  message.mac = mac_of(host);
  message.gid = gid_of(host);
  message.queue_pair = QpNumber(queue_pair);
  message.link = LinkNumber(link);
  message.link_user_id = 0x100U + link;
  message.max_links = 2;
  message.max_connections = 255;
  return message;
}

ReqAddLink client_gids() {
  ReqAddLink message;
  message.gids.push(gid_of(kClientHost));
  message.gids.push(gid_of(kClientSecond));
  return message;
}

Expected data(std::size_t frame, Origin from, std::uint16_t sequence, std::uint32_t produced,
              std::uint32_t consumed, bool closed = false) {
  CdcMessage message;
  message.sequence = sequence;
  message.token = AlertToken(5);
  message.producer = {0, produced};
  message.consumer = {0, consumed};
  message.state.closed = closed;
  return cdc(frame, from, message);
}

}  // namespace

TEST(CaptureFailover, EveryMessageIsUnderstoodAndWrittenBack) {
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
  expect_messages(
      "link-failover.pcap",
      {
          proposal(4),
          server_rkey(6, kRequest),
          server_rkey(8, kResponse),
          accept_reuse(10, 5),
          client_rkey(12, kRequest),
          client_rkey(14, kResponse),
          confirm_reuse(16, 5),
          data(18, kClient, 1, 8, 0),
          data(23, kServer, 1, 8, 8),
          llc(26, kClient, delete_link(kRequest, 2, lost)),
          llc(28, kServer, delete_link(kRequest, 2, lost)),
          llc(30, kClient, delete_link(kResponse, 2, unknown)),
          llc(32, kServer, add_link(kRequest, 11, 0x12, 3, 0xa45304, server_rmb(0x50a))),
          llc(34, kClient, add_link(kResponse, 2, 0x12, 3, 0x06f4d3, client_rmb(0x594))),
          llc(38, kServer, confirm_link(kRequest, 11, 0x12, 3)),
          llc(40, kClient, confirm_link(kResponse, 2, 0x12, 3)),
          data(44, kClient, 2, 16, 8),
          data(48, kServer, 2, 16, 16),
          llc(52, kClient, client_gids()),
          llc(55, kServer, add_link(kRequest, 11, 0x13, 4, 0x1e4408, server_rmb(0x735))),
          llc(57, kClient, add_link(kResponse, 12, 0x12, 4, 0x0ca92b, client_rmb(0x57a))),
          llc(59, kServer, confirm_link(kRequest, 11, 0x13, 4)),
          llc(64, kClient, confirm_link(kResponse, 12, 0x12, 4)),
          llc(66, kServer, delete_link(kRequest, 3, not_needed)),
          llc(68, kClient, delete_link(kResponse, 3, ok)),
          data(78, kClient, 3, 26, 16),
          data(83, kServer, 3, 26, 26),
          data(85, kClient, 4, 26, 26, true),
          data(89, kServer, 4, 26, 26, true),
          delete_rkey(92, kClient, kClientRkey),
          delete_rkey(94, kServer, kServerRkey),
          rkey_deleted(95, kServer),
          rkey_deleted(98, kClient),
      });
}

}  // namespace fairlead::wire::test
