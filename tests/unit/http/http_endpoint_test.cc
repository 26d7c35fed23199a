#include "event/http/http_endpoint.h"

#include <gtest/gtest.h>

namespace fairlead::event {
namespace {

TEST(HttpEndpoint, ReadsEverySpellingAndPrintsItAgain) {
  for (const char* text : {"127.0.0.1:4590", "[::1]:0", "unix:/run/a.sock", "@fairlead-admin"}) {
    const auto endpoint = HttpEndpoint::parse(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(to_string(*endpoint), text);
  }
}

TEST(HttpEndpoint, TakesAnAbsolutePathWithoutPrefix) {
  const auto endpoint = HttpEndpoint::parse("/run/a.sock");
  ASSERT_TRUE(endpoint);
  EXPECT_TRUE(endpoint->is_unix_path());
  EXPECT_EQ(endpoint->path(), "/run/a.sock");
  EXPECT_EQ(to_string(*endpoint), "unix:/run/a.sock");
}

TEST(HttpEndpoint, LengthOfAnAbstractAddressIsThatOfItsName) {
  const auto endpoint = HttpEndpoint::parse("@abc");
  ASSERT_TRUE(endpoint);
  EXPECT_FALSE(endpoint->is_unix_path());
  EXPECT_FALSE(endpoint->is_tcp());
  EXPECT_EQ(endpoint->size(), offsetof(sockaddr_un, sun_path) + 4);
}

TEST(HttpEndpoint, RejectsWhatCannotBeAnAddress) {
  const std::string too_long = "@" + std::string(sizeof(sockaddr_un::sun_path), 'x');
  const std::string with_nul("@a\0b", 4);
  for (const std::string& text : {std::string(), std::string("@"), std::string("unix:"), too_long,
                                  with_nul, std::string("localhost:4590"), std::string("4590"),
                                  std::string("127.0.0.1"), std::string("127.0.0.1:65536")})
    EXPECT_FALSE(HttpEndpoint::parse(text)) << text;
}

TEST(HttpEndpoint, LongestNameFits) {
  const std::string name = "@" + std::string(sizeof(sockaddr_un::sun_path) - 2, 'x');
  const auto endpoint = HttpEndpoint::parse(name);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(to_string(*endpoint), name);
  EXPECT_LE(endpoint->size(), sizeof(sockaddr_un));
}

}  // namespace
}  // namespace fairlead::event
