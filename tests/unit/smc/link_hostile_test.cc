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

wire::ReqAddLink wish() {
  wire::ReqAddLink message;
  message.gids.push(Gid{});
  return message;
}

// Every message that the version has, as request and as answer.
std::vector<std::vector<std::byte>> all_messages(wire::LlcVersion version) {
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
    bodies.push_back(wish());
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
  HostileLlc() : spoken(static_cast<std::uint8_t>(std::get<0>(GetParam()))) {}
  Host& victim() { return std::get<1>(GetParam()) ? *server : *client; }
  wire::LlcVersion foreign() const {
    return spoken == 1 ? wire::LlcVersion::k2 : wire::LlcVersion::k1;
  }
  void expect_violation(const std::string& what) {
    EXPECT_TRUE(victim().group.terminated()) << what;
    const auto word = answer<wire::DeleteLink>(victim());
    EXPECT_TRUE(word.all) << what;
    EXPECT_EQ(word.reason, wire::DeleteLinkReason::kProtocolViolation) << what;
  }
  const std::uint8_t spoken;
};

INSTANTIATE_TEST_SUITE_P(Sides, HostileLlc,
                         testing::Combine(testing::Values(1, 2), testing::Bool()));

TEST_P(HostileLlc, AnyMessageOfTheOtherVersionEndsTheGroup) {
  for (const auto& bytes : all_messages(foreign()))
    for (const bool confirmed : {false, true}) {
      confirmed ? connect(2, 1, 2, spoken) : set_up(2, 1, 2, spoken);
      drop_output(victim());
      victim().group.handle_llc(0, *wire::decode_llc(bytes), now);
      EXPECT_FALSE(victim().group.usable());
      expect_violation("first byte " + std::to_string(std::to_integer<int>(bytes[0])));
    }
}

// Whatever order they come in: the group stays as it is, or ends.
TEST_P(HostileLlc, NoOrderOfItsOwnMessagesDoesMoreThanEndTheGroup) {
  std::minstd_rand random(std::get<1>(GetParam()) ? 1 : 2);
  for (int round = 0; round < 300; ++round) {
    round % 2 == 0 ? connect(2, 2, 2, spoken) : set_up(2, 2, 2, spoken);
    for (int i = 0; i < 40 && !victim().group.terminated(); ++i) {
      const auto messages = all_messages(version());
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
    victim().events();
  }
}

TEST_F(HostileLink, ARequestForALinkThatExistsIsRejected) {
  connect(2, 2);
  for (const std::uint8_t number : std::vector<std::uint8_t>{1, 2, 0}) {
    EXPECT_TRUE(ask(*client, 0, add_link_request(number)).rejected) << int{number};
  }
  EXPECT_EQ(client->group.links().active_count(), 2U);
}

TEST_F(HostileLink, KeysOfALinkThatNobodyAddsEndTheGroup) {
  for (const bool to_server : {true, false}) {
    connect(1, 1, 2, 1);
    Host& host = to_server ? *server : *client;
    wire::AddLinkCont keys{.kind = to_server ? wire::LlcKind::kResponse : wire::LlcKind::kRequest,
                           .link = LinkNumber{77}};
    inject(host, 0, keys);
    EXPECT_TRUE(host.group.terminated());
    const auto word = answer<wire::DeleteLink>(host);
    EXPECT_TRUE(word.all);
    EXPECT_EQ(word.reason, wire::DeleteLinkReason::kProtocolViolation);
  }
}

TEST_F(HostileLink, KeysThatComeTooLateAreIgnored) {
  connect(2, 2, 2, 1);
  wire::AddLinkCont keys{.kind = wire::LlcKind::kRequest, .link = LinkNumber{2}};
  inject(*client, 0, keys);
  keys.kind = wire::LlcKind::kResponse;
  inject(*server, 0, keys);
  EXPECT_TRUE(client->group.usable() && server->group.usable());
}

TEST_F(HostileLink, ASecondRequestDuringTheFirstIsRejected) {
  connect(1, 1);
  client->up.push_back(true);
  EXPECT_FALSE(ask(*client, 0, add_link_request(7)).rejected);
  EXPECT_TRUE(ask(*client, 0, add_link_request(8)).rejected);
}

TEST_F(HostileLink, ALinkThatIsNeverConfirmedIsLetGoAndTold) {
  connect(1, 1);
  client->up.push_back(true);
  ask(*client, 0, add_link_request(7));
  now += kAddedLinkWait;
  client->wake(now);
  EXPECT_EQ(answer<wire::DeleteLink>(*client).link, LinkNumber{7});
  EXPECT_EQ(client->released.size(), 1U);
  EXPECT_TRUE(client->group.usable());
}

TEST_F(HostileLink, ConfirmationsOfOtherLinksChangeNothing) {
  set_up(2, 2);
  while (sent<wire::AddLink>(false).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  wire::ConfirmLink wrong{.kind = wire::LlcKind::kResponse, .link = LinkNumber{2}};
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
    wire::DeleteLink request{.link = LinkNumber{static_cast<std::uint8_t>(number)}};
    for (Host* host : {&*server, &*client}) {
      EXPECT_EQ(ask(*host, 1, request).reason, wire::DeleteLinkReason::kUnknownLink);
    }
  }
  EXPECT_EQ(server->group.links().active_count(), 2U);
}

TEST_F(HostileLink, AFloodOfWishesStartsOneFlow) {
  connect(2, 1);
  trace.clear();
  for (int i = 0; i < 1000; ++i) inject(*server, 0, wish());
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
    inject(*client, 0, wire::DeleteLink{.link = LinkNumber{number}});
    wire::AddLinkCont keys;
    keys.link = LinkNumber{2};  // which the group now has
    inject(*client, 0, keys);
    inject(*client, 0, wire::ConfirmLink{.link = LinkNumber{number}});
    drop_output(*client);
  }
  EXPECT_TRUE(client->group.usable());
  EXPECT_EQ(client->group.links().active_count(), 2U);
}

TEST_F(HostileLink, AGroupOfOneLinkMakesNoOther) {
  connect(2, 2, 1);
  EXPECT_TRUE(ask(*server, 0, wish()).rejected);
  EXPECT_TRUE(ask(*client, 0, add_link_request(2)).rejected);
  EXPECT_EQ(client->group.links().type(), GroupType::kSingle);
}

}  // namespace
}  // namespace fairlead::smc
