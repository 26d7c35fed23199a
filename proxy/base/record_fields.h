// Fields of records and shared memory at fixed offsets, in the byte order of all machines that we
// are built for: little-endian. What goes over a network is big-endian (wire/reader.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace fairlead {

static_assert(std::endian::native == std::endian::little, "a field is what memory holds");

// Numbers, enumerations, and arrays of bytes. REQUIRES: the record has the whole field.
template <class T>
void put_field(std::span<std::byte> into, std::size_t at, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(into.data() + at, &value, sizeof value);
}

template <class T>
void get_field(std::span<const std::byte> from, std::size_t at, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(&value, from.data() + at, sizeof value);
}

template <class T>
T get_field(std::span<const std::byte> from, std::size_t at) {
  T value;
  get_field(from, at, value);
  return value;
}

}  // namespace fairlead
