// Goal: a peer that violates the protocol of link control harms at most its own group. Method:
// messages that no correct peer sends, to otherwise correct groups (link_hosts.h).
#include "unit/smc/link_hosts.h"

namespace fairlead::smc {
namespace {

using Kind = GroupEvent::Kind;

class HostileLink : public LinkHosts {
 protected:
  wire::AddLink request(std::uint8_t number) {
    wire::AddLink made;
    made.gid.bytes[0] = number;
    made.queue_pair = QpNumber{number};
    made.link = LinkNumber{number};
    made.mtu_code = 3;
    return made;
  }
};

TEST_F(HostileLink, ARequestForALinkThatExistsIsRejected) {
  connect(2, 2);
  for (const std::uint8_t number : std::vector<std::uint8_t>{1, 2, 0}) {
    inject(*client, 0, request(number));
    EXPECT_TRUE(answer<wire::AddLink>(*client).rejected) << int{number};
  }
  EXPECT_EQ(client->group.active_links(), 2U);
}

TEST_F(HostileLink, KeysOfALinkThatNobodyAddsEndTheGroup) {
  for (const bool to_server : {true, false}) {
    connect(1, 1, 2, 1);
    Host& host = to_server ? *server : *client;
    wire::AddLinkCont keys;
    keys.kind = to_server ? wire::LlcKind::kResponse : wire::LlcKind::kRequest;
    keys.link = LinkNumber{77};
    inject(host, 0, keys);
    EXPECT_TRUE(host.group.terminated());
    const auto word = answer<wire::DeleteLink>(host);
    EXPECT_TRUE(word.all);
    EXPECT_EQ(word.reason, wire::DeleteLinkReason::kProtocolViolation);
  }
}

TEST_F(HostileLink, KeysThatComeTooLateAreIgnored) {
  connect(2, 2, 2, 1);
  wire::AddLinkCont keys;
  keys.kind = wire::LlcKind::kRequest;
  keys.link = LinkNumber{2};
  inject(*client, 0, keys);
  keys.kind = wire::LlcKind::kResponse;
  inject(*server, 0, keys);
  EXPECT_TRUE(client->group.usable());
  EXPECT_TRUE(server->group.usable());
}

TEST_F(HostileLink, AnMtuOutOfRangeIsRejected) {
  connect(1, 1);
  client->up.push_back(true);
  for (const std::uint8_t code : std::vector<std::uint8_t>{0, 6, 15}) {
    wire::AddLink made = request(9);
    made.mtu_code = code;
    inject(*client, 0, made);
    EXPECT_TRUE(answer<wire::AddLink>(*client).rejected) << int{code};
  }
}

TEST_F(HostileLink, MoreLinksThanAgreedAreRejected) {
  connect(3, 3, 2);
  inject(*client, 0, request(7));
  EXPECT_TRUE(answer<wire::AddLink>(*client).rejected);
}

TEST_F(HostileLink, ASecondRequestDuringTheFirstIsRejected) {
  connect(1, 1);
  client->up.push_back(true);
  inject(*client, 0, request(7));
  EXPECT_FALSE(answer<wire::AddLink>(*client).rejected);
  inject(*client, 0, request(8));
  EXPECT_TRUE(answer<wire::AddLink>(*client).rejected);
}

TEST_F(HostileLink, ALinkThatIsNeverConfirmedIsLetGoAndTold) {
  connect(1, 1);
  client->up.push_back(true);
  inject(*client, 0, request(7));
  answer<wire::AddLink>(*client);
  now += kAddedLinkWait;
  client->group.handle_deadline(now);
  client->perform(now);
  EXPECT_EQ(answer<wire::DeleteLink>(*client).link, LinkNumber{7});
  EXPECT_EQ(client->released.size(), 1U);
  EXPECT_TRUE(client->group.usable());
}

TEST_F(HostileLink, AnAnswerToAnotherLinkThanAskedForIsIgnored) {
  set_up(2, 2);
  while (sent<wire::AddLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  wire::AddLink wrong = request(77);
  wrong.kind = wire::LlcKind::kResponse;
  inject(*server, 0, wrong);
  EXPECT_FALSE(server->group.poll_llc());
  settle();
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
}

TEST_F(HostileLink, AnAnswerWithALargerMtuThanOfferedFails) {
  set_up(2, 2);
  while (sent<wire::AddLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  wire::AddLink wrong = request(2);
  wrong.kind = wire::LlcKind::kResponse;
  wrong.mtu_code = 5;  // the server offered 4
  inject(*server, 0, wrong);
  EXPECT_TRUE(server->saw(Kind::kLinkNotAdded));
  EXPECT_TRUE(server->group.usable());
}

TEST_F(HostileLink, ConfirmationsOfOtherLinksChangeNothing) {
  set_up(2, 2);
  while (sent<wire::AddLink>(false).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  wire::ConfirmLink wrong;
  wrong.kind = wire::LlcKind::kResponse;
  wrong.link = LinkNumber{2};
  inject(*server, 0, wrong);  // over the first link
  EXPECT_EQ(server->group.active_links(), 1U);
  wrong.link = LinkNumber{1};
  if (server->group.link(1)) inject(*server, 1, wrong);  // the wrong number
  EXPECT_EQ(server->group.active_links(), 1U);
}

TEST_F(HostileLink, DeletionOfUnknownLinksIsAnsweredAndHarmless) {
  connect(2, 2);
  for (int number = 0; number < 256; ++number) {
    if (number == 1 || number == 2) continue;
    wire::DeleteLink request;
    request.link = LinkNumber{static_cast<std::uint8_t>(number)};
    for (Host* host : {&*server, &*client}) {
      inject(*host, 1, request);
      EXPECT_EQ(answer<wire::DeleteLink>(*host).reason, wire::DeleteLinkReason::kUnknownLink);
    }
  }
  EXPECT_EQ(server->group.active_links(), 2U);
}

TEST_F(HostileLink, AFloodOfWishesStartsOneFlow) {
  connect(2, 1);
  wire::ReqAddLink wish;
  wish.gids.push(Gid{});
  trace.clear();
  for (int i = 0; i < 1000; ++i) inject(*server, 0, wish);
  EXPECT_TRUE(server->group.usable());
  settle();
  EXPECT_LE(sent<wire::AddLink>(true).size(), 2U);
  EXPECT_TRUE(server->group.usable());
}

TEST_F(HostileLink, AFloodOfRequestsAndDeletionsLeavesAUsableGroup) {
  connect(2, 2);
  for (unsigned i = 0; i < 2000; ++i) {
    const auto number = static_cast<std::uint8_t>(3 + i % 250);
    inject(*client, 0, request(number));
    wire::DeleteLink deletion;
    deletion.link = LinkNumber{number};
    inject(*client, 0, deletion);
    wire::AddLinkCont keys;
    keys.link = LinkNumber{2};  // which the group now has
    inject(*client, 0, keys);
    wire::ConfirmLink confirm;
    confirm.link = LinkNumber{number};
    inject(*client, 0, confirm);
    while (client->group.poll_llc()) {
    }
  }
  EXPECT_TRUE(client->group.usable());
  EXPECT_EQ(client->group.active_links(), 2U);
}

TEST_F(HostileLink, TheKeysOfAPeerHaveALimit) {
  connect(2, 2);
  unsigned refused = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    wire::ConfirmRkey rkey;
    rkey.rkey = RemoteKey{0x1000 + i};
    rkey.others.push({LinkNumber{2}, RemoteKey{0x2000 + i}, RemoteAddress{i}});
    rkey.others.push({LinkNumber{99}, RemoteKey{1}, RemoteAddress{1}});
    inject(*server, 0, rkey);
    refused += answer<wire::ConfirmRkey>(*server).refused ? 1U : 0U;
  }
  EXPECT_EQ(refused, 1000 - (kRmbsMax - 1));
  wire::DeleteRkey unknown;
  unknown.rkeys.push(RemoteKey{5});
  unknown.rkeys.push(RemoteKey{0x1000});
  inject(*server, 0, unknown);
  const auto answered = answer<wire::DeleteRkey>(*server);
  EXPECT_TRUE(answered.some_unknown);
  EXPECT_EQ(answered.error_mask, 1);
}

TEST_F(HostileLink, KeysThatNeverEndAreStopped) {
  set_up(2, 2, 2, 1);
  while (sent<wire::AddLinkCont>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  wire::AddLinkCont more;
  more.kind = wire::LlcKind::kResponse;
  more.link = LinkNumber{2};
  more.rkeys_left = 200;
  more.rkeys.push({});
  more.rkeys.push({});
  for (std::size_t i = 0; i < kRmbsMax + 2; ++i) {
    inject(*server, 0, more);
    while (server->group.poll_llc()) {
    }
  }
  EXPECT_TRUE(server->saw(Kind::kLinkNotAdded));
  EXPECT_TRUE(server->group.usable());
}

TEST_F(HostileLink, AGroupOfOneLinkMakesNoOther) {
  connect(2, 2, 1);
  inject(*server, 0, [] {
    wire::ReqAddLink wish;
    wish.gids.push(Gid{});
    return wish;
  }());
  EXPECT_TRUE(answer<wire::ReqAddLink>(*server).rejected);
  inject(*client, 0, request(2));
  EXPECT_TRUE(answer<wire::AddLink>(*client).rejected);
  EXPECT_EQ(client->group.type(), GroupType::kSingle);
}

}  // namespace
}  // namespace fairlead::smc
