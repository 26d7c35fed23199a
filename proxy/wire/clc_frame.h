// What the CLC messages have in common: header, trailer, and the bits of byte 7. Private to
// proxy/wire.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "wire/clc.h"
#include "wire/reader.h"
#include "wire/writer.h"

namespace fairlead::wire {

// "SMCR" and "SMCD" in EBCDIC. Each stands at the beginning and at the end of a message.
inline constexpr std::uint32_t kEyecatcherSmcr = 0xe2d4c3d9;
inline constexpr std::uint32_t kEyecatcherSmcd = 0xe2d4c3c4;
inline constexpr std::size_t kClcTrailerBytes = 4;

constexpr bool is_eyecatcher(std::uint32_t value) {
  return value == kEyecatcherSmcr || value == kEyecatcherSmcd;
}

inline constexpr std::uint8_t kClcFlag = 0x08;  // first contact, or out of sync in a Decline

struct ClcFrame {
  ClcHeader header;
  bool flag = false;                // 0x08 of byte 7
  std::uint8_t selector1 = 0;       // bits 1..0 of byte 7
  std::uint8_t selector2 = 0;       // bits 3..2 of byte 7
  std::span<const std::byte> body;  // between header and trailer
};

enum class Trailer : std::uint8_t { kChecked, kIgnored };

// Checks that `message` is as long as its header says, not more and not less.
Result<ClcFrame> decode_clc_frame(std::span<const std::byte> message, Trailer trailer);

void encode_clc_header(Writer& out, ClcType type, std::size_t length_bytes, std::uint8_t version,
                       unsigned low_bits);
inline void encode_clc_trailer(Writer& out) { out.u32(kEyecatcherSmcr); }

// The operating system nibble; numbers that we do not know become kUnknown.
PeerOs peer_os_from(unsigned nibble);

}  // namespace fairlead::wire
