// Goal: CONFIRM_RKEY announces an RMB on every link, for any number of links, and is repeated while
// the peer's links change. A peer that violates its protocol loses only its group. Method:
// link_hosts.h.
#include "unit/smc/link_hosts.h"

namespace fairlead::smc {
namespace {

using Kind = GroupEvent::Kind;
using wire::LlcKind;

class LinkRkeys : public LinkHosts {
 protected:
  // Three links share the client's only port. When its second port comes up, a fourth link exists
  // until the server deletes the two redundant ones. The client does not know of that yet.
  void connect_four_links(std::uint8_t version) {
    connect(3, 1, 3, version);
    ASSERT_EQ(numbers(*client), (std::vector<unsigned>{1, 2, 3}));
    client->up.push_back(true);
    client->group.handle_ports_changed(std::vector{client->gid(0), client->gid(1)}, now);
    while (client->group.links().active_count() < 4) ASSERT_TRUE(carry(*client) || carry(*server));
  }
  LinkIndex index_of(const Host& host, unsigned number) {
    for (LinkIndex i = 0; i < kLinksMax; ++i)
      if (host.group.links().active(i) && host.group.links()[i]->number().value == number) return i;
    ADD_FAILURE() << "no link " << number;
    return 0;
  }
  // Changes the next answer to CONFIRM_RKEY that the client receives.
  void refuse_next(bool retry) {
    const auto request = server->group.output().poll_llc().value();
    const auto message = wire::decode_llc(request.bytes);
    auto refusal = std::get<wire::ConfirmRkey>(message->body);
    refusal.kind = LlcKind::kResponse;
    refusal.refused = true;
    refusal.retry = retry;
    inject(*server, request.link, refusal);
  }
};

class LinkRkeysVersions : public LinkRkeys, public testing::WithParamInterface<std::uint8_t> {};
INSTANTIATE_TEST_SUITE_P(Versions, LinkRkeysVersions, testing::Values(1, 2));

TEST_P(LinkRkeysVersions, AFourthLinkIsNamedInAContinuation) {
  connect_four_links(GetParam());
  trace.clear();
  const RmbRow row = tell_rmb(*client);
  EXPECT_TRUE(client->saw(Kind::kRmbAnnounced));
  EXPECT_TRUE(client->announced(row));
  const auto begun = sent<wire::ConfirmRkey>(false);
  const auto continued = sent<wire::ConfirmRkeyCont>(false);
  ASSERT_EQ(begun.size(), 1U);
  ASSERT_EQ(continued.size(), 1U);
  EXPECT_EQ(begun[0].others.count, 2U);
  EXPECT_EQ(begun[0].to_follow, 1);
  ASSERT_EQ(continued[0].others.count, 1U);
  EXPECT_EQ(continued[0].others.items[0].link, LinkNumber{4});
  EXPECT_EQ(sent<wire::ConfirmRkeyCont>(true).at(0).kind, LlcKind::kResponse);
  EXPECT_FALSE(sent<wire::ConfirmRkeyCont>(true).at(0).refused);
  const LinkIndex fourth = index_of(*client, 4);
  EXPECT_EQ(server->group.peer_rmbs().translate(0, client->key(row, 0), index_of(*server, 4)),
            client->key(row, fourth));
  // The redundant links are deleted nevertheless.
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
  EXPECT_EQ(numbers(*client), (std::vector<unsigned>{1, 4}));
}

TEST_F(LinkRkeys, AnUnansweredContinuationIsReportedAndBlocksNothing) {
  connect_four_links(2);
  drop<wire::ConfirmRkeyCont>();
  tell_rmb(*client);
  advance(kLlcAnswerWait);
  EXPECT_TRUE(client->saw(Kind::kRmbRefused));
  dropped.clear();
  trace.clear();
  const RmbRow next = tell_rmb(*client);
  EXPECT_TRUE(client->saw(Kind::kRmbAnnounced));
  EXPECT_TRUE(client->announced(next));
}

TEST_F(LinkRkeys, TheWholeRequestIsRepeatedWhenItsCarrierDiesBeforeTheContinuation) {
  connect_four_links(2);
  const RmbRow row = begin_to_tell_rmb(*client);
  trace.clear();
  while (sent<wire::ConfirmRkey>(true).empty()) ASSERT_TRUE(carry(*client) || carry(*server));
  for (Host* host : {&*client, &*server}) host->lose_link(0, now);
  for (int i = 0; i < 4; ++i) advance(kLlcAnswerWait);
  EXPECT_TRUE(client->announced(row));
  EXPECT_GE(sent<wire::ConfirmRkey>(false).size(), 2U);
  EXPECT_TRUE(server->group.usable());
}

TEST_F(LinkRkeys, ARefusalToBeRepeatedIsRepeated) {
  connect(2, 2);
  const RmbRow row = begin_to_tell_rmb(*server);
  refuse_next(true);
  EXPECT_TRUE(server->events().empty() || !server->announced(row));
  EXPECT_EQ(server->group.next_deadline(), now + kConfirmRkeyRetryWait);
  EXPECT_TRUE(silent(*server));
  advance(kConfirmRkeyRetryWait);
  EXPECT_TRUE(server->saw(Kind::kRmbAnnounced));
  EXPECT_EQ(client->group.peer_rmbs().translate(0, server->key(row, 0), 1), server->key(row, 1));
}

TEST_F(LinkRkeys, ARefusalThatIsFinalIsNotRepeated) {
  connect(2, 2);
  server->events();
  const RmbRow row = begin_to_tell_rmb(*server);
  refuse_next(false);
  EXPECT_TRUE(server->saw(Kind::kRmbRefused));
  EXPECT_TRUE(server->announced(row));
  EXPECT_TRUE(server->group.local_rmbs().refused(row));
  advance(kConfirmRkeyRetryWait);
  EXPECT_TRUE(silent(*server));
  // Another RMB in its row is not refused.
  delete_rmb(*server, row);
  ASSERT_TRUE(server->group.local_rmbs().deleted(row));
  server->remove_rmb(row);
  EXPECT_FALSE(server->group.local_rmbs().refused(row));
}

// As a Linux peer whose table of keys is full.
TEST_F(LinkRkeys, APeerThatAlwaysWantsARepetitionIsAskedSoOftenAndNoMore) {
  connect(2, 2);
  server->events();
  for (int round = 0; round < 2; ++round) {
    begin_to_tell_rmb(*server);
    for (unsigned i = 0; i <= kConfirmRkeyRetriesMax; ++i) {
      refuse_next(true);
      now += kConfirmRkeyRetryWait;
      server->group.handle_deadline(now);
    }
    EXPECT_TRUE(server->saw(Kind::kRmbRefused)) << round;
    EXPECT_TRUE(silent(*server));
  }
}

// The client cannot write to the server's memory over the new link, and says so at once.
TEST_F(LinkRkeys, ALinkOverWhichMemoryCannotBeWrittenIsNotAdded) {
  connect(1, 1);
  server->events();
  client->events();
  trace.clear();
  drop<wire::ConfirmLink>();
  for (Host* host : {&*server, &*client}) host->up.push_back(true);
  restore(*server, 1);
  ASSERT_EQ(sent<wire::ConfirmLink>(true).size(), 1U);
  const wire::ConfirmLink request = sent<wire::ConfirmLink>(true)[0];
  LinkIndex added = 0;
  while (!client->group.links()[added] || client->group.links()[added]->number() != request.link)
    ++added;
  client->group.handle_llc(added, {wire::LlcVersion::k2, request}, now, "mapping");
  client->perform(now);
  settle();
  EXPECT_TRUE(client->saw(Kind::kLinkNotAdded));
  EXPECT_TRUE(server->saw(Kind::kLinkNotAdded));
  EXPECT_TRUE(sent<wire::ConfirmLink>(false).empty());
  expect_types(GroupType::kSingle, GroupType::kSingle);
}

// Another link can be added while a key waits for its repetition.
TEST_F(LinkRkeys, ALinkThatIsAddedMeanwhileIsPartOfTheRepetition) {
  connect(1, 1);
  const RmbRow row = begin_to_tell_rmb(*server);
  refuse_next(true);
  server->up.push_back(true);
  client->up.push_back(true);
  restore(*server, 1);
  expect_types(GroupType::kSymmetric, GroupType::kSymmetric);
  advance(kConfirmRkeyRetryWait);
  EXPECT_EQ(client->group.peer_rmbs().translate(0, server->key(row, 0), index_of(*client, 3)),
            server->key(row, index_of(*server, 3)));
}

// The keys for the new link have been listed by then, and this one was not among them.
TEST_F(LinkRkeys, AKeyWithoutTheLinkThatIsBeingAddedIsRefusedForNow) {
  set_up(2, 2);
  while (sent<wire::AddLink>(false).empty()) ASSERT_TRUE(carry(*server) || carry(*client));
  ASSERT_TRUE(carry(*server));  // CONFIRM_LINK, on the new link
  ASSERT_EQ(server->group.links()[1]->state(), LinkState::kActivating);
  wire::ConfirmRkey early{.rkey = RemoteKey{0x777}};
  const wire::ConfirmRkey refused = ask(*server, 0, early);
  EXPECT_TRUE(refused.refused && refused.retry);
  early.to_follow = 1;
  for (const LinkNumber other : {LinkNumber{98}, LinkNumber{99}})
    early.others.push({other, {}, {}});
  EXPECT_FALSE(ask(*server, 0, early).refused);
  wire::ConfirmRkeyCont rest;
  rest.others.push({LinkNumber{97}, {}, {}});
  EXPECT_TRUE(ask(*server, 0, rest).retry);
}

class HostileRkeys : public LinkRkeys {
 protected:
  void expect_violation(Host& host) {
    const auto last = answer<wire::DeleteLink>(host);
    EXPECT_TRUE(last.all);
    EXPECT_EQ(last.reason, wire::DeleteLinkReason::kProtocolViolation);
    EXPECT_TRUE(host.group.terminated());
    EXPECT_TRUE(host.saw(Kind::kTerminated));
  }
  static wire::ConfirmRkeyCont rest(std::size_t count, std::uint8_t to_follow) {
    wire::ConfirmRkeyCont made;
    for (std::size_t i = 0; i < count; ++i) made.others.push({LinkNumber{9}, {}, {}});
    made.to_follow = to_follow;
    return made;
  }
  static wire::ConfirmRkey begin(std::uint8_t to_follow) {
    wire::ConfirmRkey made{.rkey = RemoteKey{0x999}};
    for (int i = 0; i < 2; ++i) made.others.push({LinkNumber{9}, {}, {}});
    made.to_follow = to_follow;
    return made;
  }
};

TEST_F(HostileRkeys, AContinuationThatNeverBeganEndsTheGroup) {
  for (const bool at_server : {false, true}) {
    connect(2, 2);
    Host& host = at_server ? *server : *client;
    host.events();
    inject(host, 0, rest(1, 0));
    expect_violation(host);
  }
}

TEST_F(HostileRkeys, AContinuationOnAnotherLinkEndsTheGroup) {
  connect(2, 2);
  EXPECT_FALSE(ask(*server, 0, begin(1)).refused);
  inject(*server, 1, rest(1, 0));
  expect_violation(*server);
}

TEST_F(HostileRkeys, CountsThatLieEndTheGroup) {
  const struct {
    std::uint8_t announced;
    std::size_t count;
    std::uint8_t to_follow;
  } kTable[] = {{1, 2, 0}, {2, 1, 0}, {4, 3, 0}, {1, 3, 3}, {5, 3, 1}};
  for (const auto& row : kTable) {
    connect(2, 2);
    EXPECT_FALSE(ask(*server, 0, begin(row.announced)).refused);
    inject(*server, 0, rest(row.count, row.to_follow));
    expect_violation(*server);
  }
}

TEST_F(HostileRkeys, AContinuationOfAKeyThatWasRefusedOrDeletedIsRefused) {
  connect(2, 2);
  ask(*server, 0, begin(1));
  wire::DeleteRkey deletion;
  deletion.rkeys.push(RemoteKey{0x999});
  EXPECT_FALSE(ask(*server, 0, deletion).some_unknown);
  const auto refused = ask(*server, 0, rest(1, 0));
  EXPECT_TRUE(refused.refused);
  EXPECT_FALSE(refused.retry);
  EXPECT_TRUE(server->group.usable());
}

// It was sent before the loss of its link was known to the peer.
TEST_F(HostileRkeys, AContinuationOnALostLinkIsIgnored) {
  connect(2, 2);
  ask(*server, 1, begin(1));
  server->group.handle_link_down(1, now, "the cable was cut");
  server->group.handle_llc(1, {wire::LlcVersion::k2, wire::LlcBody(rest(1, 0))}, now);
  EXPECT_TRUE(server->group.usable());
}

TEST_F(HostileRkeys, AnswersThatNobodyAskedForAreIgnored) {
  connect(2, 2);
  wire::ConfirmRkeyCont unasked = rest(1, 0);
  unasked.kind = LlcKind::kResponse;
  unasked.refused = unasked.retry = true;
  inject(*server, 0, unasked);
  EXPECT_TRUE(silent(*server));
  EXPECT_TRUE(server->group.usable());
}

}  // namespace
}  // namespace fairlead::smc
