// IPv4 and IPv6 transport addresses as values, and the CIDR blocks that match them. Numeric only:
// no name is ever looked up. Free of threads and of system calls.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace fairlead {

// 1 to 65535, in digits without a leading zero. Nothing for anything else.
std::optional<std::uint16_t> parse_port(std::string_view text);

// An address and a port, ready for bind(2) and connect(2). Equality, order and hash look at family,
// address bytes, port and (IPv6) scope id; the flow label is ignored and always zero.
class SocketAddress {
 public:
  // 0.0.0.0:0
  SocketAddress() : SocketAddress(in_addr{}, 0) {}
  // `port` in host byte order.
  SocketAddress(const in_addr& address, std::uint16_t port);
  SocketAddress(const in6_addr& address, std::uint16_t port, std::uint32_t scope_id = 0);

  // "192.0.2.1:80", "[2001:db8::1]:80" or "[fe80::1%2]:80" (the scope as interface index). The port
  // is decimal and required, 0 is allowed. Errors: kMalformed, and kUnsupported for a scope by
  // name.
  static Result<SocketAddress> parse(std::string_view text);

  // From what accept(2), getsockname(2) and the like stored. Errors: kTruncated when `length` is
  // too short for the family, kUnsupported for families other than AF_INET and AF_INET6.
  static Result<SocketAddress> from(const sockaddr* address, socklen_t length);
  static Result<SocketAddress> from(const sockaddr_storage& address, socklen_t length) {
    return from(reinterpret_cast<const sockaddr*>(&address), length);
  }

  bool is_v4() const { return std::holds_alternative<sockaddr_in>(address_); }
  bool is_v6() const { return !is_v4(); }
  sa_family_t family() const { return is_v4() ? AF_INET : AF_INET6; }
  std::uint16_t port() const;      // host byte order
  std::uint32_t scope_id() const;  // 0 for IPv4
  // The 4 or 16 bytes of the address in network order. Valid as long as *this.
  std::span<const std::uint8_t> bytes() const;

  bool is_any() const;        // 0.0.0.0 or ::
  bool is_loopback() const;   // 127.0.0.0/8 or ::1, IPv4-mapped too
  bool is_v4_mapped() const;  // ::ffff:a.b.c.d

  SocketAddress with_port(std::uint16_t port) const;
  // An IPv4-mapped IPv6 address as plain IPv4, anything else as it is. Dual-stack listeners report
  // mapped addresses; policy, logs and dialling want the IPv4 one.
  SocketAddress unmapped() const;

  // For system calls. Valid as long as *this.
  const sockaddr* data() const;
  socklen_t size() const { return is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }

  std::size_t hash() const;
  friend bool operator==(const SocketAddress& a, const SocketAddress& b) { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const SocketAddress& a, const SocketAddress& b);

 private:
  std::variant<sockaddr_in, sockaddr_in6> address_;
};

std::string to_string(const SocketAddress& address);               // as parse() reads it
std::string to_string_without_port(const SocketAddress& address);  // "192.0.2.1", "2001:db8::1"

// Whose share of a limit an address counts against, without port. One host may use all addresses of
// an IPv6 /64, so they count as one; an IPv4-mapped address counts as IPv4. The IPv6 loopback
// address stands for itself. To tell hosts apart, use the address itself.
SocketAddress address_block(const SocketAddress& address);
std::string address_block_name(const SocketAddress& address);  // "192.0.2.1", "2001:db8::/64"

// A block of addresses, "10.0.0.0/8" or "fd00::/8". Ports play no part.
class Cidr {
 public:
  // 0.0.0.0/0
  Cidr() = default;

  // Also a bare address, which means itself alone. Errors: kMalformed, also for bits set behind the
  // prefix ("10.0.0.1/8"), where it cannot be known which half was the slip.
  static Result<Cidr> parse(std::string_view text);

  // The block of this prefix that contains the address; `address` as network() has it, and the
  // prefix at most as long as the family allows.
  static Cidr around(sa_family_t family, std::span<const std::uint8_t, 16> address,
                     unsigned prefix_length);

  // True when the address lies in the block. An IPv4-mapped address is looked up as IPv4; a block
  // of the other family never matches.
  bool contains(const SocketAddress& address) const;
  // True when some address lies in both.
  bool overlaps(const Cidr& other) const;

  sa_family_t family() const { return family_; }
  unsigned prefix_length() const { return prefix_length_; }
  // Its first address in network order, all 16 bytes; IPv4 in the first four, zeros behind.
  std::span<const std::uint8_t, 16> network() const { return network_; }
  friend bool operator==(const Cidr&, const Cidr&) = default;
  friend std::string to_string(const Cidr& block);

 private:
  std::array<std::uint8_t, 16> network_{};  // IPv4 in the first four
  sa_family_t family_ = AF_INET;
  unsigned prefix_length_ = 0;
};

}  // namespace fairlead

template <>
struct std::hash<fairlead::SocketAddress> {
  std::size_t operator()(const fairlead::SocketAddress& address) const noexcept {
    return address.hash();
  }
};
