// Netlink messages as bytes: a writer for requests and a reader for answers that trusts no length.
// Pure. Source: netlink(7); every message and attribute is padded to four bytes.
//
// Debian has no static libmnl, which libnftnl needs, and libnl knows no nf_tables: see
// docs/adr/0013-netlink-by-hand.md.
#pragma once

#include <linux/netlink.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace fairlead::cni::netlink {

using Bytes = std::span<const std::byte>;

constexpr std::uint16_t big_endian(std::uint16_t value) {
  return static_cast<std::uint16_t>((value >> 8) | (value << 8));
}
constexpr std::uint32_t big_endian(std::uint32_t value) { return __builtin_bswap32(value); }
static_assert(std::endian::native == std::endian::little ||
              std::endian::native == std::endian::big);

// Values in the form of attributes that are defined as big-endian.
template <class T>
T network_order(T value) {
  return std::endian::native == std::endian::big ? value : big_endian(value);
}

template <class T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// For protocols whose messages have no fixed part of their own.
struct NoFamily {};

class Writer {
 public:
  // A message, whose fixed part after the netlink header is `family`. end() closes it.
  template <class Family>
  void begin(std::uint16_t type, std::uint16_t flags, std::uint32_t sequence,
             const Family& family) {
    start_ = bytes_.size();
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST);
    header.nlmsg_seq = sequence;
    append(bytes_of(header));
    if constexpr (!std::is_empty_v<Family>) append(bytes_of(family));
  }
  void end();

  void attribute(std::uint16_t type, Bytes value);
  void text(std::uint16_t type, std::string_view value);  // with its terminator
  void u8(std::uint16_t type, std::uint8_t value) { attribute(type, bytes_of(value)); }
  void u32(std::uint16_t type, std::uint32_t value) { attribute(type, bytes_of(value)); }
  void u32_network(std::uint16_t type, std::uint32_t value) { u32(type, network_order(value)); }

  // Attributes written in `body` become the value of one of this type.
  template <class Body>
  void nest(std::uint16_t type, Body body) {
    const std::size_t start = open(static_cast<std::uint16_t>(type | NLA_F_NESTED));
    body();
    close(start);
  }

  Bytes bytes() const { return bytes_; }

 private:
  void append(Bytes value);
  std::size_t open(std::uint16_t type);
  void close(std::size_t start);

  std::vector<std::byte> bytes_;
  std::size_t start_ = 0;
};

struct Message {
  nlmsghdr header{};
  Bytes body;  // behind the netlink header
};
struct Attribute {
  std::uint16_t type = 0;  // without the flags for nesting and byte order
  Bytes value;
};

// Removes the next message from `rest`. False at the end, and at a message with an impossible
// length.
bool next(Bytes& rest, Message& message);
bool next(Bytes& rest, Attribute& attribute);

// The attributes behind a fixed part of `family_bytes`.
Bytes attributes_of(const Message& message, std::size_t family_bytes);
// The value of the first attribute of this type; empty when there is none.
Bytes find(Bytes attributes, std::uint16_t type);
// Up to a terminator.
std::string_view text_of(Bytes value);
// 0 when it is not four bytes long.
std::uint32_t u32_of(Bytes value);

}  // namespace fairlead::cni::netlink
