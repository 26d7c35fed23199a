// Goal: a peer that violates the protocol of link control harms at most its own group. Method:
// messages that no correct peer sends, to otherwise correct groups (link_hosts.h).
#include <array>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "unit/smc/link_hosts.h"

namespace fairlead::smc {
namespace {

using Kind = GroupEvent::Kind;

std::vector<std::byte> encoded(wire::LlcVersion version, const wire::LlcBody& body) {
  std::array<std::byte, wire::kLlcBytesMax> bytes;
  const std::size_t count = wire::encode(wire::LlcMessage{version, body}, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Every message that the version has, as request and as answer.
std::vector<std::vector<std::byte>> all_messages(wire::LlcVersion version) {
  wire::ReqAddLink wish;
  wish.gids.push(Gid{});
  wire::ConfirmRkeyCont more_links;
  more_links.others.push({});
  wire::DeleteRkey gone;
  gone.rkeys.push(RemoteKey{1});
  std::vector<wire::LlcBody> bodies{wire::ConfirmLink{},
                                    wire::AddLink{},
                                    wire::DeleteLink{},
                                    wire::ConfirmRkey{},
                                    wire::TestLink{},
                                    more_links,
                                    gone};
  if (version == wire::LlcVersion::k1)
    bodies.push_back(wire::AddLinkCont{});
  else
    bodies.push_back(wish);
  std::vector<std::vector<std::byte>> messages;
  for (const wire::LlcBody& body : bodies)
    for (const std::byte answer : std::array{std::byte{0}, std::byte{0x80}}) {
      messages.push_back(encoded(version, body));
      messages.back()[3] |= answer;
    }
  return messages;
}

class HostileLink : public LinkHosts {};

// In each version of a group, at each side.
class HostileLlc : public LinkHosts, public testing::WithParamInterface<std::tuple<int, bool>> {
 protected:
  HostileLlc() : version(static_cast<std::uint8_t>(std::get<0>(GetParam()))) {}
  Host& victim() { return std::get<1>(GetParam()) ? *server : *client; }
  wire::LlcVersion own() const {
    return version == 1 ? wire::LlcVersion::k1 : wire::LlcVersion::k2;
  }
  wire::LlcVersion foreign() const {
    return version == 1 ? wire::LlcVersion::k2 : wire::LlcVersion::k1;
  }
  void expect_violation(const std::string& what) {
    EXPECT_TRUE(victim().group.terminated()) << what;
    const auto word = answer<wire::DeleteLink>(victim());
    EXPECT_TRUE(word.all) << what;
    EXPECT_EQ(word.reason, wire::DeleteLinkReason::kProtocolViolation) << what;
  }
  const std::uint8_t version;
};

INSTANTIATE_TEST_SUITE_P(Sides, HostileLlc,
                         testing::Combine(testing::Values(1, 2), testing::Bool()));

TEST_P(HostileLlc, AnyMessageOfTheOtherVersionEndsTheGroup) {
  for (const auto& bytes : all_messages(foreign())) {
    connect(2, 1, 2, version);
    const auto message = wire::decode_llc(bytes);
    ASSERT_TRUE(message);
    victim().group.handle_llc(0, *message, now);
    expect_violation("first byte " + std::to_string(std::to_integer<int>(bytes[0])));
  }
}

TEST_P(HostileLlc, NoMessageOfTheOtherVersionBeginsAGroup) {
  for (const auto& bytes : all_messages(foreign())) {
    set_up(1, 1, 2, version);
    while (victim().group.output().poll_llc()) {
    }
    victim().group.handle_llc(0, *wire::decode_llc(bytes), now);
    EXPECT_FALSE(victim().group.usable());
    expect_violation("before the link is confirmed");
  }
}

TEST_P(HostileLlc, AnyLengthButTheWholeMessageIsRefused) {
  for (auto bytes : all_messages(own())) {
    for (std::size_t count = 0; count < wire::kLlcBytes; ++count)
      EXPECT_FALSE(wire::decode_llc(std::span(bytes).first(count))) << count;
    for (const int length : {0, 43, 45, 255}) {
      bytes[1] = static_cast<std::byte>(length);
      const auto message = wire::decode_llc(bytes);
      EXPECT_EQ(message.has_value(), version == 2) << length;
      if (message) continue;
      EXPECT_EQ(message.error().code, Errc::kMalformed);
    }
  }
}

// Whatever order they come in: the group stays as it is, or ends.
TEST_P(HostileLlc, NoOrderOfItsOwnMessagesDoesMoreThanEndTheGroup) {
  std::minstd_rand random(std::get<1>(GetParam()) ? 1 : 2);
  for (int round = 0; round < 300; ++round) {
    round % 2 == 0 ? connect(2, 2, 2, version) : set_up(2, 2, 2, version);
    for (int i = 0; i < 40 && !victim().group.terminated(); ++i) {
      const auto messages = all_messages(own());
      auto bytes = messages[random() % messages.size()];
      for (std::size_t damaged = random() % 4; damaged != 0; --damaged)
        bytes[3 + random() % (wire::kLlcBytes - 3)] = static_cast<std::byte>(random() % 4);
      const auto message = wire::decode_llc(bytes);
      if (!message) continue;
      victim().group.handle_llc(static_cast<LinkIndex>(random() % kLinksMax), *message, now);
      victim().perform(now);
      if (random() % 8 == 0) victim().group.handle_deadline(now += std::chrono::seconds(1));
      victim().perform(now);
      while (const auto out = victim().group.output().poll_llc())
        EXPECT_TRUE(wire::decode_llc(out->bytes));
    }
    EXPECT_TRUE(victim().group.terminated() || victim().group.links().active_count() <= 2U);
    while (victim().group.output().poll_event()) {
    }
  }
}

TEST_F(HostileLink, ARequestForALinkThatExistsIsRejected) {
  connect(2, 2);
  for (const std::uint8_t number : std::vector<std::uint8_t>{1, 2, 0}) {
    inject(*client, 0, add_link_request(number));
    EXPECT_TRUE(answer<wire::AddLink>(*client).rejected) << int{number};
  }
  EXPECT_EQ(client->group.links().active_count(), 2U);
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
    wire::AddLink made = add_link_request(9);
    made.mtu_code = code;
    inject(*client, 0, made);
    EXPECT_TRUE(answer<wire::AddLink>(*client).rejected) << int{code};
  }
}

TEST_F(HostileLink, MoreLinksThanAgreedAreRejected) {
  connect(3, 3, 2);
  inject(*client, 0, add_link_request(7));
  EXPECT_TRUE(answer<wire::AddLink>(*client).rejected);
}

TEST_F(HostileLink, ASecondRequestDuringTheFirstIsRejected) {
  connect(1, 1);
  client->up.push_back(true);
  inject(*client, 0, add_link_request(7));
  EXPECT_FALSE(answer<wire::AddLink>(*client).rejected);
  inject(*client, 0, add_link_request(8));
  EXPECT_TRUE(answer<wire::AddLink>(*client).rejected);
}

TEST_F(HostileLink, ALinkThatIsNeverConfirmedIsLetGoAndTold) {
  connect(1, 1);
  client->up.push_back(true);
  inject(*client, 0, add_link_request(7));
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
  wire::AddLink wrong = add_link_request(77);
  wrong.kind = wire::LlcKind::kResponse;
  inject(*server, 0, wrong);
  EXPECT_FALSE(server->group.output().poll_llc());
  settle();
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
}

TEST_F(HostileLink, AnAnswerWithALargerMtuThanOfferedFails) {
  set_up(2, 2);
  while (sent<wire::AddLink>(true).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  wire::AddLink wrong = add_link_request(2);
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
  EXPECT_EQ(server->group.links().active_count(), 1U);
  wrong.link = LinkNumber{1};
  if (server->group.links()[1]) inject(*server, 1, wrong);  // the wrong number
  EXPECT_EQ(server->group.links().active_count(), 1U);
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
  EXPECT_EQ(server->group.links().active_count(), 2U);
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
    inject(*client, 0, add_link_request(number));
    wire::DeleteLink deletion;
    deletion.link = LinkNumber{number};
    inject(*client, 0, deletion);
    wire::AddLinkCont keys;
    keys.link = LinkNumber{2};  // which the group now has
    inject(*client, 0, keys);
    wire::ConfirmLink confirm;
    confirm.link = LinkNumber{number};
    inject(*client, 0, confirm);
    while (client->group.output().poll_llc()) {
    }
  }
  EXPECT_TRUE(client->group.usable());
  EXPECT_EQ(client->group.links().active_count(), 2U);
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
    while (server->group.output().poll_llc()) {
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
  inject(*client, 0, add_link_request(2));
  EXPECT_TRUE(answer<wire::AddLink>(*client).rejected);
  EXPECT_EQ(client->group.links().type(), GroupType::kSingle);
}

}  // namespace
}  // namespace fairlead::smc
