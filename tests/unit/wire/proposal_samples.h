// Proposals of all shapes, for from_hex(). Only the first was sent by a kernel; the others were put
// together from the tables in docs/wire.md.
#pragma once

#include <string>

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

}  // namespace fairlead::wire::test
