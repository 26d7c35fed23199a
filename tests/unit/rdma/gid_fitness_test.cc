// The order in which GIDs are preferred for a connection.
#include "rdma/verbs/gid_fitness.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

namespace fairlead::rdma::verbs {
namespace {

Gid gid(const char* text) {
  Gid made;
  EXPECT_EQ(inet_pton(AF_INET6, text, made.bytes.data()), 1) << text;
  return made;
}

class GidFitness : public testing::Test {
 protected:
  std::optional<int> of(const char* text, GidType type = GidType::kRoceV2) const {
    return gid_fitness({gid(text), type, 0, 2}, question_, {addresses_, named_, route_});
  }

  GidQuestion question_{gid("::ffff:10.244.1.20"), gid("::ffff:10.244.2.2"), std::nullopt};
  std::vector<InterfaceAddress> addresses_;
  std::vector<Gid> named_;
  std::function<std::optional<Route>(const Gid&, const Gid&)> route_;
};

TEST_F(GidFitness, PrefersThePodsAddressThenTheNodesThenOthers) {
  addresses_ = {{2, "eth0", gid("::ffff:10.244.1.20"), 120},
                {3, "net1", gid("::ffff:10.9.0.50"), 120},
                {3, "net1", gid("fe80::50"), 64}};
  named_ = {gid("::ffff:10.9.0.1")};
  EXPECT_GT(of("::ffff:10.9.0.50"), of("::ffff:10.9.0.1"));
  EXPECT_GT(of("::ffff:10.9.0.1"), of("::ffff:10.9.0.77"));
  EXPECT_GT(of("::ffff:10.9.0.77"), of("fe80::50"));
  EXPECT_GT(of("::ffff:10.9.0.77"), of("::ffff:10.9.0.77", GidType::kRoceV1));
  EXPECT_GT(of("::ffff:10.9.0.50", GidType::kRoceV1), of("::ffff:10.9.0.1"));
}

TEST_F(GidFitness, PrefersTheSubnetOfTheConnectionThenItsRoute) {
  addresses_ = {{2, "eth0", gid("::ffff:10.244.1.20"), 120},
                {3, "eth1", gid("::ffff:10.8.0.1"), 120},
                {4, "eth2", gid("::ffff:10.7.0.1"), 120}};
  route_ = [](const Gid&, const Gid&) { return Route{3, false}; };
  EXPECT_GT(of("::ffff:10.244.1.20"), of("::ffff:10.8.0.1"));
  EXPECT_GT(of("::ffff:10.8.0.1"), of("::ffff:10.7.0.1"));
}

TEST_F(GidFitness, NeedsTheFamilyAndARouteOfThePeersGid) {
  addresses_ = {{3, "eth1", gid("::ffff:10.8.0.1"), 120}};
  question_.peer_gid = gid("::ffff:10.8.0.2");
  EXPECT_TRUE(of("::ffff:10.8.0.1"));
  EXPECT_FALSE(of("2001:db8::1"));
  EXPECT_FALSE(of("fe80::1"));
  route_ = [](const Gid&, const Gid&) { return std::nullopt; };
  EXPECT_FALSE(of("::ffff:10.8.0.1"));
  // The node's routes are not visible, so its addresses may be usable.
  EXPECT_TRUE(of("::ffff:10.9.0.1"));
}

TEST_F(GidFitness, KeepsToTheVlanOfTheRoute) {
  addresses_ = {{3, "eth1", gid("::ffff:10.8.0.1"), 120, 0},
                {4, "eth1.7", gid("::ffff:10.7.0.1"), 120, 7},
                {5, "eth1.9", gid("::ffff:10.6.0.1"), 120, 9}};
  question_.peer_gid = gid("::ffff:10.7.0.2");
  route_ = [](const Gid&, const Gid&) { return Route{4, false}; };
  EXPECT_TRUE(of("::ffff:10.7.0.1"));
  EXPECT_FALSE(of("::ffff:10.8.0.1"));
  EXPECT_FALSE(of("::ffff:10.6.0.1"));
  // Only a preference as long as the peer's GID is unknown.
  question_.peer_gid.reset();
  EXPECT_GT(of("::ffff:10.7.0.1"), of("::ffff:10.8.0.1"));
}

TEST_F(GidFitness, OfNoAddressIsNone) {
  EXPECT_FALSE(of("::"));
  EXPECT_FALSE(of("::1"));
  EXPECT_FALSE(of("::ffff:127.0.0.1"));
}

}  // namespace
}  // namespace fairlead::rdma::verbs
