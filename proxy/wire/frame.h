// Frames: how two Fairlead proxies carry a connection over TCP before it has earned SMC-R.
// Read first: docs/wire.md, section "Frames".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace fairlead::wire {

inline constexpr std::size_t kFrameHeaderBytes = 4;
// Bytes of the application in one frame.
inline constexpr std::size_t kFrameBytesMax = 32 * 1024;
inline constexpr std::size_t kHandOverBodyBytes = 8;

// The client's first bytes: that frames follow, and no CLC; with windows or without them.
inline constexpr std::array<std::byte, 4> kFramePreface = {std::byte{0xfa}, std::byte{0x1e},
                                                           std::byte{0xad}, std::byte{0x01}};
inline constexpr std::array<std::byte, 4> kWindowsPreface = {std::byte{0xfa}, std::byte{0x1e},
                                                             std::byte{0xad}, std::byte{0x02}};
static_assert(kFramePreface.size() == kWindowsPreface.size());

enum class FrameType : std::uint8_t {
  kData = 1,      // bytes of the application
  kUrgent = 2,    // one byte of urgent data
  kEnd = 3,       // the application sends no more
  kHandOver = 4,  // no frame follows but CLC; the body is the count of bytes sent in frames
  // On the CLC connection of an SMC-R connection:
  kReturn = 5,    // the sender goes back to frames; the body is the count of bytes sent over SMC-R
  kReturned = 6,  // the sender has all bytes that the peer sent over SMC-R
  kWindow = 7,    // the body is the count of bytes that the peer may send in frames
};

struct FrameHeader {
  FrameType type = FrameType::kData;
  std::uint32_t body_bytes = 0;
};

std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header);
// Errors: kMalformed for an unknown type, or a length that the type does not have.
Result<FrameHeader> decode_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

// kHandOver, kReturn, kWindow
std::array<std::byte, kFrameHeaderBytes + kHandOverBodyBytes> encode_position(
    FrameType type, std::uint64_t position);

}  // namespace fairlead::wire
