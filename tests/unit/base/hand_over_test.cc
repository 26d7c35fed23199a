// Goal: the plugin's note of RNICs is read as it was written, and no other text is accepted as one.
// Method: round trips, and tables of texts. Of the sets of encrypted destinations that it has,
// fewer blocks and less room never make one smaller.
#include "base/hand_over.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/encrypted_paths.h"

namespace fairlead {
namespace {

const HandOver kBoth{"NETA", {{"mlx5_0", PortNumber{1}}, {"mlx5_1", PortNumber{2}}}, ""};

TEST(HandOver, HasThisText) {
  EXPECT_EQ(to_alias(kBoth), "smc1;pnet=NETA;mode=shared;gid=auto;rnic=mlx5_0/1,mlx5_1/2");
  EXPECT_EQ(to_alias({"NETA", {}, ""}), "smc1;pnet=NETA;mode=shared;gid=auto");
  EXPECT_EQ(to_alias({}), "smc1;mode=none");
}

TEST(HandOver, IsReadAsItWasWrittenAndInAnyOrderWithUnknownPairs) {
  for (const HandOver& note : {kBoth, HandOver{"NETA", {}, ""}, HandOver{},
                               HandOver{"NETA", {}, "no_rnic"}, HandOver{"", {}, "namespace"}})
    EXPECT_EQ(parse_alias(to_alias(note)), note) << to_alias(note);
  EXPECT_EQ(parse_alias("smc1;rnic=mlx5_0/1,mlx5_1/2;later=x;pnet=neta"), kBoth);
}

Gid gid_with(std::initializer_list<std::uint8_t> last) {
  Gid gid;
  std::copy(last.begin(), last.end(), gid.bytes.end() - static_cast<std::ptrdiff_t>(last.size()));
  return gid;
}

TEST(HandOver, NamesAddressesOfTheNode) {
  HandOver note = kBoth;
  note.gids = {gid_with({0xff, 0xff, 10, 9, 0, 1}), gid_with({7})};
  EXPECT_EQ(to_alias(note), "smc1;pnet=NETA;mode=shared;gid=10.9.0.1,::7;rnic=mlx5_0/1,mlx5_1/2");
  EXPECT_EQ(parse_alias(to_alias(note)), note);
  // The reason of the node has room afterwards, however many addresses there are.
  while (!parse_alias(to_alias(note))->gids.empty()) note.gids.push_back(note.gids.front());
  EXPECT_EQ(parse_alias(to_alias(note)), kBoth);
  note.gids.pop_back();
  const std::string longest(kAccessCharsMax, 'a');
  note.access = longest;
  EXPECT_EQ(parse_alias(to_alias(note)), note);
}

TEST(HandOver, HoldsAllRnicsOrNone) {
  HandOver note{"NETA", {}, ""};
  const std::size_t kept_free = std::string_view(";crypt=all;access=").size() + kAccessCharsMax;
  while (to_alias(note).size() + 8 + kept_free <= kAliasBytesMax)
    note.rnics.push_back({"rxe" + std::to_string(note.rnics.size() + 10), PortNumber{1}});
  EXPECT_EQ(parse_alias(to_alias(note)), note);
  note.rnics.push_back({"rxe99", PortNumber{1}});
  EXPECT_EQ(parse_alias(to_alias(note)), (HandOver{"NETA", {}, ""}));
}

TEST(HandOver, TakesAndLosesWhatTheNodeSaysOfAccess) {
  const std::string plain = to_alias(kBoth);
  const std::string granted = with_access(plain, "granted");
  EXPECT_EQ(granted, plain + ";access=granted");
  EXPECT_EQ(with_access(granted, "no_rnic"), plain + ";access=no_rnic");
  EXPECT_EQ(with_access("smc1;access=granted;pnet=NETA", ""), "smc1;pnet=NETA");
  EXPECT_EQ(with_access(granted, "Not a name"), plain);
  const std::string full(kAliasBytesMax, 'x');
  EXPECT_EQ(with_access(full, "granted"), full);
}

EncryptedPaths blocks(std::size_t count) {
  EncryptedPaths paths;
  for (std::size_t i = 0; i < count; ++i)
    paths.blocks.push_back(Cidr::parse("10." + std::to_string(2 * i) + ".0.0/16").value());
  return paths;
}

TEST(HandOver, EncryptedPathsComeAndGo) {
  const std::string plain = to_alias(kBoth);
  const std::string told = with_encrypted(plain, blocks(2));
  EXPECT_EQ(told, plain + ";crypt=10.0.0.0/16,10.2.0.0/16");
  EXPECT_EQ(parse_alias(told)->encrypted, blocks(2));
  EXPECT_EQ(with_encrypted(told, blocks(1)), plain + ";crypt=10.0.0.0/16");
  EXPECT_EQ(with_encrypted(told, {}), plain);
  EXPECT_EQ(note_of_plugin(with_access(told, "granted")), note_of_plugin(plain));
  EXPECT_EQ(with_encrypted("smc1;mode=none", {true, {}}), "smc1;mode=none;crypt=all");
  EXPECT_TRUE(parse_alias(plain)->encrypted.none());
  // A format that this version does not know.
  EXPECT_TRUE(parse_alias("smc1;crypt=most")->encrypted.all);
}

TEST(HandOver, EncryptedPathsHaveRoomInEveryNote) {
  for (std::size_t rnics = 0; rnics < 40; ++rnics) {
    for (std::size_t gids = 0; gids < 20; ++gids) {
      HandOver note;
      note.pnet = "NETA";
      for (std::size_t i = 0; i < rnics; ++i)
        note.rnics.push_back({"mlx5_" + std::to_string(i), PortNumber{1}});
      for (std::size_t i = 0; i < gids; ++i) {
        Gid gid;
        gid.bytes[0] = 0xfd;
        gid.bytes[15] = static_cast<std::uint8_t>(i + 1);
        note.gids.push_back(gid);
      }
      // In any order, both are written and the plugin's own facts stay.
      HandOver wanted = *parse_alias(to_alias(note));
      wanted.access = std::string(kAccessCharsMax, 'a');
      const std::string plain = to_alias(note);
      const std::string before = with_encrypted(with_access(plain, wanted.access), blocks(100));
      const std::string after = with_access(with_encrypted(plain, blocks(100)), wanted.access);
      for (const std::string& alias : {before, after}) {
        ASSERT_LE(alias.size(), kAliasBytesMax);
        auto read = parse_alias(alias);
        ASSERT_TRUE(read) << alias;
        ASSERT_TRUE(read->encrypted.contains(SocketAddress::parse("10.198.0.1:1").value()))
            << alias;
        read->encrypted = {};
        ASSERT_EQ(read, wanted) << alias;
        ASSERT_EQ(note_of_plugin(alias), note_of_plugin(plain));
      }
    }
  }
}

TEST(HandOver, EncryptedPathsHaveRoomInANoteThatKeepsNoneFree) {
  std::string full = "smc1;pnet=NETA;mode=shared;gid=10.9.0.1;access=granted;rnic=mlx5_0/1";
  while (full.size() + 9 <= kAliasBytesMax) full += ",mlx5_1/1";
  ASSERT_GT(full.size() + std::string_view(";crypt=all").size(), kAliasBytesMax);
  const HandOver wanted = *parse_alias(full);
  auto read = parse_alias(with_encrypted(full, blocks(3)));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->encrypted.contains(SocketAddress::parse("10.4.0.1:1").value()));
  read->encrypted = {};
  EXPECT_EQ(read, wanted);
  EXPECT_EQ(note_of_plugin(with_encrypted(full, blocks(3))), note_of_plugin(full));
}

TEST(HandOver, OfSomebodyElseOrMalformedIsNone) {
  for (const char* alias :
       {"", "loopback", "smc1", "smc2;pnet=NETA", "smc1;pnet=", "smc1;pnet=N-A", "smc1;rnic=mlx5_0",
        "smc1;rnic=/1", "smc1;rnic=mlx5_0/", "smc1;rnic=mlx5_0/0", "smc1;rnic=mlx5_0/256",
        "smc1;rnic=mlx5_0/1x", "smc1;rnic=,", "smc1;gid=x", "smc1;gid=10.9.0.1,,",
        "smc1;gid=10.9.0.1/24", "smc1;access=", "smc1;access=A-Z"})
    EXPECT_FALSE(parse_alias(alias)) << alias;
}

TEST(RnicPortName, IsADeviceAndAPort) {
  EXPECT_EQ(parse_rnic_port("mlx5_0/1"), kBoth.rnics[0]);
  EXPECT_EQ(to_string(kBoth.rnics[0]), "mlx5_0/1");
  EXPECT_TRUE(parse_rnic_port(std::string(kRnicNameCharsMax, 'r') + "/255"));
  for (const char* text :
       {"", "mlx5_0", "mlx5_0/01/1", "mlx 5/1", "mlx5;0/1", "mlx5_0/-1", "mlx5_0/+1"})
    EXPECT_FALSE(parse_rnic_port(text)) << text;
  EXPECT_FALSE(parse_rnic_port(std::string(kRnicNameCharsMax + 1, 'r') + "/1"));
}

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
