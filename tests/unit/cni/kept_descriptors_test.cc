// Shares of what the agent keeps for pods.
#include "cni/node/kept_descriptors.h"

#include <gtest/gtest.h>

namespace fairlead::cni::node {
namespace {

TEST(KeptDescriptors, WhatIsPromisedIsReserved) {
  KeptDescriptors node(100);
  KeptDescriptors::Share one(node);
  EXPECT_TRUE(one.resize(100));
  EXPECT_FALSE(one.resize(101));
  EXPECT_EQ(one.size(), 100U);
  EXPECT_EQ(node.used(), 100U);
  KeptDescriptors::Share other(node);
  EXPECT_FALSE(other.resize(1));
  EXPECT_TRUE(one.resize(40));
  EXPECT_TRUE(other.resize(60));
}

TEST(KeptDescriptors, AShareEndsWithItsOwner) {
  KeptDescriptors node(10);
  {
    KeptDescriptors::Share one(node);
    EXPECT_TRUE(one.resize(10));
  }
  EXPECT_EQ(node.used(), 0U);
}

// However many take what they can get, the next one gets something.
TEST(KeptDescriptors, BeyondHalfAPodGetsHalfOfWhatIsLeft) {
  KeptDescriptors node(1000);
  KeptDescriptors::Share greedy(node), second(node), third(node), modest(node);
  EXPECT_TRUE(greedy.resize(600));
  EXPECT_FALSE(second.resize(201));
  EXPECT_TRUE(second.resize(200));
  EXPECT_FALSE(third.resize(101));
  EXPECT_TRUE(third.resize(100));
  EXPECT_TRUE(modest.resize(50));
}

TEST(KeptDescriptors, ASmallerShareIsAlwaysPossible) {
  KeptDescriptors node(1000);
  KeptDescriptors::Share one(node), other(node);
  EXPECT_TRUE(one.resize(400));
  EXPECT_TRUE(other.resize(600));
  EXPECT_TRUE(one.resize(399));
}

}  // namespace
}  // namespace fairlead::cni::node
