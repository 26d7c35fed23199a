#include "base/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <unordered_set>

namespace fairlead {
namespace {

SocketAddress address(std::string_view text) { return SocketAddress::parse(text).value(); }

Cidr cidr(std::string_view text) { return Cidr::parse(text).value(); }

TEST(SocketAddress, PrintsWhatItParsed) {
  for (const char* text : {"192.0.2.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[::]:0",
                           "[2001:db8::1]:443", "[fe80::1%3]:22", "[::ffff:10.0.0.1]:1"})
    EXPECT_EQ(to_string(address(text)), text);
  EXPECT_EQ(to_string_without_port(address("[2001:db8::1]:443")), "2001:db8::1");
  EXPECT_EQ(to_string_without_port(address("192.0.2.1:80")), "192.0.2.1");
}

TEST(SocketAddress, RejectsWhatIsNoAddressAndPort) {
  for (const char* text : {"",
                           ":",
                           ":80",
                           "80",
                           "192.0.2.1",
                           "192.0.2.1:",
                           "192.0.2:80",
                           "::1:80",
                           "[::1]",
                           "[::1]80",
                           "[::1:80",
                           "::1]:80",
                           "[]:80",
                           "[:80",
                           "[::1%]:80",
                           "192.0.2.1:65536",
                           "192.0.2.1:-1",
                           "192.0.2.1:+1",
                           "192.0.2.1: 80",
                           "192.0.2.1:80 ",
                           "192.0.2.1:0x50",
                           "192.0.2.256:80",
                           " 192.0.2.1:80",
                           "2001:db8::1",
                           "[192.0.2.1]:80",
                           "[2001:db8::1::2]:80",
                           "example.com:80",
                           "192.0.2.1:80:90"})
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
  EXPECT_FALSE(
      SocketAddress::parse("[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd]:1"));
  EXPECT_FALSE(SocketAddress::parse(std::string_view("1.2.3.4\0:80", 11)));
  EXPECT_FALSE(SocketAddress::parse(std::string_view("1.2.3.4\0x:80", 12)));
  EXPECT_EQ(SocketAddress::parse("[fe80::1%eth0]:80").error().code, Errc::kUnsupported);
}

TEST(SocketAddress, CarriesNetworkOrderForSystemCalls) {
  SocketAddress v4 = address("192.0.2.1:258");
  sockaddr_in in{};
  ASSERT_EQ(v4.size(), sizeof in);
  std::memcpy(&in, v4.data(), sizeof in);
  EXPECT_EQ(in.sin_family, AF_INET);
  EXPECT_EQ(in.sin_port, htons(258));
  EXPECT_EQ(in.sin_addr.s_addr, htonl(0xc0000201));

  SocketAddress v6 = address("[fe80::1%7]:258");
  sockaddr_in6 in6{};
  ASSERT_EQ(v6.size(), sizeof in6);
  std::memcpy(&in6, v6.data(), sizeof in6);
  EXPECT_EQ(in6.sin6_family, AF_INET6);
  EXPECT_EQ(in6.sin6_port, htons(258));
  EXPECT_EQ(in6.sin6_scope_id, 7u);
  EXPECT_EQ(in6.sin6_addr.s6_addr[0], 0xfe);
}

TEST(SocketAddress, ReadsBackWhatTheKernelStores) {
  for (const char* text : {"192.0.2.1:80", "[fe80::1%3]:22"}) {
    SocketAddress original = address(text);
    sockaddr_storage storage{};
    std::memcpy(&storage, original.data(), original.size());
    auto copy = SocketAddress::from(storage, original.size()).value();
    EXPECT_EQ(copy, original);
    auto cut = SocketAddress::from(storage, original.size() - 1);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, Errc::kTruncated);
    EXPECT_FALSE(SocketAddress::from(storage, 1));
    EXPECT_FALSE(SocketAddress::from(storage, 0));
  }
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  auto unix_address = SocketAddress::from(other, sizeof other);
  ASSERT_FALSE(unix_address);
  EXPECT_EQ(unix_address.error().code, Errc::kUnsupported);
}

TEST(SocketAddress, ComparesFamilyAddressPortAndScope) {
  std::set<SocketAddress> ordered;
  std::unordered_set<SocketAddress> hashed;
  const char* all[] = {"10.0.0.1:80",  "10.0.0.1:81",    "10.0.0.2:80",         "[::1]:80",
                       "[fe80::1]:80", "[fe80::1%2]:80", "[::ffff:10.0.0.1]:80"};
  for (const char* text : all) {
    ordered.insert(address(text));
    hashed.insert(address(text));
    EXPECT_EQ(address(text), address(text));
    EXPECT_EQ(address(text).hash(), address(text).hash());
  }
  EXPECT_EQ(ordered.size(), std::size(all));
  EXPECT_EQ(hashed.size(), std::size(all));
  EXPECT_LT(address("10.0.0.1:81"), address("10.0.0.2:80"));
  EXPECT_LT(address("10.0.0.255:1"), address("10.0.1.0:1"));
}

TEST(SocketAddress, UnmapsIpv4InIpv6) {
  SocketAddress mapped = address("[::ffff:10.0.0.1]:80");
  EXPECT_TRUE(mapped.is_v4_mapped());
  EXPECT_TRUE(mapped.is_v6());
  EXPECT_EQ(mapped.unmapped(), address("10.0.0.1:80"));
  EXPECT_EQ(address("[::1]:80").unmapped(), address("[::1]:80"));
  EXPECT_EQ(address("10.0.0.1:80").unmapped(), address("10.0.0.1:80"));
}

TEST(SocketAddress, KnowsAnyAndLoopback) {
  EXPECT_TRUE(SocketAddress().is_any());
  EXPECT_TRUE(address("[::]:5").is_any());
  EXPECT_FALSE(address("0.0.0.1:0").is_any());
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"})
    EXPECT_TRUE(address(text).is_loopback()) << text;
  for (const char* text : {"128.0.0.1:1", "[::2]:1", "[::ffff:10.0.0.1]:1", "[::]:1"})
    EXPECT_FALSE(address(text).is_loopback()) << text;
}

TEST(SocketAddress, ChangesThePortAlone) {
  EXPECT_EQ(address("10.0.0.1:80").with_port(4540), address("10.0.0.1:4540"));
  EXPECT_EQ(address("[fe80::1%2]:80").with_port(0), address("[fe80::1%2]:0"));
}

TEST(Cidr, MatchesItsBlockAndNothingBeside) {
  struct Case {
    const char *block, *inside, *outside;
  };
  for (const Case& c :
       {Case{"10.0.0.0/8", "10.255.255.255:1", "11.0.0.0:1"},
        Case{"172.16.0.0/12", "172.31.0.1:1", "172.32.0.1:1"},
        Case{"192.0.2.128/25", "192.0.2.128:1", "192.0.2.127:1"},
        Case{"192.0.2.1/32", "192.0.2.1:1", "192.0.2.2:1"},
        Case{"192.0.2.1", "192.0.2.1:1", "192.0.2.0:1"},
        Case{"0.0.0.0/0", "255.0.0.1:1", "[::1]:1"}, Case{"::/0", "[2001:db8::1]:1", "10.0.0.1:1"},
        Case{"fd00::/8", "[fdff::1]:1", "[fe00::1]:1"},
        Case{"2001:db8::/33", "[2001:db8:7fff::]:1", "[2001:db8:8000::]:1"},
        Case{"::1", "[::1]:1", "[::]:1"},
        // Mapped addresses count as IPv4.
        Case{"10.0.0.0/8", "[::ffff:10.1.2.3]:1", "[::ffff:11.0.0.0]:1"},
        Case{"::/0", "[2001:db8::1]:1", "[::ffff:10.1.2.3]:1"}}) {
    EXPECT_TRUE(cidr(c.block).contains(address(c.inside))) << c.block;
    EXPECT_FALSE(cidr(c.block).contains(address(c.outside))) << c.block;
  }
}

TEST(AddressBlock, OfIpv6IsA64AndOfIpv4TheAddress) {
  const auto block = [](const char* text) { return address_block(address(text)); };
  const auto name = [](const char* text) { return address_block_name(address(text)); };
  EXPECT_EQ(block("10.0.0.1:80"), address("10.0.0.1:0"));
  EXPECT_NE(block("10.0.0.1:80"), block("10.0.0.2:80"));
  EXPECT_EQ(block("[2001:db8:1:2::1]:80"), block("[2001:db8:1:2:ffff:ffff:ffff:ffff]:443"));
  EXPECT_EQ(block("[2001:db8:1:2::1]:80"), address("[2001:db8:1:2::]:0"));
  EXPECT_NE(block("[2001:db8:1:2::1]:80"), block("[2001:db8:1:3::1]:80"));
  // IPv4 hosts must not share the block of all mapped addresses.
  EXPECT_EQ(block("[::ffff:10.0.0.1]:80"), block("10.0.0.1:1"));
  EXPECT_NE(block("[::ffff:10.0.0.1]:80"), block("[::ffff:10.0.0.2]:80"));
  // Each link has link-local addresses of its own.
  EXPECT_NE(block("[fe80::1%2]:80"), block("[fe80::1%3]:80"));
  EXPECT_EQ(block("[fe80::1%2]:80"), block("[fe80::2%2]:80"));
  EXPECT_NE(block("[::1]:80"), block("[::2]:80"));
  EXPECT_EQ(name("10.0.0.1:80"), "10.0.0.1");
  EXPECT_EQ(name("[::ffff:10.0.0.1]:80"), "10.0.0.1");
  EXPECT_EQ(name("[2001:db8::5]:80"), "2001:db8::/64");
  EXPECT_EQ(name("[::1]:80"), "::1");
}

TEST(Port, IsANumberInDigitsWithoutALeadingZero) {
  EXPECT_EQ(parse_port("1"), 1);
  EXPECT_EQ(parse_port("65535"), 65535);
  for (const char* text : {"", "0", "01", "65536", "99999999999", "+1", " 1", "1 ", "1.", "x"})
    EXPECT_EQ(parse_port(text), std::nullopt) << text;
}

TEST(Cidr, PrintsWhatItParsed) {
  for (const char* text : {"10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "::1/128"})
    EXPECT_EQ(to_string(cidr(text)), text);
  EXPECT_EQ(to_string(cidr("192.0.2.1")), "192.0.2.1/32");
  EXPECT_EQ(cidr("::1"), cidr("::1/128"));
}

TEST(Cidr, RejectsMalformedBlocks) {
  for (const char* text :
       {"", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.0/8 ",
        "::/129", "10.0.0.1/8", "0.0.0.1/0", "fd00::1/8", "10/8", "ten/8", "fe80::1%2/64"})
    EXPECT_FALSE(Cidr::parse(text)) << text;
}

}  // namespace
}  // namespace fairlead
