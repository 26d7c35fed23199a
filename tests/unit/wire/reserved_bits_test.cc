// Goal: a peer that sets a bit which the protocol reserves is understood like one that does not.
// Method: for each message a table of all its reserved bits; each of them is set alone, and then
// all of them together.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "unit/wire/clc_samples.h"
#include "unit/wire/hex.h"
#include "unit/wire/llc_samples.h"
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
  const struct {
    const char* sample;
    std::vector<Reserved> reserved;
  } kTable[] = {
      {"V1ConfirmLink", {{2, 2}, {3, 3, 0x7c}, {35, 43}}},
      {"ConfirmLinkRequest", {{3, 3, 0x7c}, {36, 43}}},
      // The flag of a reject, and its reason, belong to answers.
      {"V1AddLink", {{2, 2}, {3, 3, 0x7f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
      {"V1AddLinkAnswer", {{2, 2}, {3, 3, 0x3f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
      {"V1AddLinkReject", {{2, 2, 0xf0}, {3, 3, 0x3f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
      {"AddLinkRequest",
       {{3, 3, 0x7f}, {10, 11}, {32, 32, 0xf0}, {36, 43}, {44, 44, 0x7f}, {45, 45}, {62, 69}}},
      {"AddLinkReject", {{3, 3, 0x3f}, {10, 11}, {32, 32, 0xf0}, {36, 43}}},
      {"V1AddLinkContOfOne", {{2, 2}, {3, 3, 0x7f}, {6, 7}, {24, 43}}},
      {"V1DeleteLink", {{2, 2}, {3, 3, 0x1f}, {9, 43}}},
      {"DeleteLinkResponse", {{3, 3, 0x1f}, {9, 43}}},
      {"ReqAddLink", {{3, 3, 0x7f}, {4, 23}, {25, 27}}},
      {"ReqAddLinkRejected", {{3, 3, 0x7f}, {4, 43}}},
      // Refused and retry belong to answers.
      {"ConfirmRkeyTwoLinksRequest", {{3, 3, 0x7f}, {30, 43}}},
      {"V1ConfirmRkey", {{2, 2}, {3, 3, 0x4f}, {17, 43}}},
      {"ConfirmRkeyCont", {{3, 3, 0x7f}, {18, 43}}},
      {"ConfirmRkeyContRefused", {{3, 3, 0x4f}, {18, 43}}},
      // What is unknown belongs to answers.
      {"V1DeleteRkeyRequest", {{2, 2}, {3, 3, 0x7f}, {5, 7}, {12, 43}}},
      {"DeleteRkeyResponse", {{3, 3, 0x5f}, {6, 7}, {12, 43}}},
      {"TestLinkRequest", {{3, 3, 0x7f}, {20, 43}}},
      {"V1TestLink", {{2, 2}, {3, 3, 0x7f}, {20, 43}}}};
  for (const auto& row : kTable)
    expect_ignored({row.sample, llc_sample(row.sample), row.reserved}, decode_llc);
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
