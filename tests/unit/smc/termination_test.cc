// Goal: a group ends after the final message of each side. Method: the exchange alone.
#include "smc/group/termination.h"

#include <gtest/gtest.h>

#include "group_parts.h"

namespace fairlead::smc {
namespace {

wire::LlcMessage delete_all(bool orderly) {
  return {wire::LlcVersion::k2, wire::DeleteLink{.all = true, .orderly = orderly}};
}

TEST(Termination, IsSaidOverALinkIfOneIsLeft) {
  PartsForTest parts{GroupRole::kServer};
  Termination none;
  EXPECT_FALSE(none.begin(parts, wire::DeleteLinkReason::kProgram, true));
  EXPECT_TRUE(none.peer_terminated());
  parts.add_link(1);
  Termination termination;
  EXPECT_EQ(termination.begin(parts, wire::DeleteLinkReason::kOperator, true), LinkIndex{0});
  const auto sent = parts.sent<wire::DeleteLink>(0);
  EXPECT_TRUE(sent.all && sent.orderly);
  EXPECT_EQ(sent.reason, wire::DeleteLinkReason::kOperator);
  EXPECT_FALSE(termination.peer_terminated());
}

TEST(Termination, OnlyAnOrderlyRequestIsAnswered) {
  for (const bool orderly : {false, true}) {
    PartsForTest parts{GroupRole::kClient};
    parts.add_link(1);
    Termination termination;
    termination.take_first(parts, std::get<wire::DeleteLink>(delete_all(orderly).body));
    EXPECT_TRUE(termination.peer_terminated());
    if (orderly) {
      EXPECT_FALSE(parts.sent<wire::DeleteLink>(0).orderly);
    }
    EXPECT_TRUE(parts.silent());
  }
}

// A Linux server repeats the client's request, and a client's own request may have crossed.
TEST(Termination, AnOrderlyRequestAfterTheEndCountsFromAClientOnly) {
  PartsForTest client{GroupRole::kClient};
  client.add_link(1);
  Termination of_client;
  of_client.take_later(client, delete_all(true));
  EXPECT_FALSE(of_client.peer_terminated());
  EXPECT_TRUE(client.silent());

  PartsForTest server{GroupRole::kServer};
  server.add_link(1);
  Termination of_server;
  of_server.take_later(server, delete_all(true));
  EXPECT_TRUE(of_server.peer_terminated());
  EXPECT_FALSE(server.sent<wire::DeleteLink>(0).orderly);
}

TEST(Termination, OtherMessagesAreNotTheLast) {
  PartsForTest parts{GroupRole::kClient};
  parts.add_link(1);
  Termination termination;
  termination.take_later(parts, {wire::LlcVersion::k2, wire::DeleteLink{}});
  termination.take_later(parts, {wire::LlcVersion::k2, wire::TestLink{}});
  EXPECT_FALSE(termination.peer_terminated());
  termination.take_later(parts, delete_all(false));
  EXPECT_TRUE(termination.peer_terminated());
}

}  // namespace
}  // namespace fairlead::smc
