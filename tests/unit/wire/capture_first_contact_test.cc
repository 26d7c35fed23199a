// Goal: the codecs read the messages of a Linux kernel at first contact, field by field. Method:
// see capture_expectations.h; the messages of the handshake are written out here in full.
#include <gtest/gtest.h>

#include "unit/wire/capture_expectations.h"

namespace fairlead::wire::test {
namespace {

constexpr Origin kClient = Origin::kClient;
constexpr Origin kServer = Origin::kServer;

FirstContact first_contact() {
  FirstContact first;
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
  return first;
}

Expected accept(std::size_t frame) {
  AcceptConfirm message;
  message.type = ClcType::kAccept;
  message.version = 2;
  message.path = ClcPath::kSmcr;
  message.first_contact = true;
  message.peer_id = PeerId{{0x85, 0x88, 0x52, 0x54, 0x00, 0x00, 0x00, 0x01}};
  message.gid = gid_of(kServerHost);
  message.mac = mac_of(kServerHost);
  message.queue_pair = QpNumber(0x11);
  message.rmb_rkey = RemoteKey(0x35c);
  message.rmb_index = RmbIndex(1);
  message.alert_token = AlertToken(1);
  message.rmb_size_code = 2;
  message.mtu = Mtu::k1024;
  message.rmb_address = RemoteAddress(0xff11a1ffc4700000);
  message.first_psn = PacketSeq(0xd44517);
  message.eid = lab_eid();
  message.first_contact_v2 = first_contact();
  return {frame, kServer, message};
}

Expected confirm(std::size_t frame) {
  AcceptConfirm message;
  message.type = ClcType::kConfirm;
  message.version = 2;
  message.path = ClcPath::kSmcr;
  message.first_contact = true;
  message.peer_id = PeerId{{0x79, 0x7b, 0x52, 0x54, 0x00, 0x00, 0x00, 0x02}};
  message.gid = gid_of(kClientHost);
  message.mac = mac_of(kClientHost);
  message.queue_pair = QpNumber(0x11);
  message.rmb_rkey = RemoteKey(0x39a);
  message.rmb_index = RmbIndex(1);
  message.alert_token = AlertToken(1);
  message.rmb_size_code = 2;
  message.mtu = Mtu::k1024;
  message.rmb_address = RemoteAddress(0xff4843cc08980000);
  message.first_psn = PacketSeq(0xd92c3c);
  message.eid = lab_eid();
  message.first_contact_v2 = first_contact();
  message.gids.push(gid_of(kClientHost));
  message.gids.push(gid_of(kClientSecond));
  return {frame, kClient, message};
}

ConfirmLink confirm_link(LlcKind kind, std::uint8_t host, std::uint8_t link) {
  ConfirmLink message;
  message.kind = kind;
  message.eyecatcher_flags = 0x03;
  message.mac = mac_of(host);
  message.gid = gid_of(host);
  message.queue_pair = QpNumber(0x11);
  message.link = LinkNumber(link);
  message.link_user_id = 0x100U + link;
  message.max_links = 2;
  message.max_connections = 255;
  return message;
}

AddLink add_link(LlcKind kind, std::uint8_t host, PacketSeq psn, RkeyEntry rmb) {
  AddLink message;
  message.kind = kind;
  message.mac = mac_of(host);
  message.gid = gid_of(host);
  message.queue_pair = QpNumber(0x11);
  message.link = LinkNumber(2);
  message.mtu_code = 3;
  message.first_psn = psn;
  message.direct = true;
  message.second_gid = gid_of(host);
  message.rkeys.push(rmb);
  return message;
}

constexpr LlcKind kRequest = LlcKind::kRequest;
constexpr LlcKind kResponse = LlcKind::kResponse;

}  // namespace

TEST(CaptureFirstContact, EveryMessageIsUnderstoodAndWrittenBack) {
  const AlertToken token(1);
  const RkeyEntry server_rmb{kServerRkey, kServerRkey2, kServerRmb};
  const RkeyEntry client_rmb{kClientRkey, kClientRkey2, kClientRmb};
  expect_messages(
      "first-contact-two-rnics.pcap",
      {
          proposal(7),
          accept(9),
          confirm(11),
          llc(12, kServer, confirm_link(kRequest, kServerHost, 1)),
          llc(14, kClient, confirm_link(kResponse, kClientHost, 1)),
          llc(17, kServer, add_link(kRequest, kServerSecond, PacketSeq(0x14f02b), server_rmb)),
          llc(19, kClient, add_link(kResponse, kClientSecond, PacketSeq(0xa1cb74), client_rmb)),
          llc(24, kServer, confirm_link(kRequest, kServerSecond, 2)),
          llc(26, kClient, confirm_link(kResponse, kClientSecond, 2)),
          cdc(28, kClient, {.sequence = 1, .token = token, .producer = {0, 10}}),
          cdc(32, kServer,
              {.sequence = 1, .token = token, .producer = {0, 10}, .consumer = {0, 10}}),
          cdc(36, kClient,
              {.sequence = 2,
               .token = token,
               .producer = {0, 10},
               .consumer = {0, 10},
               .state = {.done_writing = true}}),
          cdc(39, kServer,
              {.sequence = 2,
               .token = token,
               .producer = {0, 10},
               .consumer = {0, 10},
               .state = {.closed = true}}),
          cdc(41, kClient,
              {.sequence = 3,
               .token = token,
               .producer = {0, 10},
               .consumer = {0, 10},
               .state = {.done_writing = true, .closed = true}}),
          delete_rkey(43, kClient, kClientRkey),
          delete_rkey(44, kServer, kServerRkey),
          rkey_deleted(46, kClient),
          rkey_deleted(48, kServer),
      });
}

}  // namespace fairlead::wire::test
