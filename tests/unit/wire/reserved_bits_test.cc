// Goal: a peer that sets a bit which the protocol reserves is understood like one that does not.
// Method: for each message a table of all its reserved bits; each of them is set alone, and then
// all of them together.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "unit/wire/clc_samples.h"
#include "unit/wire/hex.h"
#include "wire/cdc.h"
#include "wire/clc.h"
#include "wire/llc.h"

namespace fairlead::wire::test {
namespace {

// The bits of `mask` in each byte from `first` to `last`.
struct Reserved {
  std::size_t first;
  std::size_t last;
  std::uint8_t mask = 0xff;
};

struct Row {
  const char* name;
  std::string hex;
  std::vector<Reserved> reserved;
};

template <class Decode>
void expect_ignored(const Row& row, Decode decode) {
  SCOPED_TRACE(row.name);
  const Bytes sent = from_hex(row.hex);
  const auto expected = decode(std::span<const std::byte>(sent));
  ASSERT_TRUE(expected) << expected.error().what;
  Bytes all = sent;
  for (const Reserved& part : row.reserved) {
    for (std::size_t at = part.first; at <= part.last; ++at) {
      for (unsigned bit = 0x80; bit != 0; bit >>= 1U) {
        if ((part.mask & bit) == 0) continue;
        EXPECT_EQ(std::to_integer<unsigned>(sent.at(at)) & bit, 0U) << "byte " << at;
        Bytes one = sent;
        one[at] |= static_cast<std::byte>(bit);
        all[at] |= static_cast<std::byte>(bit);
        const auto decoded = decode(std::span<const std::byte>(one));
        ASSERT_TRUE(decoded) << "byte " << at << " bit " << bit << ": " << decoded.error().what;
        EXPECT_TRUE(*decoded == *expected) << "byte " << at << " bit " << bit;
      }
    }
  }
  const auto decoded = decode(std::span<const std::byte>(all));
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_TRUE(*decoded == *expected);
}

}  // namespace

TEST(ReservedBits, OfAProposal) {
  for (const Row& row : std::vector<Row>{
           // The offset of an IP area is 0, and no byte of version 1 follows.
           {"version 1", kProposalV1, {{7, 7, 0x0c}, {45, 46}}},
           {"version 1, longer", kProposalV1Both, {{7, 7, 0x0c}, {60, 79}, {85, 86}}},
           {"version 2",
            kProposalLinux,
            {{40, 49}, {60, 79}, {81, 82}, {83, 83, 0x0f}, {84, 87}, {108, 119}}},
           {"both, with an IP area",
            kProposalEverything,
            {{60, 79}, {85, 86}, {123, 124}, {125, 125, 0x0f}, {126, 127}, {150, 161}}},
           {"version 2 with SMC-D",
            kProposalWithSmcd,
            {{60, 79}, {82, 82}, {83, 83, 0x0e}, {84, 85}, {108, 119}, {184, 199}}}})
    expect_ignored(row, decode_proposal);
}

TEST(ReservedBits, OfAnAcceptAndAConfirm) {
  for (const Row& row : std::vector<Row>{
           {"Accept, version 1", kAcceptV1, {{7, 7, 0x04}, {51, 51}, {60, 60}}},
           {"Accept, reuse", kAcceptReuse, {{7, 7, 0x04}, {51, 51}, {60, 60}, {96, 103}}},
           {"Accept, first contact",
            kAcceptFirst,
            {{7, 7, 0x04},
             {51, 51},
             {60, 60},
             {96, 103},
             {104, 104, 0x7f},
             {106, 107},
             {148, 155}}},
           {"Accept, first contact of release 0",
            kAcceptRelease0,
            {{104, 104, 0x7f}, {106, 107}, {140, 155}}},
           {"Confirm, first contact",
            confirm_first(1),
            {{7, 7, 0x04},
             {51, 51},
             {60, 60},
             {96, 103},
             {104, 104, 0x7f},
             {106, 107},
             {148, 155},
             {157, 159}}}})
    expect_ignored(row, decode_accept_confirm);
}

// Whoever declines wants TCP, whatever else the message says.
TEST(ReservedBits, OfADecline) {
  for (const Row& row : std::vector<Row>{
           {"version 1", kDeclineV1, {{7, 7, 0x07}, {20, 23}}},
           {"version 2", kDeclineV2, {{7, 7, 0x07}, {20, 20, 0x0f}, {21, 39}}},
           {"out of sync", kDeclineOutOfSync, {{7, 7, 0x07}, {20, 20, 0x0f}, {21, 39}}}})
    expect_ignored(row, decode_decline);
}

TEST(ReservedBits, OfLlcMessages) {
  const std::string add_link = "525400000001 0000 z10 ffff0a090001 000012 02 03 af505b z8 ";
  const std::string entry = "02 00000701 ff1902f4c5520000 ";
  for (const Row& row : std::vector<Row>{
           {"CONFIRM_LINK of version 1",
            "01 2c 00 03 525400000001 z10 ffff0a090001 000011 01 00000101 02 00 z8",
            {{2, 2}, {3, 3, 0x7c}, {35, 43}}},
           {"CONFIRM_LINK",
            "21 2c 00 03 525400000001 z10 ffff0a090001 000011 01 00000101 02 ff z8",
            {{3, 3, 0x7c}, {36, 43}}},
           // The flag of a reject, and its reason, belong to answers.
           {"ADD_LINK request of version 1",
            "02 2c 00 00" + add_link,
            {{2, 2}, {3, 3, 0x7f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
           {"ADD_LINK answer of version 1",
            "02 2c 00 80" + add_link,
            {{2, 2}, {3, 3, 0x3f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
           {"ADD_LINK reject of version 1",
            "02 2c 01 c0" + add_link,
            {{2, 2, 0xf0}, {3, 3, 0x3f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
           {"ADD_LINK request",
            "22 58 00 00" + add_link +
                "80 00 z10 ffff0a090001 z8 0100 0000034b 0000050b ff1902f4c54f0000",
            {{3, 3, 0x7f}, {10, 11}, {32, 32, 0xf0}, {36, 43}, {44, 44, 0x7f}, {45, 45}, {62, 69}}},
           {"ADD_LINK reject",
            "22 2c 00 c0" + add_link,
            {{3, 3, 0x3f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
           {"ADD_LINK_CONT",
            "03 2c 00 00 02 01 0000 00000011 00000012 0000000000000013 z20",
            {{2, 2}, {3, 3, 0x7f}, {6, 7}, {24, 43}}},
           {"DELETE_LINK of version 1",
            "04 2c 00 00 02 00010000 z35",
            {{2, 2}, {3, 3, 0x1f}, {9, 43}}},
           {"DELETE_LINK", "24 2c 00 80 02 00100000 z35", {{3, 3, 0x1f}, {9, 43}}},
           {"REQ_ADD_LINK",
            "25 3c 00 00 z20 02 z3 z10 ffff0a090002 z10 ffff0a09000c",
            {{3, 3, 0x7f}, {4, 23}, {25, 27}}},
           {"REQ_ADD_LINK refused", "25 2c 00 80 z40", {{3, 3, 0x7f}, {4, 43}}},
           // Refused and retry belong to answers.
           {"CONFIRM_RKEY request",
            "26 2c 00 00 01 00000667 ff1902f4c5510000" + entry + "z14",
            {{3, 3, 0x7f}, {30, 43}}},
           {"CONFIRM_RKEY answer",
            "06 2c 00 80 00 00000667 ff1902f4c5510000 z27",
            {{2, 2}, {3, 3, 0x4f}, {17, 43}}},
           {"CONFIRM_RKEY_CONT request",
            "28 2c 00 00 01 04 00000901 ff1902f4c5540000 z26",
            {{3, 3, 0x7f}, {18, 43}}},
           {"CONFIRM_RKEY_CONT answer",
            "28 2c 00 80 01 04 00000901 ff1902f4c5540000 z26",
            {{3, 3, 0x4f}, {18, 43}}},
           // What is unknown belongs to answers.
           {"DELETE_RKEY request",
            "09 2c 00 00 01 00 0000 00000667 z32",
            {{2, 2}, {3, 3, 0x7f}, {5, 7}, {12, 43}}},
           {"DELETE_RKEY answer",
            "29 2c 00 80 01 00 0000 00000667 z32",
            {{3, 3, 0x5f}, {6, 7}, {12, 43}}},
           {"TEST_LINK", "27 2c 00 00 z40", {{3, 3, 0x7f}, {20, 43}}},
           {"TEST_LINK of version 1", "07 2c 00 80 z40", {{2, 2}, {3, 3, 0x7f}, {20, 43}}}})
    expect_ignored(row, decode_llc);
}

TEST(ReservedBits, OfCdc) {
  expect_ignored({"CDC",
                  "fe 2c 0001 00000011 0000 0002 00000003 0000 0004 00000005 00 00 z18",
                  {{8, 9}, {16, 17}, {24, 24, 0x07}, {25, 25, 0x1f}, {26, 43}}},
                 decode_cdc);
}

// What is not reserved, and without which nobody knows what is meant: no other path, type or size
// may be taken for ours.
TEST(ReservedBits, AreNotTheValuesThatAMessageNeeds) {
  for (const char* other : {"22", "23"})
    EXPECT_EQ(decode_accept_confirm(
                  from_hex("e2d4c3d9 02 006c " + std::string(other) + kCommon + kEid + kTrailer))
                  .error(),
              (Error{Errc::kMalformed, "path"}));
}

}  // namespace fairlead::wire::test
