// Goal: the queue pairs of a terminated group are destroyed only after the peer's final message,
// and two Fairlead groups end each other without waiting. Method: every way to end a group, in both
// roles, with every message that may follow.
#include <gtest/gtest.h>

#include <optional>

#include "unit/smc/transcript.h"

namespace fairlead::smc {
namespace {

constexpr GroupTimes kTimes{std::chrono::seconds(30), std::chrono::seconds(600)};
constexpr TimePoint kNow{std::chrono::hours(1)};

RecordedGroup confirmed(GroupRole role) {
  RecordedGroup group(role, Terms{.max_connections = 16}, kTimes, kNow);
  group.start_first_contact({}, {}, kNow);
  wire::ConfirmLink confirm{
      .kind = role == GroupRole::kServer ? wire::LlcKind::kResponse : wire::LlcKind::kRequest,
      .link = LinkNumber{1}};
  group.handle_llc(0, {wire::LlcVersion::k2, confirm}, kNow);
  while (group.output().poll_llc()) continue;
  EXPECT_TRUE(group.usable());
  return group;
}

wire::DeleteLink all(bool orderly) { return {.all = true, .orderly = orderly}; }

// The group's final DELETE_LINK among its output, if there is one.
std::optional<wire::DeleteLink> farewell(RecordedGroup& group) {
  std::optional<wire::DeleteLink> found;
  while (const auto out = group.output().poll_llc()) {
    const auto message = wire::decode_llc(out->bytes);
    EXPECT_TRUE(message);
    const auto* last = std::get_if<wire::DeleteLink>(&message->body);
    if (last == nullptr) continue;
    EXPECT_FALSE(found.has_value()) << "said twice";
    found = *last;
  }
  return found;
}

const wire::LlcBody kOrderlyAll = all(true), kAll = all(false), kTestLink = wire::TestLink{};
const wire::LlcBody kOneLink = wire::DeleteLink{.link = LinkNumber{1}};
const wire::LlcBody kResponse =
    wire::DeleteLink{.kind = wire::LlcKind::kResponse, .link = LinkNumber{1}};

void hear(RecordedGroup& group, const wire::LlcBody& body) {
  group.handle_llc(0, {wire::LlcVersion::k2, body}, kNow);
}

TEST(Parting, AGroupThatWeEndWaitsForThePeersLastWord) {
  const struct {
    GroupRole role;
    const wire::LlcBody& says;
    bool termination_complete, answered;
  } kRows[] = {
      // A Linux server returns the request first, and then aborts its connections.
      {GroupRole::kClient, kOrderlyAll, false, false},
      {GroupRole::kClient, kAll, true, false},
      {GroupRole::kClient, kOneLink, false, false},
      {GroupRole::kClient, kResponse, false, false},
      {GroupRole::kClient, kTestLink, false, false},
      // The client ended it at the same time, and waits for the answer.
      {GroupRole::kServer, kOrderlyAll, true, true},
      {GroupRole::kServer, kAll, true, false},
      {GroupRole::kServer, kOneLink, false, false},
      {GroupRole::kServer, kResponse, false, false},
      {GroupRole::kServer, kTestLink, false, false},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(&row - kRows);
    RecordedGroup group = confirmed(row.role);
    group.terminate(wire::DeleteLinkReason::kOperator, true, "drained");
    const auto word = farewell(group);
    ASSERT_TRUE(word);
    EXPECT_TRUE(word->all && word->orderly);
    EXPECT_EQ(word->reason, wire::DeleteLinkReason::kOperator);
    EXPECT_FALSE(group.peer_terminated());
    hear(group, row.says);
    EXPECT_EQ(group.peer_terminated(), row.termination_complete);
    EXPECT_EQ(farewell(group).has_value(), row.answered);
  }
}

TEST(Parting, AnOrderlyEndByThePeerIsAnsweredOnce) {
  for (const GroupRole role : {GroupRole::kClient, GroupRole::kServer}) {
    RecordedGroup group = confirmed(role);
    hear(group, kOrderlyAll);
    EXPECT_TRUE(group.terminated());
    EXPECT_TRUE(group.peer_terminated());
    const auto answer = farewell(group);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->all);
    EXPECT_FALSE(answer->orderly);
    hear(group, kOrderlyAll);
    hear(group, kAll);
    EXPECT_FALSE(farewell(group));
  }
}

TEST(Parting, ALastWordOfThePeerNeedsNoAnswer) {
  for (const GroupRole role : {GroupRole::kClient, GroupRole::kServer}) {
    RecordedGroup group = confirmed(role);
    hear(group, kAll);
    EXPECT_TRUE(group.peer_terminated());
    EXPECT_FALSE(farewell(group));
  }
}

TEST(Parting, ThePeersEndOfTheOnlyLinkIsItsLastWord) {
  RecordedGroup group = confirmed(GroupRole::kClient);
  hear(group, kOneLink);
  EXPECT_TRUE(group.terminated());
  EXPECT_TRUE(group.peer_terminated());
}

TEST(Parting, AGroupThatNeverHadALinkWaitsForNobody) {
  RecordedGroup group(GroupRole::kServer, Terms{}, kTimes, kNow);
  group.terminate(wire::DeleteLinkReason::kOperator, true, "drained");
  EXPECT_TRUE(group.peer_terminated());
  EXPECT_FALSE(group.output().poll_llc());
}

// For each side that ends it, and also if both do at once.
TEST(Parting, TwoOfOurKindPartWithoutWaiting) {
  for (const bool server_ends : {false, true})
    for (const bool client_ends : {false, true}) {
      if (!server_ends && !client_ends) continue;
      RecordedGroup server = confirmed(GroupRole::kServer);
      RecordedGroup client = confirmed(GroupRole::kClient);
      if (server_ends) server.terminate(wire::DeleteLinkReason::kOperator, true, "drained");
      if (client_ends) client.terminate(wire::DeleteLinkReason::kProgram, true, "idle");
      for (bool any = true; any;) {
        any = false;
        for (RecordedGroup* from : {&server, &client})
          while (const auto out = from->output().poll_llc()) {
            (from == &server ? client : server)
                .handle_llc(out->link, *wire::decode_llc(out->bytes), kNow);
            any = true;
          }
      }
      EXPECT_TRUE(server.peer_terminated() && client.peer_terminated());
    }
}

}  // namespace
}  // namespace fairlead::smc
