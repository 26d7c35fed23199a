// LLC messages for from_hex(), with a name for each. Those of version 2 were sent by Linux kernels;
// those of version 1, and those that no kernel sends, follow the same tables.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace fairlead::wire::test {

struct LlcSample {
  const char* name;
  std::string hex;
};

inline const LlcSample kLlcSamples[] = {
    {"ConfirmLinkRequest", "21 2c 00 03 525400000001 z10 ffff0a090001 000011 01 00000101 02 ff z8"},
    {"ConfirmLinkResponse",
     "21 2c 00 83 525400000002 z10 ffff0a090002 000011 01 00000101 02 ff z8"},
    {"AddLinkRequest",
     "22 58 00 00 525400000001 0000 z10 ffff0a090001 000012 02 03 af505b z8 "
     "80 00 z10 ffff0a090001 z8 0100 0000034b 0000050b ff1902f4c54f0000"},
    {"AddLinkReject", "22 2c 00 c0 525400000001 0000 z10 ffff0a090001 000012 02 03 af505b z8"},
    {"ConfirmRkeyOneLink", "26 2c 00 00 00 00000667 ff1902f4c5510000 z27"},
    {"ConfirmRkeyTwoLinksRequest",
     "26 2c 00 00 01 00000667 ff1902f4c5510000 02 00000701 ff1902f4c5520000 z14"},
    {"ConfirmRkeyTwoLinks",
     "26 2c 00 80 01 00000667 ff1902f4c5510000 02 00000701 ff1902f4c5520000 z14"},
    {"ConfirmRkeyFourLinks",
     "26 2c 00 00 03 00000667 ff1902f4c5510000 02 00000701 ff1902f4c5520000 "
     "03 00000801 ff1902f4c5530000 00"},
    {"ConfirmRkeyCont", "28 2c 00 00 01 04 00000901 ff1902f4c5540000 z26"},
    {"ConfirmRkeyContRefused", "28 2c 00 b0 01 04 00000901 ff1902f4c5540000 z26"},
    {"DeleteRkeyRequest", "29 2c 00 00 01 00 0000 00000667 z32"},
    {"DeleteRkeyResponse", "29 2c 00 80 01 z39"},
    {"DeleteRkeyUnknown", "29 2c 00 a0 01 01 z38"},
    {"TestLinkRequest", "27 2c 00 00 z40"},
    {"TestLinkResponse", "27 2c 00 80 z40"},
    {"DeleteLinkAll", "24 2c 00 40 00 00030000 z35"},
    {"DeleteLinkOne", "24 2c 00 20 02 00010000 z35"},
    {"DeleteLinkResponse", "24 2c 00 a0 02 00100000 z35"},
    {"ReqAddLink", "25 3c 00 00 z20 02 z3 z10 ffff0a090002 z10 ffff0a09000c"},
    {"ReqAddLinkRejected", "25 2c 00 80 z40"},
    {"V1ConfirmLink", "01 2c 00 03 525400000001 z10 ffff0a090001 000011 01 00000101 02 00 z8"},
    {"V1AddLink", "02 2c 00 00 525400000001 0000 z10 ffff0a090001 000012 02 03 af505b z8"},
    {"V1AddLinkAnswer", "02 2c 00 80 525400000001 0000 z10 ffff0a090001 000012 02 03 af505b z8"},
    {"V1AddLinkReject", "02 2c 01 c0 525400000001 0000 z10 ffff0a090001 000012 02 03 af505b z8"},
    {"V1AddLinkContOfOne", "03 2c 00 00 02 01 0000 00000011 00000012 0000000000000013 z20"},
    {"V1AddLinkContOfThree",
     "03 2c 00 00 02 03 0000 00000011 00000012 0000000000000013 "
     "00000021 00000022 0000000000000023 z4"},
    {"V1AddLinkContOfNone", "03 2c 00 80 02 00 0000 z36"},
    {"V1DeleteLink", "04 2c 00 60 00 00020000 z35"},
    {"V1ConfirmRkey", "06 2c 00 b0 00 00000667 ff1902f4c5510000 z27"},
    {"V1ConfirmRkeyContOfFour",
     "08 2c 00 00 04 02 00000701 ff1902f4c5520000 03 00000801 ff1902f4c5530000 "
     "04 00000901 ff1902f4c5540000"},
    {"V1TestLink", "07 2c 00 00 000102030405060708090a0b0c0d0e0f z24"},
    {"V1DeleteRkeyRequest", "09 2c 00 00 01 00 0000 00000667 z32"},
    {"V1DeleteRkeyOfEight",
     "09 2c 00 a0 08 81 0000 00000001 00000002 00000003 00000004 "
     "00000005 00000006 00000007 00000008 z4"},
};

inline std::string llc_sample(std::string_view name) {
  for (const LlcSample& sample : kLlcSamples)
    if (name == sample.name) return sample.hex;
  ADD_FAILURE() << "no sample " << name;
  return "";
}

}  // namespace fairlead::wire::test
