// The way back from SMC-R to frames: both sides in any order and any pieces, and hostile peers.
#include "smc/frames/return_to_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace fairlead::smc {
namespace {

using Bytes = std::vector<std::byte>;

template <class Frame>
Bytes bytes_of(const Frame& frame) {
  return {frame.begin(), frame.end()};
}

template <class Frame>
void append(Bytes& to, const Frame& frame) {
  to.insert(to.end(), frame.begin(), frame.end());
}

std::string refusal(ReturnToFrames& by, const Bytes& bytes) {
  const auto taken = by.take(bytes);
  return taken ? "" : taken.error().what;
}

TEST(ReturnToFramesTest, BothSidesLearnBothPositionsInAnyPieces) {
  for (std::size_t step = 1; step <= 20; ++step) {
    ReturnToFrames one, other;
    Bytes to_other = bytes_of(one.send_return(1000)), to_one = bytes_of(other.send_return(2));
    const auto deliver = [step](ReturnToFrames& to, Bytes& bytes) {
      for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t count = std::min(step, bytes.size() - at);
        const auto taken = to.take(std::span(bytes).subspan(at, count));
        ASSERT_TRUE(taken);
        ASSERT_EQ(*taken, count);
        at += count;
      }
      bytes.clear();
    };
    deliver(other, to_other);
    deliver(one, to_one);
    EXPECT_EQ(other.peer_sent(), 1000U);
    EXPECT_EQ(one.peer_sent(), 2U);
    EXPECT_FALSE(one.complete());
    append(to_other, one.send_returned());
    append(to_one, other.send_returned());
    deliver(other, to_other);
    EXPECT_TRUE(other.complete());
    EXPECT_FALSE(one.complete());
    deliver(one, to_one);
    EXPECT_TRUE(one.complete());
  }
}

TEST(ReturnToFramesTest, WhatComesBehindIsLeft) {
  ReturnToFrames one, other;
  Bytes bytes = bytes_of(one.send_return(7));
  Bytes answer = bytes_of(other.send_return(0));
  ASSERT_TRUE(one.take(answer));
  append(bytes, one.send_returned());
  const std::size_t both = bytes.size();
  append(bytes, wire::encode_frame_header({wire::FrameType::kData, 1}));
  const auto taken = other.take(bytes);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, both);
}

TEST(ReturnToFramesTest, AHostilePeerIsRefused) {
  ReturnToFrames honest;
  const Bytes whole = bytes_of(honest.send_return(1));
  const Bytes returned = bytes_of(wire::encode_frame_header({wire::FrameType::kReturned, 0}));
  const Bytes data = bytes_of(wire::encode_frame_header({wire::FrameType::kData, 1}));
  const Bytes unknown{std::byte{9}, std::byte{0}, std::byte{0}, std::byte{0}};
  for (const Bytes& first : {returned, data}) {
    ReturnToFrames judge;
    EXPECT_EQ(refusal(judge, first), "return: another frame");
  }
  ReturnToFrames judge;
  EXPECT_EQ(refusal(judge, unknown), "frame type");
  Bytes twice = whole;
  append(twice, whole);
  ReturnToFrames repeated;
  EXPECT_EQ(refusal(repeated, twice), "return: another frame");
  // It cannot have all of something of which it does not know how much it is.
  Bytes early = whole;
  append(early, returned);
  ReturnToFrames silent;
  EXPECT_EQ(refusal(silent, early), "return: the end without a beginning");
}

TEST(ReturnToFramesTest, IsCompleteOnlyWhenThisSideHasSaidAllOfItsOwn) {
  ReturnToFrames one, other;
  Bytes from_other = bytes_of(other.send_return(5));
  Bytes from_one = bytes_of(one.send_return(6));
  ASSERT_TRUE(other.take(from_one));
  append(from_other, other.send_returned());
  ASSERT_TRUE(one.take(from_other));
  EXPECT_TRUE(one.said_return());
  EXPECT_TRUE(one.peer_has_all());
  EXPECT_FALSE(one.said_returned());
  EXPECT_FALSE(one.complete());
  (void)one.send_returned();
  EXPECT_TRUE(one.said_returned());
  EXPECT_TRUE(one.complete());
}

TEST(ReturnToFramesTest, NothingReceivedIsNothing) {
  ReturnToFrames one;
  EXPECT_EQ(one.take({}).value(), 0U);
  EXPECT_EQ(one.peer_sent(), std::nullopt);
}

}  // namespace
}  // namespace fairlead::smc
