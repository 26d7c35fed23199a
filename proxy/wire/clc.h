// CLC: the handshake messages on the TCP stream. Bytes ⇄ values, nothing else.
// Read first: docs/wire.md, section CLC; RFC 7609 appendix A.2 (version 1).
//
// Every decode function takes exactly one message, trailer included, as its header's length says;
// it never reads outside the span and never throws. Error::what names the offending field. Reserved
// fields are written zero and not looked at. Encode functions write into `out`, which must have
// room for the named maximum, and return the bytes written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/assert.h"
#include "base/ids.h"
#include "base/result.h"
#include "wire/eid.h"

namespace fairlead::wire {

enum class ClcType : std::uint8_t { kProposal = 1, kAccept = 2, kConfirm = 3, kDecline = 4 };

// The "selectors" of byte 7. kBoth is legal in a Proposal only.
enum class ClcPath : std::uint8_t { kSmcr = 0, kSmcd = 1, kNone = 2, kBoth = 3 };

inline constexpr std::size_t kClcHeaderBytes = 8;
inline constexpr std::size_t kProposalBytesMax = 652;
inline constexpr std::size_t kAcceptBytesMax = 160;
inline constexpr std::size_t kConfirmBytesMax = 160 + 4 + 16 * 8;
inline constexpr std::size_t kDeclineBytesMax = 44;
inline constexpr std::size_t kClcBytesMax = kProposalBytesMax;

//  off size
//    0    4  eyecatcher e2d4c3d9 (SMC-R) or e2d4c3c4 (SMC-D); also the last 4 bytes of a message
//    4    1  type
//    5    2  length of the whole message
//    7    1  bits 7..4 version; bits 3..2 and 1..0 depend on the type
struct ClcHeader {
  ClcType type = ClcType::kProposal;
  std::uint16_t length_bytes = 0;  // whole message
  std::uint8_t version = 2;        // 1 or 2; anything above 2 is reported as 2
  friend constexpr bool operator==(const ClcHeader&, const ClcHeader&) = default;
};

// From the first 8 bytes. Checks eyecatcher (SMC-R or SMC-D), type, version >= 1, and that the
// length lies between the minimum of the type and kClcBytesMax.
Result<ClcHeader> decode_clc_header(std::span<const std::byte> bytes);

// True while `bytes` (1 to 4 of them) could be the beginning of a CLC message.
bool may_be_clc(std::span<const std::byte> bytes);

// 17 bytes: network (16), length (1).
struct Ipv6Prefix {
  std::array<std::uint8_t, 16> network{};
  std::uint8_t length_bits = 0;
  friend constexpr bool operator==(const Ipv6Prefix&, const Ipv6Prefix&) = default;
};

inline constexpr std::size_t kIpv6PrefixesMax = 8;
inline constexpr std::size_t kUeidsMax = 8;

// A list of fixed capacity, so that a decoded message owns no memory.
template <class T, std::size_t N>
struct BoundedList {
  std::array<T, N> items{};
  std::size_t count = 0;
  // REQUIRES: count < N
  constexpr void push(const T& item) {
    SMC_ASSERT(count < N, count);
    items[count++] = item;
  }
  constexpr std::span<const T> view() const { return {items.data(), count}; }
  friend constexpr bool operator==(const BoundedList& a, const BoundedList& b) {
    if (a.count != b.count) return false;
    for (std::size_t i = 0; i < a.count; ++i)
      if (!(a.items[i] == b.items[i])) return false;
    return true;
  }
};

// At 40 + IP area offset of a Proposal, if the path of version 1 is not none.
//  off size
//    0    4  IPv4 network
//    4    1  its length
//    7    1  count of IPv6 prefixes
//    8   17  each prefix
struct IpArea {
  std::array<std::uint8_t, 4> ipv4_network{};
  std::uint8_t ipv4_length_bits = 0;
  BoundedList<Ipv6Prefix, kIpv6PrefixesMax> ipv6;
  friend constexpr bool operator==(const IpArea&, const IpArea&) = default;
};

// At 52 + v2 extension offset of a Proposal, if the path of version 2 is not none.
//  off size
//    0    1  count of UEIDs
//    1    1  count of ISM GIDs
//    3    1  bits 7..4 release, bit 0 system EID present
//    6    2  SMC-D extension offset
//    8   16  RoCEv2 GID
//   24    1  max connections
//   25    1  max links
//   26    2  feature mask
//   40   32  each UEID
// SMC-D, if the path has it, adds 48 bytes and 10 for each ISM GID.
struct ProposalV2 {
  BoundedList<Eid, kUeidsMax> ueids;
  std::uint8_t release = 1;  // 1 = v2.1
  Gid gid;                   // RoCEv2 GID of the port to use
  std::uint8_t max_connections = 255;
  std::uint8_t max_links = 1;
  std::uint16_t feature_mask = 0;
  friend constexpr bool operator==(const ProposalV2&, const ProposalV2&) = default;
};

// In the extension block. Ignored by Linux; Fairlead says there which shared-memory fabric it can
// reach (docs/wire.md).
struct VendorArea {
  std::array<std::uint8_t, 3> oui{};
  std::array<std::uint8_t, 5> options{};
  friend constexpr bool operator==(const VendorArea&, const VendorArea&) = default;
};

// Byte 7: bits 3..2 path of version 2, bits 1..0 path of version 1. RFC 7609 A.2 has version 1.
//  off size
//    8    8  peer id
//   16   16  RoCEv1 GID
//   32    6  MAC
//   38    2  IP area offset, from byte 40, 0 to 40
//   40    8  ISM GID              40 to 79: always in version 2; in version 1 only if the IP area
//   48    2  ISM CHID             offset says 40
//   50    2  v2 extension offset, from byte 52, 28 to 172; not in version 1
//   52    8  vendor area
//   80       IP area, then v2 extension
// The length is the exact sum of the parts and the trailer, at most 652.
struct Proposal {
  std::uint8_t version = 2;
  ClcPath v1_path = ClcPath::kNone;
  ClcPath v2_path = ClcPath::kSmcr;  // kNone in version 1
  PeerId peer_id;
  Gid v1_gid;
  Mac mac;
  std::optional<IpArea> ip_area;  // present iff v1_path is not kNone
  VendorArea vendor;
  std::optional<ProposalV2> v2;  // present iff v2_path is not kNone
  // True when SMC-D parts were present; they are skipped and not re-encoded.
  bool had_smcd = false;
  friend constexpr bool operator==(const Proposal&, const Proposal&) = default;
};

Result<Proposal> decode_proposal(std::span<const std::byte> message);

// The Proposal that encode() writes for this one: SMC-D taken out of the selectors, with all that
// hangs on it. Only a version 1 Proposal that offers nothing but SMC-D keeps its selector, because
// version 1 cannot offer nothing.
Proposal without_smcd(Proposal proposal);

std::size_t encode(const Proposal& proposal, std::span<std::byte, kProposalBytesMax> out);

enum class PeerOs : std::uint8_t { kUnknown = 0, kZos = 1, kLinux = 2, kAix = 3 };

// From byte 104 of an Accept or Confirm of version 2, if it is a first contact. With release 0 all
// from byte 140 on is zero and means nothing.
//  off size
//  104    1  bit 7 direct
//  105    1  bits 7..4 OS, bits 3..0 release
//  108   32  host name
//  140    1  max connections
//  141    1  max links
//  142    2  feature mask
//  144    4  vendor options
struct FirstContact {
  bool direct = true;  // no gateway between the RNICs
  PeerOs os = PeerOs::kLinux;
  std::uint8_t release = 1;
  // Blank padded. decode blanks all of it when it is not printable ASCII, because it ends up in
  // logs.
  std::array<char, 32> host_name = Eid::blank();
  std::uint8_t max_connections = 255;  // release >= 1, else 0
  std::uint8_t max_links = 1;          // release >= 1, else 0
  std::uint16_t feature_mask = 0;
  std::uint32_t vendor_options = 0;
  friend constexpr bool operator==(const FirstContact&, const FirstContact&) = default;
};

inline constexpr std::size_t kConfirmGidsMax = 8;

// Byte 7: bit 3 first contact, bits 1..0 path. RFC 7609 A.2 has version 1.
//  off size
//    8    8  peer id
//   16   16  GID
//   32    6  MAC
//   38    3  queue pair
//   41    4  RMB rkey
//   45    1  RMB index
//   46    4  alert token
//   50    1  bits 7..4 RMB size code, bits 3..0 MTU code
//   52    8  RMB address
//   61    3  first PSN
//   64   32  EID (version 2)
//  104   52  first contact (version 2)
//  156    1  count of GIDs (version 2, Confirm of a first contact)
//  160   16  each GID
// Lengths: 68 in version 1; in version 2 108, with first contact 160, and 164 + 16 for each GID
// when it is a Confirm.
//
// Accept and Confirm have one layout; only the type, and the GID list of a Confirm, differ.
struct AcceptConfirm {
  ClcType type = ClcType::kAccept;  // kAccept or kConfirm
  std::uint8_t version = 2;
  ClcPath path = ClcPath::kSmcr;
  bool first_contact = false;
  PeerId peer_id;
  Gid gid;
  Mac mac;
  QpNumber queue_pair;
  RemoteKey rmb_rkey;
  RmbIndex rmb_index{1};  // from 1
  AlertToken alert_token;
  std::uint8_t rmb_size_code = 0;  // element size = 16 KiB << code, 0 to 15
  Mtu mtu = Mtu::k1024;
  RemoteAddress rmb_address;
  PacketSeq first_psn;
  Eid eid;                                       // version 2
  std::optional<FirstContact> first_contact_v2;  // version 2 and first_contact
  BoundedList<Gid, kConfirmGidsMax> gids;        // Confirm, version 2 and first_contact
  friend constexpr bool operator==(const AcceptConfirm&, const AcceptConfirm&) = default;
};

// Refuses RMB index 0, alert token 0 and MTU codes outside 1..5, besides framing. An SMC-D Accept
// (path kSmcd) is kUnsupported.
Result<AcceptConfirm> decode_accept_confirm(std::span<const std::byte> message);
std::size_t encode(const AcceptConfirm& message, std::span<std::byte, kConfirmBytesMax> out);

// Decline. Byte 7: bit 3 out of sync. RFC 7609 A.2 has version 1.
//  off size
//    8    8  peer id
//   16    4  reason
//   20    1  bits 7..4 OS (version 2)
//   24   16  diagnosis codes, written zero (version 2)
// Length 28 in version 1, 44 in version 2.
struct Decline {
  std::uint8_t version = 2;  // 1: 28 bytes, 2: 44 bytes
  bool out_of_sync = false;
  PeerId peer_id;
  std::uint32_t reason = 0;  // base/fallback.h
  PeerOs os = PeerOs::kLinux;
  friend constexpr bool operator==(const Decline&, const Decline&) = default;
};

// Does not insist on the trailer: a damaged Decline still means TCP. `os` is kUnknown in version 1.
Result<Decline> decode_decline(std::span<const std::byte> message);
std::size_t encode(const Decline& decline, std::span<std::byte, kDeclineBytesMax> out);

}  // namespace fairlead::wire
