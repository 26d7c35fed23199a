// Goal: of all SYNs that a remote host can send, exactly those with the SMC-R option count, and no
// bytes make the parser read out of bounds (checked by the sanitizers). Method: headers are built
// from parts, then changed, cut and overwritten.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "bpf/tcp_option.h"

namespace fairlead::bpf {
namespace {

using Octets = std::vector<std::uint8_t>;

const Octets kSmcOption = {0xfe, 6, 0xe2, 0xd4, 0xc3, 0xd9};
const Octets kUsualOptions = {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7};

Octets join(std::initializer_list<Octets> parts) {
  Octets all;
  for (const Octets& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Pads the options with zeros to a multiple of four, as the header's length requires.
Octets tcp(Octets options, std::uint8_t flags = 0x02) {
  while (options.size() % 4 != 0) options.push_back(0);
  Octets header(20);
  header[12] = static_cast<std::uint8_t>((20 + options.size()) / 4 << 4);
  header[13] = flags;
  return join({header, options});
}

Octets ipv4(const Octets& payload, std::size_t option_bytes = 0, std::uint8_t protocol = 6) {
  Octets header(20 + option_bytes);
  header[0] = static_cast<std::uint8_t>(0x40 | (header.size() / 4));
  header[9] = protocol;
  return join({header, payload});
}

Octets ipv6(const Octets& payload, std::uint8_t next = 6) {
  Octets header(40);
  header[0] = 0x60;
  header[6] = next;
  return join({header, payload});
}

// An extension header of 8·(units+1) bytes.
Octets extension(std::uint8_t next, std::uint8_t units = 0) {
  Octets header(8U * (units + 1U));
  header[0] = next;
  header[1] = units;
  return header;
}

Announced announced(const Octets& bytes) {
  // A copy of exact size, so that the sanitizer sees the first byte too many.
  Octets exact(bytes);
  exact.shrink_to_fit();
  return announced_in_syn(std::as_bytes(std::span(exact)));
}

bool has_option(const Octets& bytes) { return announced(bytes) != Announced::kNothing; }

TEST(SynHeaders, FindTheOption) {
  EXPECT_TRUE(has_option(ipv4(tcp(kSmcOption))));
  EXPECT_TRUE(has_option(ipv6(tcp(kSmcOption))));
  EXPECT_TRUE(has_option(ipv4(tcp(join({kUsualOptions, kSmcOption})), 40)));
  // As the Linux kernel writes it.
  EXPECT_TRUE(has_option(ipv4(tcp(join({kUsualOptions, {1, 1}, kSmcOption})))));
}

TEST(SynHeaders, OfPlainTcpHaveNone) {
  EXPECT_FALSE(has_option(ipv4(tcp({}))));
  EXPECT_FALSE(has_option(ipv6(tcp(kUsualOptions))));
}

TEST(SynHeaders, FollowTheKernelsRuleForKindLengthAndMagic) {
  EXPECT_TRUE(has_option(ipv4(tcp({0xfe, 8, 0xe2, 0xd4, 0xc3, 0xd9, 7, 7}))));
  EXPECT_FALSE(has_option(ipv4(tcp({0xfe, 7, 0xe2, 0xd4, 0xc3, 0xd9, 7}))));
  EXPECT_FALSE(has_option(ipv4(tcp({0xfe, 5, 0xe2, 0xd4, 0xc3}))));
  EXPECT_FALSE(has_option(ipv4(tcp({0xfd, 6, 0xe2, 0xd4, 0xc3, 0xd9}))));
  EXPECT_FALSE(has_option(ipv4(tcp({0xfe, 6, 0xe2, 0xd4, 0xc3, 0xc4}))));
}

TEST(SynHeaders, FramesNeedBothOptions) {
  const Octets frames = {0xfe, 6, 0xfa, 0x1e, 0xad, 1};
  EXPECT_EQ(announced(ipv4(tcp(join({kUsualOptions, kSmcOption, frames})))), Announced::kFrames);
  EXPECT_EQ(announced(ipv6(tcp(join({frames, kSmcOption})))), Announced::kFrames);
  EXPECT_EQ(announced(ipv4(tcp(frames))), Announced::kNothing);
  // What a SYN-ACK has.
  EXPECT_EQ(announced(ipv4(tcp(join({kSmcOption, {0xfe, 6, 0xfa, 0x1e, 0xad, 2}})))),
            Announced::kSmc);
  EXPECT_EQ(announced(ipv4(tcp(join({kSmcOption, {0xfe, 8, 0xfa, 0x1e, 0xad, 1, 0, 0}})))),
            Announced::kSmc);
}

TEST(SynHeaders, TellOtherExperimentsApart) {
  const Octets kFastOpen = {0xfe, 4, 0xf9, 0x89};
  EXPECT_FALSE(has_option(ipv4(tcp(kFastOpen))));
  EXPECT_TRUE(has_option(ipv4(tcp(join({kFastOpen, kSmcOption})))));
}

TEST(SynHeaders, EndAtTheEndOfOptions) {
  EXPECT_FALSE(has_option(ipv4(tcp(join({{0}, kSmcOption})))));
  // The options are followed by payload, which the sender chooses freely.
  EXPECT_FALSE(has_option(join({ipv4(tcp({})), kSmcOption})));
}

TEST(SynHeaders, OfOtherSegmentsDoNotCount) {
  EXPECT_FALSE(has_option(ipv4(tcp(kSmcOption, 0x10))));
  EXPECT_TRUE(has_option(ipv4(tcp(kSmcOption, 0xc2)))) << "SYN with ECN flags";
  EXPECT_FALSE(has_option(ipv4(tcp(kSmcOption), 0, 17)));
  EXPECT_FALSE(has_option(ipv6(tcp(kSmcOption), 17)));
}

TEST(SynHeaders, StepOverExtensionHeaders) {
  EXPECT_TRUE(has_option(
      ipv6(join({extension(43, 2), extension(60), extension(6, 1), tcp(kSmcOption)}), 0)));
  Octets fragment = {6, 0xff, 0, 0, 0, 0, 0, 0};  // its second byte is no length
  EXPECT_TRUE(has_option(ipv6(join({fragment, tcp(kSmcOption)}), 44)));
  Octets authentication(24);
  authentication[0] = 6;
  authentication[1] = 4;  // in words of four, minus two
  EXPECT_TRUE(has_option(ipv6(join({authentication, tcp(kSmcOption)}), 51)));
}

TEST(SynHeaders, GiveUpOnEndlessExtensionHeaders) {
  Octets chain;
  for (std::size_t i = 0; i < kExtensionHeadersMax; ++i)
    chain = join({chain, extension(i + 1 == kExtensionHeadersMax ? 6 : 60)});
  EXPECT_TRUE(has_option(ipv6(join({chain, tcp(kSmcOption)}), 60)));
  EXPECT_FALSE(has_option(ipv6(join({extension(60), chain, tcp(kSmcOption)}), 60)));
}

TEST(SynHeaders, RejectLengthsThatLie) {
  Octets good = ipv4(tcp(kSmcOption));
  for (std::uint8_t words = 0; words < 16; ++words) {
    Octets ip_length = good, tcp_length = good;
    ip_length[0] = static_cast<std::uint8_t>(0x40 | words);
    tcp_length[20 + 12] = static_cast<std::uint8_t>(words << 4);
    EXPECT_EQ(has_option(ip_length), words == 5) << int{words};
    EXPECT_EQ(has_option(tcp_length), words == 7) << int{words};
  }
  for (std::uint8_t length : Octets{0, 1, 200, 255})
    EXPECT_FALSE(has_option(ipv4(tcp(join({{30, length}, kSmcOption}))))) << int{length};
  Octets too_long = extension(6);
  too_long[1] = 255;
  EXPECT_FALSE(has_option(ipv6(join({too_long, tcp(kSmcOption)}), 0)));
}

TEST(SynHeaders, OfUnknownVersionsHaveNone) {
  Octets bytes = ipv4(tcp(kSmcOption));
  for (int version : {0, 1, 5, 6, 7, 15}) {
    bytes[0] = static_cast<std::uint8_t>(version << 4 | 5);
    EXPECT_FALSE(has_option(bytes)) << version;
  }
}

TEST(SynHeaders, CutAnywhereHaveNone) {
  for (const Octets& whole : {ipv4(tcp(kSmcOption)), ipv6(tcp(kSmcOption)),
                              ipv6(join({extension(6, 1), tcp(kSmcOption)}), 0)}) {
    EXPECT_TRUE(has_option(whole));
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_FALSE(has_option(Octets(whole.begin(), whole.begin() + static_cast<long>(size))));
  }
}

TEST(SynHeaders, OfAnyBytesAreReadWithinBounds) {
  std::mt19937 random(7609);
  std::size_t found = 0;
  for (int round = 0; round < 50000; ++round) {
    Octets bytes =
        ipv6(join({extension(60), extension(6), tcp(join({kUsualOptions, kSmcOption}))}), 0);
    if (round % 2 != 0) bytes = ipv4(tcp(join({kUsualOptions, kSmcOption})), 8);
    for (int flips = 0; flips < 4; ++flips)
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    bytes.resize(bytes.size() - random() % 4);
    if (has_option(bytes)) ++found;
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace fairlead::bpf
