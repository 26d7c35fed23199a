// Goal: peers at one address can have only a part of the groups and of the memory.
#include "relay/group/peer_table.h"

#include <gtest/gtest.h>

namespace fairlead::relay {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(GroupsPerAddress, LeaveMostOfTheMemoryToOthers) {
  for (const std::size_t memory : {16 * kMiB, 32 * kMiB, 64 * kMiB, 256 * kMiB}) {
    const std::size_t clients = groups_per_address_max(smc::GroupRole::kServer, memory);
    const std::size_t servers = groups_per_address_max(smc::GroupRole::kClient, memory);
    EXPECT_LE(clients * kGroupBytes, memory / kClientGroupsPart);
    EXPECT_LE(servers * kGroupBytes, memory / kServerGroupsPart);
    EXPECT_GT(servers, clients);
  }
}

TEST(GroupsPerAddress, LeaveMostOfTheTableToOthers) {
  const std::size_t memory = std::size_t{1} << 40;
  EXPECT_EQ(groups_per_address_max(smc::GroupRole::kServer, memory),
            kGroupsMax / kClientGroupsPart);
  EXPECT_EQ(groups_per_address_max(smc::GroupRole::kClient, memory),
            kGroupsMax / kServerGroupsPart);
}

TEST(GroupsPerAddress, AllowSomeHoweverSmallTheMemoryIs) {
  EXPECT_EQ(groups_per_address_max(smc::GroupRole::kServer, 0), kGroupsPerAddressMin);
  EXPECT_EQ(groups_per_address_max(smc::GroupRole::kClient, kMiB), kGroupsPerAddressMin);
}

}  // namespace
}  // namespace fairlead::relay
