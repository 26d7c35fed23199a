// CLC messages of all shapes, for from_hex(). Only the first Proposal was sent by a kernel; the
// others were put together from the tables in docs/wire.md.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/wire/hex.h"
#include "wire/clc.h"

namespace fairlead::wire::test {

// A Linux client on Soft-RoCE: nothing of version 1, one UEID.
inline const std::string kProposalLinux =
    "e2d4c3d9 01 009c 22 z8 z16 z6 0000 "
    "z8 0000 001c 000000 z5 z20 "
    "01 00 00 10 0000 0000 z10 ffff 0a090002 ff 02 0001 z12 "
    "'LAB-UEID-1'32 e2d4c3d9";

// Version 1 and 2 offered, two IPv6 prefixes, vendor area.
inline const std::string kProposalEverything =
    "e2d4c3d9 01 00c6 20 0102030405060708 fe80 z13 09 525400000002 0028 "
    "z8 0000 0046 fa1ead 0102030405 z20 "
    "0a090000 18 0000 02 fd01 z14 40 fd02 z14 30 "
    "01 00 00 10 0000 0000 z10 ffff 0a090002 ff 02 0001 z12 "
    "'LAB-UEID-1'32 e2d4c3d9";

inline const std::string kProposalV1 =
    "e2d4c3d9 01 0034 10 0102030405060708 z16 525400000002 0000 "
    "0a090000 18 0000 00 e2d4c3d9";

// SMC-D as well, so that the IP area comes 40 bytes later.
inline const std::string kProposalV1Both =
    "e2d4c3d9 01 005c 13 0102030405060708 z16 525400000002 0028 "
    "dddddddddddddddd z32 "
    "0a090000 18 0000 00 e2d4c3d9";

// The first one by a client that has an ISM device too: system EID and one entry.
inline const std::string kProposalWithSmcd =
    "e2d4c3d9 01 00d6 2e z8 z16 z6 0000 "
    "z8 0000 001c 000000 z5 z20 "
    "01 01 00 11 0000 0040 z10 ffff 0a090002 ff 02 0001 z12 "
    "'LAB-UEID-1'32 "
    "'IBM-SYSZ-ISMSEID00000000'32 z16 dddddddddddddddd 0007 e2d4c3d9";

// Peer id to initial PSN, as a Linux server wrote them.
inline const std::string kCommon =
    "0582525400000001 z10 ffff 0a090001 525400000001 000011 0000034b 01 00000001 23 00 "
    "ff1902f4c54f0000 00 a01521 ";
inline const std::string kEid = "'LAB-UEID-1'32 z8 ";
inline const std::string kFirstContact = "80 21 0000 '(none)'32 ff 02 0001 00000000 z8 ";
inline const std::string kFirstContactRelease0 = "00 20 0000 '(none)'32 z16 ";
inline const std::string kTrailer = "e2d4c3d9";

inline const std::string kAcceptV1 = "e2d4c3d9 02 0044 10" + kCommon + kTrailer;
inline const std::string kAcceptV1First = "e2d4c3d9 02 0044 18" + kCommon + kTrailer;
inline const std::string kAcceptReuse = "e2d4c3d9 02 006c 20" + kCommon + kEid + kTrailer;
inline const std::string kAcceptFirst =
    "e2d4c3d9 02 00a0 28" + kCommon + kEid + kFirstContact + kTrailer;
inline const std::string kAcceptRelease0 =
    "e2d4c3d9 02 00a0 28" + kCommon + kEid + kFirstContactRelease0 + kTrailer;
inline const std::string kConfirmReuse = "e2d4c3d9 03 006c 20" + kCommon + kEid + kTrailer;

// A Confirm of first contact with `count` GIDs.
inline std::string confirm_first(std::size_t count) {
  const std::size_t length = 164 + 16 * count;
  const std::byte big_endian[] = {static_cast<std::byte>(length >> 8U),
                                  static_cast<std::byte>(length)};
  const std::byte in_list[] = {static_cast<std::byte>(count)};
  std::string hex = "e2d4c3d9 03" + to_hex(big_endian) + "28 " + kCommon + kEid + kFirstContact +
                    to_hex(in_list) + "000000 ";
  for (std::size_t i = 0; i < count; ++i) hex += " z10 ffff 0a09000" + std::to_string(i);
  return hex + " " + kTrailer;
}

inline const std::string kDeclineV1 = "e2d4c3d9 04 001c 10 z8 03030000 00 z3 e2d4c3d9";
inline const std::string kDeclineV2 =
    "e2d4c3d9 04 002c 20 0582525400000001 03030008 20 z3 z16 e2d4c3d9";
inline const std::string kDeclineOutOfSync =
    "e2d4c3d9 04 002c 28 0582525400000001 04000000 20 z3 z16 e2d4c3d9";

// One byte of a good message that makes it wrong.
struct Damage {
  const char* name;
  const std::string* message;
  std::size_t at;
  std::uint8_t value;
  Error error;
};

template <class Decode>
void expect_refusals(Decode decode, const std::vector<Damage>& table) {
  for (const Damage& row : table) {
    SCOPED_TRACE(row.name);
    Bytes bytes = from_hex(*row.message);
    ASSERT_TRUE(decode(std::span<const std::byte>(bytes)));
    bytes.at(row.at) = std::byte{row.value};
    const auto decoded = decode(std::span<const std::byte>(bytes));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error(), row.error) << decoded.error().what;
  }
}

}  // namespace fairlead::wire::test
