#include "base/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace fairlead {
namespace {

constexpr std::size_t kMappedPrefixBytes = 12;  // ::ffff: in front of an IPv4 address

// The whole of `text` as an unsigned decimal number not above `max`.
std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t max) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stopped != end || value > max) return std::nullopt;
  return value;
}

// inet_pton wants a terminated string; the longest address fits INET6_ADDRSTRLEN.
template <class Address>
bool parse_ip(int family, std::string_view text, Address& into) {
  char terminated[INET6_ADDRSTRLEN] = {};
  if (text.size() >= sizeof terminated) return false;
  std::memcpy(terminated, text.data(), text.size());
  return std::strlen(terminated) == text.size() && inet_pton(family, terminated, &into) == 1;
}

Result<SocketAddress> parse_v6(std::string_view address, std::uint16_t port) {
  std::uint32_t scope = 0;
  if (auto percent = address.find('%'); percent != std::string_view::npos) {
    auto index = parse_number(address.substr(percent + 1), UINT32_MAX);
    if (!index) return Error{Errc::kUnsupported, "IPv6 scope that is no interface index"};
    scope = *index;
    address = address.substr(0, percent);
  }
  in6_addr ip{};
  if (!parse_ip(AF_INET6, address, ip)) return Error{Errc::kMalformed, "IPv6 address"};
  return SocketAddress(ip, port, scope);
}

}  // namespace

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto port = parse_number(text, UINT16_MAX);
  if (!port || text.front() == '0') return std::nullopt;
  return static_cast<std::uint16_t>(*port);
}

SocketAddress::SocketAddress(const in_addr& address, std::uint16_t port) {
  sockaddr_in value{};
  value.sin_family = AF_INET;
  value.sin_addr = address;
  value.sin_port = htons(port);
  address_ = value;
}

SocketAddress::SocketAddress(const in6_addr& address, std::uint16_t port, std::uint32_t scope_id) {
  sockaddr_in6 value{};
  value.sin6_family = AF_INET6;
  value.sin6_addr = address;
  value.sin6_port = htons(port);
  value.sin6_scope_id = scope_id;
  address_ = value;
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return Error{Errc::kMalformed, "address without address:port"};
  auto port = parse_number(text.substr(colon + 1), UINT16_MAX);
  if (!port) return Error{Errc::kMalformed, "port not in 0..65535"};
  auto number = static_cast<std::uint16_t>(*port);
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.back() != ']') return Error{Errc::kMalformed, "IPv6 address without closing bracket"};
    return parse_v6(host.substr(1, host.size() - 2), number);
  }
  if (host.find(':') != std::string_view::npos)
    return Error{Errc::kMalformed, "IPv6 address without brackets"};
  in_addr ip{};
  if (!parse_ip(AF_INET, host, ip)) return Error{Errc::kMalformed, "IPv4 address"};
  return SocketAddress(ip, number);
}

Result<SocketAddress> SocketAddress::from(const sockaddr* address, socklen_t length) {
  if (length < sizeof(sa_family_t)) return Error{Errc::kTruncated, "socket address"};
  sa_family_t family = 0;
  std::memcpy(&family, reinterpret_cast<const char*>(address) + offsetof(sockaddr, sa_family),
              sizeof family);
  if (family == AF_INET) {
    sockaddr_in value{};
    if (length < sizeof value) return Error{Errc::kTruncated, "IPv4 socket address"};
    std::memcpy(&value, address, sizeof value);
    return SocketAddress(value.sin_addr, ntohs(value.sin_port));
  }
  if (family == AF_INET6) {
    sockaddr_in6 value{};
    if (length < sizeof value) return Error{Errc::kTruncated, "IPv6 socket address"};
    std::memcpy(&value, address, sizeof value);
    return SocketAddress(value.sin6_addr, ntohs(value.sin6_port), value.sin6_scope_id);
  }
  return Error{Errc::kUnsupported, "address family other than IPv4 and IPv6"};
}

std::uint16_t SocketAddress::port() const {
  if (auto* v4 = std::get_if<sockaddr_in>(&address_)) return ntohs(v4->sin_port);
  return ntohs(std::get<sockaddr_in6>(address_).sin6_port);
}

std::uint32_t SocketAddress::scope_id() const {
  return is_v4() ? 0 : std::get<sockaddr_in6>(address_).sin6_scope_id;
}

std::span<const std::uint8_t> SocketAddress::bytes() const {
  if (auto* v4 = std::get_if<sockaddr_in>(&address_))
    return {reinterpret_cast<const std::uint8_t*>(&v4->sin_addr), sizeof v4->sin_addr};
  return std::get<sockaddr_in6>(address_).sin6_addr.s6_addr;
}

bool SocketAddress::is_any() const {
  auto all = bytes();
  return std::all_of(all.begin(), all.end(), [](std::uint8_t byte) { return byte == 0; });
}

bool SocketAddress::is_v4_mapped() const {
  auto* v6 = std::get_if<sockaddr_in6>(&address_);
  return v6 != nullptr && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
}

bool SocketAddress::is_loopback() const {
  if (is_v4()) return bytes()[0] == 127;
  if (is_v4_mapped()) return bytes()[kMappedPrefixBytes] == 127;
  return IN6_IS_ADDR_LOOPBACK(&std::get<sockaddr_in6>(address_).sin6_addr);
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress copy = *this;
  if (auto* v4 = std::get_if<sockaddr_in>(&copy.address_))
    v4->sin_port = htons(port);
  else
    std::get<sockaddr_in6>(copy.address_).sin6_port = htons(port);
  return copy;
}

SocketAddress SocketAddress::unmapped() const {
  if (!is_v4_mapped()) return *this;
  in_addr ip{};
  std::memcpy(&ip, bytes().data() + kMappedPrefixBytes, sizeof ip);
  return {ip, port()};
}

const sockaddr* SocketAddress::data() const {
  return std::visit([](const auto& value) { return reinterpret_cast<const sockaddr*>(&value); },
                    address_);
}

std::size_t SocketAddress::hash() const {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (std::uint8_t byte : bytes()) h = (h ^ byte) * 0x100000001b3ULL;
  h = (h ^ port()) * 0x100000001b3ULL;
  h = (h ^ scope_id()) * 0x100000001b3ULL;
  // FNV leaves the port's bits weak at the top; hash tables of a power of two want them mixed.
  return static_cast<std::size_t>(h ^ (h >> 32));
}

std::strong_ordering operator<=>(const SocketAddress& a, const SocketAddress& b) {
  if (auto order = a.family() <=> b.family(); order != 0) return order;
  auto left = a.bytes(), right = b.bytes();
  auto order =
      std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end());
  if (order != 0) return order;
  if (order = a.port() <=> b.port(); order != 0) return order;
  return a.scope_id() <=> b.scope_id();
}

std::string to_string_without_port(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family(), address.bytes().data(), text, sizeof text);
  std::string result = text;
  if (address.scope_id() != 0) result += '%' + std::to_string(address.scope_id());
  return result;
}

std::string to_string(const SocketAddress& address) {
  std::string host = to_string_without_port(address);
  if (address.is_v6()) host = '[' + host + ']';
  return host + ':' + std::to_string(address.port());
}

SocketAddress address_block(const SocketAddress& address) {
  const SocketAddress plain = address.unmapped();
  if (plain.is_v4() || plain.is_loopback()) return plain.with_port(0);
  constexpr std::size_t kBlockBytes = 8;  // of a /64
  in6_addr block{};
  std::copy_n(plain.bytes().begin(), kBlockBytes, block.s6_addr);
  return {block, 0, plain.scope_id()};
}

std::string address_block_name(const SocketAddress& address) {
  const SocketAddress block = address_block(address);
  return to_string_without_port(block) + (block.is_v4() || block.is_loopback() ? "" : "/64");
}

Result<Cidr> Cidr::parse(std::string_view text) {
  Cidr block;
  auto slash = text.find('/');
  std::string_view host = text.substr(0, slash);
  in_addr v4{};
  if (parse_ip(AF_INET, host, v4)) {
    std::memcpy(block.network_.data(), &v4, sizeof v4);
    block.prefix_length_ = 32;
  } else if (in6_addr v6{}; parse_ip(AF_INET6, host, v6)) {
    std::memcpy(block.network_.data(), &v6, sizeof v6);
    block.family_ = AF_INET6;
    block.prefix_length_ = 128;
  } else {
    return Error{Errc::kMalformed, "address of a CIDR block"};
  }
  if (slash != std::string_view::npos) {
    auto length = parse_number(text.substr(slash + 1), block.prefix_length_);
    if (!length) return Error{Errc::kMalformed, "prefix length of a CIDR block"};
    block.prefix_length_ = *length;
  }
  for (std::size_t bit = block.prefix_length_; bit < 8 * block.network_.size(); ++bit)
    if ((block.network_[bit / 8] >> (7 - bit % 8)) & 1)
      return Error{Errc::kMalformed, "CIDR block with bits set behind its prefix"};
  return block;
}

Cidr Cidr::around(sa_family_t family, std::span<const std::uint8_t, 16> address,
                  unsigned prefix_length) {
  Cidr block;
  block.family_ = family;
  block.prefix_length_ = prefix_length;
  for (std::size_t bit = 0; bit < prefix_length; ++bit)
    block.network_[bit / 8] |= static_cast<std::uint8_t>(address[bit / 8] & (0x80U >> (bit % 8)));
  return block;
}

bool Cidr::contains(const SocketAddress& address) const {
  const SocketAddress plain = address.unmapped();
  if (plain.family() != family_) return false;
  auto bytes = plain.bytes();
  std::size_t whole = prefix_length_ / 8;
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                  network_.begin()))
    return false;
  unsigned rest = prefix_length_ % 8;
  return rest == 0 || ((bytes[whole] ^ network_[whole]) >> (8 - rest)) == 0;
}

bool Cidr::overlaps(const Cidr& other) const {
  const unsigned prefix = std::min(prefix_length_, other.prefix_length_);
  return family_ == other.family_ &&
         around(family_, network_, prefix) == around(family_, other.network_, prefix);
}

std::string to_string(const Cidr& block) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(block.family_, block.network_.data(), text, sizeof text);
  return std::string(text) + '/' + std::to_string(block.prefix_length_);
}

}  // namespace fairlead
