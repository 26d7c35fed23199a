// Sets of encrypted destinations: fewer blocks and less room never make the set smaller.
#include "base/encrypted_paths.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace fairlead {
namespace {

EncryptedPaths paths(std::vector<std::string_view> blocks) {
  EncryptedPaths made;
  for (const std::string_view block : blocks) made.blocks.push_back(Cidr::parse(block).value());
  return made;
}

SocketAddress address(const std::string& text) { return SocketAddress::parse(text + ":0").value(); }

std::string text(std::vector<std::string_view> blocks, std::size_t bytes_max = 200) {
  return to_text(paths(std::move(blocks)), bytes_max);
}

TEST(EncryptedPaths, TakesTheFewestBlocks) {
  EXPECT_EQ(text({}), "");
  EXPECT_EQ(text({"10.1.0.0/16", "10.1.2.0/24", "10.1.0.0/16"}), "10.1.0.0/16");
  EXPECT_EQ(text({"10.1.1.0/24", "10.1.0.0/24"}), "10.1.0.0/23");
  EXPECT_EQ(text({"10.1.3.0/24", "10.1.1.0/24", "10.1.2.0/24", "10.1.0.0/24"}), "10.1.0.0/22");
  EXPECT_EQ(text({"fd00::/64", "10.2.0.0/24", "10.1.1.0/24"}), "10.1.1.0/24,10.2.0.0/24,fd00::/64");
  EXPECT_EQ(to_text({true, {}}, 3), "all");
}

TEST(EncryptedPaths, WidensWhereThereIsNoRoom) {
  const std::vector<std::string_view> many = {"10.244.1.0/24", "10.244.3.0/24", "10.9.0.0/16",
                                              "fd00:1::/64"};
  EXPECT_EQ(text(many, 40), "10.9.0.0/16,10.244.0.0/22,fd00:1::/64");
  EXPECT_EQ(text(many, 24), "10.0.0.0/8,fd00:1::/64");
  EXPECT_EQ(text(many, 20), "all");
  EXPECT_EQ(text({"1.0.0.0/24", "200.0.0.0/24"}, 12), "0.0.0.0/0");
}

TEST(EncryptedPaths, NeverCoversLessThanBefore) {
  std::vector<Cidr> blocks;
  std::vector<SocketAddress> inside;
  for (unsigned i = 0; i < 300; ++i) {
    const std::string base = "10." + std::to_string(i * 37 % 256) + "." + std::to_string(i % 251);
    blocks.push_back(Cidr::parse(base + ".0/24").value());
    inside.push_back(address(base + ".7"));
    const std::string six = "fd00:" + std::to_string(i * 7) + "::";
    blocks.push_back(Cidr::parse(six + "/64").value());
    inside.push_back(address("[" + six + "7]"));
  }
  for (const std::size_t room : {200u, 100u, 40u, 20u, 5u, 3u}) {
    const std::string told = to_text({false, blocks}, room);
    EXPECT_LE(told.size(), room);
    const auto read = parse_encrypted_paths(told);
    ASSERT_TRUE(read) << told;
    for (const SocketAddress& one : inside)
      ASSERT_TRUE(read->contains(one)) << told << " lacks " << to_string(one);
  }
}

TEST(EncryptedPaths, ReadsWhatItWroteAndNothingElse) {
  const EncryptedPaths read = parse_encrypted_paths("10.1.0.0/16,fd00::/8").value();
  EXPECT_TRUE(read.contains(address("10.1.2.3")));
  EXPECT_TRUE(read.contains(address("[::ffff:10.1.2.3]")));
  EXPECT_TRUE(read.contains(address("[fd12::1]")));
  EXPECT_FALSE(read.contains(address("10.2.0.1")));
  EXPECT_TRUE(parse_encrypted_paths("all")->contains(address("192.0.2.1")));
  EXPECT_FALSE(EncryptedPaths{}.contains(address("192.0.2.1")));
  for (const char* bad :
       {"", "x", "10.1.0.1/16", "10.1.0.0/33", ",", "10.1.0.0/16,,fd00::/8", "ALL"})
    EXPECT_FALSE(parse_encrypted_paths(bad)) << bad;
}

}  // namespace
}  // namespace fairlead
