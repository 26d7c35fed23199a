// Big-endian input: loads from spans of exactly the right size, and a cursor over a span.
//
// The loads take fixed extents, so that m.subspan<10, 2>() on a fixed span is checked by the
// compiler and costs nothing at run time; that is how CDC is read. The cursor is for messages whose
// parts move: reading beyond the end gives zeroes and makes ok() false for good, so a decoder reads
// all fields of a part and asks once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fairlead::wire {

template <std::size_t N>
using ByteView = std::span<const std::byte, N>;

constexpr std::uint8_t load_u8(ByteView<1> in) { return std::to_integer<std::uint8_t>(in[0]); }
constexpr std::uint16_t load_be16(ByteView<2> in) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(in[0]) << 8 |
                                    std::to_integer<unsigned>(in[1]));
}
constexpr std::uint32_t load_be24(ByteView<3> in) {
  return std::to_integer<std::uint32_t>(in[0]) << 16 | std::to_integer<std::uint32_t>(in[1]) << 8 |
         std::to_integer<std::uint32_t>(in[2]);
}
constexpr std::uint32_t load_be32(ByteView<4> in) {
  return std::to_integer<std::uint32_t>(in[0]) << 24 | std::to_integer<std::uint32_t>(in[1]) << 16 |
         std::to_integer<std::uint32_t>(in[2]) << 8 | std::to_integer<std::uint32_t>(in[3]);
}
constexpr std::uint64_t load_be64(ByteView<8> in) {
  return std::uint64_t{load_be32(in.first<4>())} << 32 | load_be32(in.last<4>());
}

class Reader {
 public:
  constexpr explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // False once anything was asked for beyond the end.
  constexpr bool ok() const { return ok_; }
  constexpr std::size_t remaining() const { return bytes_.size(); }

  constexpr std::uint8_t u8() { return load_u8(take<1>()); }
  constexpr std::uint16_t u16() { return load_be16(take<2>()); }
  constexpr std::uint32_t u24() { return load_be24(take<3>()); }
  constexpr std::uint32_t u32() { return load_be32(take<4>()); }
  constexpr std::uint64_t u64() { return load_be64(take<8>()); }

  template <std::size_t N>
  constexpr std::array<std::uint8_t, N> bytes() {
    return convert<std::uint8_t, N>();
  }
  template <std::size_t N>
  constexpr std::array<char, N> chars() {
    return convert<char, N>();
  }

  constexpr void skip(std::size_t count) {
    if (count > bytes_.size()) {
      fail();
    } else {
      bytes_ = bytes_.subspan(count);
    }
  }

 private:
  template <std::size_t N>
  static constexpr std::array<std::byte, N> kZeroes{};

  constexpr void fail() {
    ok_ = false;
    bytes_ = {};
  }

  template <std::size_t N>
  constexpr ByteView<N> take() {
    if (bytes_.size() < N) {
      fail();
      return kZeroes<N>;
    }
    const ByteView<N> taken = bytes_.first<N>();
    bytes_ = bytes_.subspan(N);
    return taken;
  }

  template <class T, std::size_t N>
  constexpr std::array<T, N> convert() {
    const ByteView<N> taken = take<N>();
    std::array<T, N> out{};
    for (std::size_t i = 0; i < N; ++i)
      out[i] = static_cast<T>(std::to_integer<std::uint8_t>(taken[i]));
    return out;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

}  // namespace fairlead::wire
