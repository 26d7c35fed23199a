#include "event/http/http_endpoint.h"

#include <gtest/gtest.h>

namespace fairlead::event {
namespace {

TEST(HttpEndpoint, ReadsEverySpellingAndPrintsItAgain) {
  const std::string longest = "@" + std::string(sizeof(sockaddr_un::sun_path) - 2, 'x');
  for (const std::string& text : std::initializer_list<std::string>{
           "127.0.0.1:4590", "[::1]:0", "unix:/run/a.sock", "@fairlead-admin", longest}) {
    const auto endpoint = HttpEndpoint::parse(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(to_string(*endpoint), text);
  }
  EXPECT_LE(HttpEndpoint::parse(longest)->size(), sizeof(sockaddr_un));
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
  for (const std::string& text :
       std::initializer_list<std::string>{"",
                                          "@",
                                          "unix:",
                                          "@" + std::string(sizeof(sockaddr_un::sun_path), 'x'),
                                          {"@a\0b", 4},
                                          "localhost:4590",
                                          "4590",
                                          "127.0.0.1",
                                          "127.0.0.1:65536"})
    EXPECT_FALSE(HttpEndpoint::parse(text)) << text;
}

}  // namespace
}  // namespace fairlead::event
