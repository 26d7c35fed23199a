// Big-endian output: a cursor over a span that is large enough. Running out of room is an own
// bug and asserts; every encoder's output buffer is sized for its largest message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"

namespace fairlead::wire {

class Writer {
 public:
  constexpr explicit Writer(std::span<std::byte> out) : out_(out) {}

  constexpr std::size_t written() const { return at_; }

  constexpr void u8(std::uint8_t value) { put(value, 1); }
  constexpr void u16(std::uint16_t value) { put(value, 2); }
  constexpr void u24(std::uint32_t value) {
    SMC_ASSERT(value < (1U << 24), value);
    put(value, 3);
  }
  constexpr void u32(std::uint32_t value) { put(value, 4); }
  constexpr void u64(std::uint64_t value) { put(value, 8); }

  template <std::size_t N>
  constexpr void bytes(const std::array<std::uint8_t, N>& values) {
    for (std::uint8_t value : values) u8(value);
  }
  template <std::size_t N>
  constexpr void chars(const std::array<char, N>& values) {
    for (char value : values) u8(static_cast<std::uint8_t>(value));
  }
  constexpr void zeroes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) u8(0);
  }
  // Fills up with zeroes until `size` bytes have been written.
  constexpr void zeroes_until(std::size_t size) {
    SMC_ASSERT(at_ <= size, at_, size);
    zeroes(size - at_);
  }

 private:
  constexpr void put(std::uint64_t value, std::size_t count) {
    SMC_ASSERT(out_.size() - at_ >= count, out_.size(), at_, count);
    for (std::size_t i = 0; i < count; ++i)
      out_[at_ + i] = static_cast<std::byte>(value >> (8 * (count - 1 - i)));
    at_ += count;
  }

  std::span<std::byte> out_;
  std::size_t at_ = 0;
};

// Stores for fixed offsets, the counterpart of the loads in reader.h.
constexpr void store_be16(std::span<std::byte, 2> out, std::uint16_t value) {
  out[0] = static_cast<std::byte>(value >> 8);
  out[1] = static_cast<std::byte>(value);
}
constexpr void store_be32(std::span<std::byte, 4> out, std::uint32_t value) {
  out[0] = static_cast<std::byte>(value >> 24);
  out[1] = static_cast<std::byte>(value >> 16);
  out[2] = static_cast<std::byte>(value >> 8);
  out[3] = static_cast<std::byte>(value);
}

}  // namespace fairlead::wire
