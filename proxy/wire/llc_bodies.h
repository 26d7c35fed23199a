// The codecs of the single LLC messages, between which llc.cc chooses. Private to proxy/wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "wire/llc.h"
#include "wire/reader.h"
#include "wire/writer.h"

namespace fairlead::wire {

inline constexpr std::uint8_t kLlcResponse = 0x80;  // in the flags of every message
inline constexpr std::uint8_t kAddLinkReject = 0x40;
inline constexpr std::uint8_t kConfirmRkeyRefused = 0x20;  // of CONFIRM_RKEY_CONT as well
inline constexpr std::uint8_t kConfirmRkeyRetry = 0x10;    // likewise
inline constexpr std::uint8_t kDeleteRkeyUnknown = 0x20;

// Bytes 0 to 3.
struct LlcHead {
  LlcVersion version = LlcVersion::k2;
  std::uint8_t opcode = 0;  // the number of version 1, 1 to 9
  std::uint8_t flags = 0;
  std::uint8_t reject_reason = 0;  // AddLink of version 1, else 0

  LlcKind kind() const {
    return (flags & kLlcResponse) != 0 ? LlcKind::kResponse : LlcKind::kRequest;
  }
};

// `body` begins at byte 4 and has at least 40 bytes.
Result<LlcBody> decode_add_link(const LlcHead& head, std::span<const std::byte> body);
Result<LlcBody> decode_add_link_cont(const LlcHead& head, std::span<const std::byte> body);
Result<LlcBody> decode_req_add_link(const LlcHead& head, std::span<const std::byte> body);
Result<LlcBody> decode_confirm_rkey(const LlcHead& head, std::span<const std::byte> body);
Result<LlcBody> decode_confirm_rkey_cont(const LlcHead& head, std::span<const std::byte> body);
Result<LlcBody> decode_delete_rkey(const LlcHead& head, std::span<const std::byte> body);

// Each writes from byte 4 on, possibly less than the whole; llc.cc fills up to encoded_bytes().
void encode_body(Writer& out, LlcVersion version, const AddLink& message);
void encode_body(Writer& out, LlcVersion version, const AddLinkCont& message);
void encode_body(Writer& out, LlcVersion version, const ReqAddLink& message);
void encode_body(Writer& out, LlcVersion version, const ConfirmRkey& message);
void encode_body(Writer& out, LlcVersion version, const ConfirmRkeyCont& message);
void encode_body(Writer& out, LlcVersion version, const DeleteRkey& message);

std::size_t encoded_bytes(LlcVersion version, const AddLink& message);
std::size_t encoded_bytes(const ReqAddLink& message);
std::size_t encoded_bytes(const DeleteRkey& message);

}  // namespace fairlead::wire
