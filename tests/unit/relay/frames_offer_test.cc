#include "relay/worker/frames_offer.h"

#include <gtest/gtest.h>

#include <vector>

namespace fairlead::relay {
namespace {

class FramesOfferTest : public testing::Test {
 protected:
  void set(bool affordable) {
    offer.set_affordable(affordable);
    settle();
  }
  void settle() {
    offer.settle([this](bool offered) {
      announced.push_back(offered);
      return succeeds;
    });
  }
  FramesOffer offer;
  std::vector<bool> announced;
  bool succeeds = true;
};

TEST_F(FramesOfferTest, OneWorkerWithoutMemoryWithdrawsItForAll) {
  set(false);
  EXPECT_EQ(announced, std::vector<bool>{false});
  set(false);
  EXPECT_EQ(announced.size(), 1U);
}

TEST_F(FramesOfferTest, TheLastWorkerThatHasMemoryAgainRenewsIt) {
  set(false);
  set(false);
  set(true);
  EXPECT_EQ(announced.size(), 1U);
  set(true);
  EXPECT_EQ(announced, (std::vector<bool>{false, true}));
}

TEST_F(FramesOfferTest, WhatFailedIsTriedAgain) {
  succeeds = false;
  set(false);
  settle();
  EXPECT_EQ(announced, (std::vector<bool>{false, false}));
  succeeds = true;
  settle();
  settle();
  EXPECT_EQ(announced.size(), 3U);
}

TEST_F(FramesOfferTest, AFailureThatIsOvertakenNeedsNoCall) {
  succeeds = false;
  set(false);
  offer.set_affordable(true);
  settle();
  EXPECT_EQ(announced, std::vector<bool>{false});
}

TEST_F(FramesOfferTest, AWorkerTellsOnlyChanges) {
  FramesOfferOfWorker worker(offer);
  bool affords = true;
  bool before = false;
  const auto update = [&] {
    worker.update(
        [&](bool last) {
          before = last;
          return affords;
        },
        [this](bool offered) {
          announced.push_back(offered);
          return true;
        });
  };
  update();
  EXPECT_TRUE(before);
  EXPECT_TRUE(announced.empty());
  affords = false;
  update();
  update();
  EXPECT_FALSE(before);
  EXPECT_EQ(announced, std::vector<bool>{false});
}

TEST_F(FramesOfferTest, NewListenersAreToldWhatHolds) {
  const auto repeated = [this] {
    bool told = false;
    offer.repeat([&told](bool offered) {
      told = offered;
      return true;
    });
    return told;
  };
  EXPECT_TRUE(repeated());
  set(false);
  EXPECT_FALSE(repeated());
}

}  // namespace
}  // namespace fairlead::relay
