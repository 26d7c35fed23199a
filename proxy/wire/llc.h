// LLC: link control messages, RC SENDs of 44 bytes (some of version 2 are longer).
// Read first: docs/wire.md, section LLC; RFC 7609 appendix A.3.
//
// decode_llc takes what the completion says was received. The length field inside is ignored in
// version 2 (it is in the sender's host byte order); the encoder writes little endian there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "base/ids.h"
#include "base/result.h"
#include "wire/clc.h"

namespace fairlead::wire {

inline constexpr std::size_t kLlcBytes = 44;
inline constexpr std::size_t kRkeysPerGroupMax = 255;
inline constexpr std::size_t kAddLinkHeadBytes = 72;
inline constexpr std::size_t kLlcBytesMax = kAddLinkHeadBytes + 16 * kRkeysPerGroupMax;
// Links beside the carrier for which one CONFIRM_RKEY and its continuations may name keys.
inline constexpr std::size_t kOtherLinksMax = 7;

enum class LlcVersion : std::uint8_t { k1 = 1, k2 = 2 };
enum class LlcKind : std::uint8_t { kRequest, kResponse };

// All of them (RFC 7609 A.3 has version 1):
//  off size
//    0    1  version 1: opcode; version 2: 0x20 + opcode
//    1    1  version 1: 44; version 2: low byte of the length
//    2    1  version 1: bits 3..0 reason of an ADD_LINK reject; version 2: high byte of the length
//    3    1  flags: 0x80 response, others as below

// Opcode 1. Flags 0x03: the eyecatcher bits.
//  off size
//    4    6  MAC
//   10   16  GID
//   26    3  queue pair
//   29    1  link number
//   30    4  link user id
//   34    1  max links
//   35    1  max connections (v2.1)
struct ConfirmLink {
  LlcKind kind = LlcKind::kRequest;
  std::uint8_t eyecatcher_flags = 0x03;  // both bits: "no eyecatcher in my RMB elements"
  Mac mac;
  Gid gid;
  QpNumber queue_pair;
  LinkNumber link;
  std::uint32_t link_user_id = 0;
  std::uint8_t max_links = 1;
  std::uint8_t max_connections = 0;
  friend constexpr bool operator==(const ConfirmLink&, const ConfirmLink&) = default;
};

// 16 bytes: known rkey (4), new rkey (4), new address (8).
struct RkeyEntry {
  RemoteKey known_rkey;  // valid on the link that carries the message
  RemoteKey new_rkey;    // of the same RMB on the new link
  RemoteAddress new_address;
  friend constexpr bool operator==(const RkeyEntry&, const RkeyEntry&) = default;
};

// Opcode 2. Flag 0x40: rejected.
//  off size
//    4    6  MAC
//   12   16  GID
//   28    3  queue pair
//   31    1  link number
//   32    1  bits 3..0 MTU code
//   33    3  first PSN
//  version 2, unless rejected
//   44    1  bit 7 direct
//   46   16  GID again
//   70    2  count of rkeys, in the sender's byte order
//   72   16  each rkey entry
struct AddLink {
  LlcKind kind = LlcKind::kRequest;
  bool rejected = false;
  std::uint8_t reject_reason = 0;  // version 1 only
  Mac mac;
  Gid gid;
  QpNumber queue_pair;
  LinkNumber link;
  std::uint8_t mtu_code = 0;  // 0 is possible on the wire and makes a client reject
  PacketSeq first_psn;
  // Version 2, not in a reject:
  bool direct = true;
  Gid second_gid;
  BoundedList<RkeyEntry, kRkeysPerGroupMax> rkeys;
  friend constexpr bool operator==(const AddLink&, const AddLink&) = default;
};

// Opcode 3.
//  off size
//    4    1  link number
//    5    1  rkeys left
//    8   16  each rkey entry, at most two
struct AddLinkCont {  // version 1 only
  LlcKind kind = LlcKind::kRequest;
  LinkNumber link;
  std::uint8_t rkeys_left = 0;  // including those in this message
  BoundedList<RkeyEntry, 2> rkeys;
  friend constexpr bool operator==(const AddLinkCont&, const AddLinkCont&) = default;
};

// Opcode 4. Flags 0x40 all links, 0x20 orderly.
//  off size
//    4    1  link number
//    5    4  reason
enum class DeleteLinkReason : std::uint32_t {
  kOk = 0,
  kPathLost = 0x00010000,
  kOperator = 0x00020000,
  kProgram = 0x00030000,
  kProtocolViolation = 0x00040000,
  kAsymmetricNotNeeded = 0x00050000,
  kUnknownLink = 0x00100000,
  kUnknownGroup = 0x00200000,
};

struct DeleteLink {
  LlcKind kind = LlcKind::kRequest;
  bool all = false;
  bool orderly = false;
  LinkNumber link;
  DeleteLinkReason reason = DeleteLinkReason::kOk;  // any 32-bit value may arrive
  friend constexpr bool operator==(const DeleteLink&, const DeleteLink&) = default;
};

// Opcode 5, version 2 only.
//  off size
//   24    1  count of GIDs
//   28   16  each GID
struct ReqAddLink {
  bool rejected = false;  // the server's negative answer: flag 0x80, 44 bytes
  BoundedList<Gid, kConfirmGidsMax> gids;
  friend constexpr bool operator==(const ReqAddLink&, const ReqAddLink&) = default;
};

// 13 bytes: link number (1), rkey (4), address (8).
struct RkeyOnLink {
  LinkNumber link;
  RemoteKey rkey;
  RemoteAddress address;
  friend constexpr bool operator==(const RkeyOnLink&, const RkeyOnLink&) = default;
};

// Opcode 6. Flags 0x20 refused, 0x10 retry.
//  off size
//    4    1  count of other links, those in continuations included
//    5    4  rkey
//    9    8  address
//   17   13  each other link, at most two
struct ConfirmRkey {
  LlcKind kind = LlcKind::kRequest;
  bool refused = false;
  bool retry = false;  // with `refused`: the links are changing; the same request may succeed later
  RemoteKey rkey;      // on the link that carries the message
  RemoteAddress address;
  BoundedList<RkeyOnLink, 2> others;
  std::uint8_t to_follow = 0;  // other links that continuations name
  friend constexpr bool operator==(const ConfirmRkey&, const ConfirmRkey&) = default;
};

// Opcode 8: the key that the last ConfirmRkey on this link announced, on further links. Flags 0x20
// refused, 0x10 retry.
//  off size
//    4    1  count of links left, those in this message included
//    5   13  each other link, at most three
struct ConfirmRkeyCont {
  LlcKind kind = LlcKind::kRequest;
  bool refused = false;
  bool retry = false;
  BoundedList<RkeyOnLink, 3> others;
  std::uint8_t to_follow = 0;  // links left after this message
  friend constexpr bool operator==(const ConfirmRkeyCont&, const ConfirmRkeyCont&) = default;
};

// Opcode 9. Flag 0x20: at least one rkey was unknown.
//  off size
//    4    1  count of rkeys
//    5    1  error mask
//    8    4  each rkey
struct DeleteRkey {
  LlcKind kind = LlcKind::kRequest;
  bool some_unknown = false;
  std::uint8_t error_mask = 0;  // response: version 1 bit mask, version 2 number of unknown keys
  BoundedList<RemoteKey, kRkeysPerGroupMax> rkeys;
  friend constexpr bool operator==(const DeleteRkey&, const DeleteRkey&) = default;
};

// Opcode 7.
//  off size
//    4   16  user data, echoed
struct TestLink {
  LlcKind kind = LlcKind::kRequest;
  std::array<std::byte, 16> user_data{};
  friend constexpr bool operator==(const TestLink&, const TestLink&) = default;
};

using LlcBody = std::variant<ConfirmLink, AddLink, AddLinkCont, DeleteLink, ReqAddLink, ConfirmRkey,
                             DeleteRkey, TestLink, ConfirmRkeyCont>;

struct LlcMessage {
  LlcVersion version = LlcVersion::k2;
  LlcBody body;
  friend bool operator==(const LlcMessage&, const LlcMessage&) = default;
};

// kTruncated below 44 bytes or below what a count announces, kUnsupported for an unknown opcode
// (also 05 of version 1 and 23 of version 2), kMalformed for impossible counts.
Result<LlcMessage> decode_llc(std::span<const std::byte> message);

// Returns the bytes written: 44, or more for AddLink, ReqAddLink and big DeleteRkey of version 2.
// REQUIRES: AddLinkCont in version 1 only, with as many rkeys as `rkeys_left` lets fit, ReqAddLink
// in version 2 only, DeleteRkey with at least one rkey and in version 1 with at most 8, `to_follow`
// only where `others` is full, ConfirmRkeyCont with at least one link.
std::size_t encode(const LlcMessage& message, std::span<std::byte, kLlcBytesMax> out);

}  // namespace fairlead::wire
