// Ring arithmetic of one direction (docs/wire.md, "Rings"). Inside, a position is the 64-bit
// count of bytes since the connection began; on the wire it is a 16-bit wrap count and an offset.
// Elements are powers of two from 16 KiB, so the conversion is exact and unambiguous within half
// the wire's range of 65536 wraps.
#pragma once

#include <cstdint>

#include "base/assert.h"
#include "wire/cdc.h"

namespace fairlead::smc {

inline constexpr std::uint32_t kElementBytesMin = 16 * 1024;
inline constexpr std::uint8_t kElementCodeMax = 15;  // 512 MiB

constexpr std::uint32_t element_bytes(std::uint8_t size_code) {
  return kElementBytesMin << size_code;
}

// The smallest code whose element holds `bytes`; kElementCodeMax when none does.
constexpr std::uint8_t element_code(std::uint64_t bytes) {
  std::uint8_t code = 0;
  while (code < kElementCodeMax && element_bytes(code) < bytes) ++code;
  return code;
}

constexpr wire::CdcCursor cursor_at(std::uint64_t position, std::uint32_t size) {
  return {static_cast<std::uint16_t>(position / size), static_cast<std::uint32_t>(position % size)};
}

// A cursor from the peer, compared with the last accepted position.
struct CursorStep {
  enum class Kind : std::uint8_t {
    kForward,  // by `bytes`, which may be 0
    kStale,    // an older position, to be ignored: the message was overtaken
    kIllegal,  // beyond what the peer may touch, or outside the element
  };
  Kind kind = Kind::kIllegal;
  std::uint32_t bytes = 0;
  friend constexpr bool operator==(const CursorStep&, const CursorStep&) = default;
};

// `forward_max` is how far the cursor may move: free space for a producer, bytes in flight for a
// consumer. It is at most `size`.
constexpr CursorStep cursor_step(std::uint64_t position, wire::CdcCursor seen, std::uint32_t size,
                                 std::uint32_t forward_max) {
  if (seen.offset >= size) return {CursorStep::Kind::kIllegal, 0};
  const std::uint64_t modulus = std::uint64_t{size} << 16;
  const std::uint64_t there = std::uint64_t{seen.wrap} * size + seen.offset;
  const std::uint64_t forward = (there - position) & (modulus - 1);
  if (forward <= forward_max)
    return {CursorStep::Kind::kForward, static_cast<std::uint32_t>(forward)};
  if (modulus - forward <= size) return {CursorStep::Kind::kStale, 0};
  return {CursorStep::Kind::kIllegal, 0};
}

// Up to two contiguous ranges of a ring.
struct RingWindow {
  struct Range {
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    friend constexpr bool operator==(const Range&, const Range&) = default;
  };
  Range first, second;
  constexpr std::uint32_t bytes() const { return first.length + second.length; }
  friend constexpr bool operator==(const RingWindow&, const RingWindow&) = default;
};

constexpr RingWindow ring_window(std::uint64_t position, std::uint32_t size, std::uint32_t bytes) {
  const auto offset = static_cast<std::uint32_t>(position % size);
  const std::uint32_t first = bytes < size - offset ? bytes : size - offset;
  return {{offset, first}, {0, bytes - first}};
}

}  // namespace fairlead::smc
