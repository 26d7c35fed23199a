#include "relay/connection/peer_liveness.h"

#include <gtest/gtest.h>

namespace fairlead::relay {
namespace {

using std::chrono::seconds;

constexpr Duration kTimeout = seconds(60);
constexpr Duration kLook = seconds(15);

TEST(PeerSilence, EndsAfterTheTimeoutWithoutAnyAcknowledgement) {
  PeerSilence silence;
  TimePoint now{};
  // The last acknowledgement came long before: nothing was due then.
  Duration since_ack = seconds(1000);
  for (int look = 0; look < 4; ++look) {
    EXPECT_FALSE(silence.gone({.answer_due = true, .since_ack = since_ack}, now, kTimeout)) << look;
    now += kLook;
    since_ack += kLook;
  }
  EXPECT_TRUE(silence.gone({.answer_due = true, .since_ack = since_ack}, now, kTimeout));
}

TEST(PeerSilence, AnAcknowledgementBetweenTwoLooksIsLife) {
  PeerSilence silence;
  TimePoint now{};
  for (int look = 0; look < 100; ++look) {
    // More data is in flight at each check, but some has been acknowledged since the last one.
    EXPECT_FALSE(silence.gone({.answer_due = true, .since_ack = kLook / 2}, now, kTimeout)) << look;
    now += kLook;
  }
}

TEST(PeerSilence, AClosedWindowWithAnsweredProbesIsLife) {
  PeerSilence silence;
  TimePoint now{};
  // The kernel probes every two minutes; every fourth check is between probe and answer.
  for (int look = 0; look < 100; ++look) {
    EXPECT_FALSE(
        silence.gone({.answer_due = look % 4 == 0, .since_ack = seconds(120)}, now, kTimeout))
        << look;
    now += kLook;
  }
}

TEST(PeerSilence, WhatIsNoTcpSocketIsNotJudged) { EXPECT_FALSE(read_tcp_wait(-1)); }

}  // namespace
}  // namespace fairlead::relay
