#include "relay/worker/source_addresses.h"

#include <gtest/gtest.h>

namespace fairlead::relay {
namespace {

using std::chrono::milliseconds;

SocketAddress address(const char* text) { return *SocketAddress::parse(text); }

const SocketAddress kTo = address("127.0.0.9:80");
const SocketAddress kDefault = address("127.0.0.1:1234");  // what the kernel gives to loopback
const SocketAddress kOther = address("127.0.0.2:1234");

TEST(SourceAddresses, TheKernelsChoiceHasNoPort) {
  EXPECT_EQ(default_source(kTo), kDefault.with_port(0));
  EXPECT_EQ(default_source(address("[::1]:80")), address("[::1]:0"));
}

TEST(SourceAddresses, OneConnectionIsNotWorthAQuestion) {
  SourceAddresses sources;
  EXPECT_FALSE(sources.is_default(kDefault, kTo, TimePoint{}));
}

TEST(SourceAddresses, TheNextOneIsTheDefaultOrNot) {
  SourceAddresses sources;
  (void)sources.is_default(kDefault, kTo, TimePoint{});
  EXPECT_TRUE(sources.is_default(kDefault, kTo, TimePoint{} + milliseconds(1)));
  EXPECT_FALSE(sources.is_default(kOther, kTo, TimePoint{} + milliseconds(2)));
  EXPECT_TRUE(sources.is_default(kDefault, kTo.with_port(81), TimePoint{} + milliseconds(3)));
}

TEST(SourceAddresses, AnAnswerIsForgottenWithoutConnections) {
  SourceAddresses sources;
  (void)sources.is_default(kDefault, kTo, TimePoint{});
  EXPECT_TRUE(sources.is_default(kDefault, kTo, TimePoint{} + milliseconds(1)));
  EXPECT_FALSE(sources.is_default(kDefault, kTo, TimePoint{} + milliseconds(1) + kSourceAgeMax));
}

}  // namespace
}  // namespace fairlead::relay
