// Shares of pods in what the agent has for all of them.
#include "cni/node/broker/shared_quota.h"

#include <gtest/gtest.h>

namespace fairlead::cni::node {
namespace {

TEST(SharedQuota, WhatIsPromisedIsReserved) {
  SharedQuota node(100);
  SharedQuota::Share one(node);
  EXPECT_TRUE(one.resize(100));
  EXPECT_FALSE(one.resize(101));
  EXPECT_EQ(one.size(), 100U);
  SharedQuota::Share other(node);
  EXPECT_FALSE(other.resize(1));
  EXPECT_TRUE(one.resize(40));
  EXPECT_TRUE(other.resize(60));
}

TEST(SharedQuota, AShareEndsWithItsOwner) {
  SharedQuota node(10);
  {
    SharedQuota::Share one(node);
    EXPECT_TRUE(one.resize(10));
  }
  SharedQuota::Share next(node);
  EXPECT_TRUE(next.resize(10));
}

// However many take what they can get, the next one gets something.
TEST(SharedQuota, BeyondHalfAPodGetsHalfOfWhatIsLeft) {
  SharedQuota node(1000);
  SharedQuota::Share greedy(node), second(node), third(node), modest(node);
  EXPECT_TRUE(greedy.resize(600));
  EXPECT_FALSE(second.resize(201));
  EXPECT_TRUE(second.resize(200));
  EXPECT_FALSE(third.resize(101));
  EXPECT_TRUE(third.resize(100));
  EXPECT_TRUE(modest.resize(50));
}

TEST(SharedQuota, ASmallerShareIsAlwaysPossible) {
  SharedQuota node(1000);
  SharedQuota::Share one(node), other(node);
  EXPECT_TRUE(one.resize(400));
  EXPECT_TRUE(other.resize(600));
  EXPECT_TRUE(one.resize(399));
}

}  // namespace
}  // namespace fairlead::cni::node
