#include "unit/config/config_text.h"

namespace fairlead::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string listener_error(std::string_view listeners) {
  return only_error(load_text("listeners:\n" + std::string(listeners), "t"));
}

void expect_listener_error(std::string_view listeners, const std::string& part) {
  EXPECT_THAT(listener_error(listeners), testing::HasSubstr(part)) << listeners;
}

TEST(Relations, AStaticListenerNeedsAnUpstream) {
  EXPECT_EQ(
      listener_error("- {name: a, direction: inbound, mode: static, listen: 0.0.0.0:80}"),
      "t:2:3: listeners[0]: mode static lacks an upstream; allowed: upstream: 10.0.0.1:80, or "
      "mode redirect or tproxy");
}

TEST(Relations, OtherListenersMustNotHaveAnUpstream) {
  for (const char* mode : {"redirect", "tproxy"})
    EXPECT_THAT(
        listener_error(
            "- {name: a, direction: inbound, listen: 0.0.0.0:80, upstream: 1.1.1.1:1, mode: " +
            std::string(mode) + "}"),
        HasSubstr("t:2:63: listeners[0].upstream: mode " + std::string(mode) +
                  " finds the destination itself"));
}

TEST(Relations, AWrongUpstreamOrModeIsReportedOnce) {
  expect_listener_error(
      "- {name: a, direction: inbound, mode: static, listen: 0.0.0.0:80, upstream: x:1}",
      "listeners[0].upstream: \"x:1\" is not an IP address and port");
  expect_listener_error(
      "- {name: a, direction: inbound, mode: static, listen: 0.0.0.0:80, upstream: 1.1.1.1:0}",
      "has port 0; allowed: 10.0.0.1:80 or \"[fd00::1]:80\", no host name, port 1 to 65535");
  expect_listener_error("- {name: a, direction: inbound, mode: statik, listen: 0.0.0.0:80}",
                        "listeners[0].mode: \"statik\" is unknown");
}

TEST(Relations, AListenerLacksNothingElse) {
  EXPECT_THAT(errors_of(load_text("listeners: [{}]", "t")),
              ElementsAre("t:1:13: listeners[0]: lacks the key \"name\"",
                          "t:1:13: listeners[0]: lacks the key \"direction\"",
                          "t:1:13: listeners[0]: lacks the key \"mode\"",
                          "t:1:13: listeners[0]: lacks the key \"listen\""));
}

TEST(Relations, NamesAndAddressesOfListenersAreTheirOwnExceptPortZero) {
  EXPECT_THAT(
      errors_of(load_text("listeners:\n"
                          "- {name: a, direction: inbound, mode: redirect, listen: 0.0.0.0:80}\n"
                          "- {name: a, direction: outbound, mode: redirect, listen: 0.0.0.0:80}\n",
                          "t")),
      ElementsAre(
          "t:3:10: listeners[1].name: \"a\" is already the name of listeners[0]; allowed: a "
          "name of its own",
          "t:3:58: listeners[1].listen: 0.0.0.0:80 is already the address of listeners[0]; "
          "allowed: an address of its own"));
  EXPECT_TRUE(
      load_text("listeners:\n"
                "- {name: a, direction: inbound, mode: redirect, listen: 127.0.0.1:0}\n"
                "- {name: b, direction: outbound, mode: redirect, listen: 127.0.0.1:0}\n",
                "t"));
}

TEST(Relations, AListenerNeitherConnectsToItselfNorHasTheAdminAddress) {
  expect_listener_error(
      "- {name: a, direction: outbound, mode: static, listen: 127.0.0.1:80, "
      "upstream: 127.0.0.1:80}",
      "listeners[0].upstream: 127.0.0.1:80 is the listener's own address");
  expect_listener_error(
      "- {name: a, direction: inbound, mode: redirect, listen: 127.0.0.1:4590}",
      "t:2:57: listeners[0].listen: 127.0.0.1:4590 is the address both of admin and of "
      "listeners[0]");
}

TEST(Relations, ThereAreAtMost64Listeners) {
  std::string text;
  for (int i = 0; i < 65; ++i)
    text += "- {name: a" + std::to_string(i) +
            ", direction: inbound, mode: redirect, listen: 0.0.0.0:0}\n";
  EXPECT_THAT(listener_error(text), HasSubstr("has 65 items; allowed: a list of 1 to 64 items"));
}

TEST(Relations, BuffersAndHandshakesFitIntoTheirLimits) {
  EXPECT_EQ(only_error(load_with_listener("buffers:\n  size: 64KiB\n  size_min: 128KiB\n")),
            "test.yaml:4:13: buffers.size_min: size_min 128KiB is more than size 64KiB; allowed: "
            "size_min "
            "up to size");
  EXPECT_EQ(only_error(load_with_listener("buffers:\n  publish: 128KiB\n  size: 64KiB\n")),
            "test.yaml:3:12: buffers.publish: publish 128KiB is more than size 64KiB; allowed: "
            "publish up "
            "to size");
  EXPECT_EQ(
      only_error(
          load_with_listener("buffers: {size: 2MiB, size_min: 2MiB}\nmemory: {limit: 1MiB}\n")),
      "test.yaml:3:17: memory.limit: limit 1MiB has no room for one buffer of 2MiB; allowed: at "
      "least buffers.size_min");
  expect_error("limits: {connections: 10, handshakes: 11}",
               "limits.handshakes: 11 handshakes are more than 10 connections");
}

TEST(Relations, DefaultsGiveWayToWhatWasSet) {
  EXPECT_EQ(loaded(load_with_listener("buffers: {size: 64KiB}")).buffers.publish, 64U * 1024);
  EXPECT_EQ(loaded(load_with_listener("limits: {connections: 10}")).limits.handshakes, 10U);
}

TEST(Relations, SomethingIsLeftToCarryConnections) {
  expect_error("smc: {enabled: false}\nfallback: deny\n",
               "test.yaml:3:11: fallback: neither SMC-R nor TCP would be left");
}

}  // namespace
}  // namespace fairlead::config
