#include "cni/netlink/message.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::cni::netlink {
namespace {

constexpr std::size_t kAttributeBytesMax = 65535;
constexpr std::uint16_t kTypeMask = 0x3fff;  // NLA_TYPE_MASK is an int that changes its sign

constexpr std::size_t padded(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

}  // namespace

void Writer::append(Bytes value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  bytes_.resize(padded(bytes_.size()));
}

void Writer::end() {
  const auto length = static_cast<std::uint32_t>(bytes_.size() - start_);
  std::memcpy(bytes_.data() + start_, &length, sizeof length);
}

std::size_t Writer::open(std::uint16_t type) {
  const std::size_t start = bytes_.size();
  nlattr header{};
  header.nla_type = type;
  append(bytes_of(header));
  return start;
}

void Writer::close(std::size_t start) {
  SMC_ASSERT(bytes_.size() - start <= kAttributeBytesMax, bytes_.size() - start);
  const auto length = static_cast<std::uint16_t>(bytes_.size() - start);
  std::memcpy(bytes_.data() + start, &length, sizeof length);
}

void Writer::attribute(std::uint16_t type, Bytes value) {
  SMC_ASSERT(value.size() + sizeof(nlattr) <= kAttributeBytesMax, value.size());
  nlattr header{};
  header.nla_type = type;
  header.nla_len = static_cast<std::uint16_t>(sizeof(nlattr) + value.size());
  append(bytes_of(header));
  append(value);
}

void Writer::text(std::uint16_t type, std::string_view value) {
  std::vector<std::byte> bytes(value.size() + 1);
  std::memcpy(bytes.data(), value.data(), value.size());
  attribute(type, bytes);
}

bool next(Bytes& rest, Message& message) {
  if (rest.size() < sizeof(nlmsghdr)) return false;
  std::memcpy(&message.header, rest.data(), sizeof(nlmsghdr));
  const std::size_t length = message.header.nlmsg_len;
  if (length < sizeof(nlmsghdr) || length > rest.size()) return false;
  message.body = rest.subspan(sizeof(nlmsghdr), length - sizeof(nlmsghdr));
  rest = rest.subspan(std::min(padded(length), rest.size()));
  return true;
}

bool next(Bytes& rest, Attribute& attribute) {
  nlattr header;
  if (rest.size() < sizeof header) return false;
  std::memcpy(&header, rest.data(), sizeof header);
  if (header.nla_len < sizeof header || header.nla_len > rest.size()) return false;
  attribute.type = header.nla_type & kTypeMask;
  attribute.value = rest.subspan(sizeof header, header.nla_len - sizeof header);
  rest = rest.subspan(std::min(padded(header.nla_len), rest.size()));
  return true;
}

Bytes attributes_of(const Message& message, std::size_t family_bytes) {
  const std::size_t fixed = padded(family_bytes);
  return message.body.size() < fixed ? Bytes() : message.body.subspan(fixed);
}

Bytes find(Bytes attributes, std::uint16_t type) {
  Attribute attribute;
  while (next(attributes, attribute))
    if (attribute.type == type) return attribute.value;
  return {};
}

std::string_view text_of(Bytes value) {
  const std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
  return text.substr(0, text.find('\0'));
}

std::uint32_t u32_of(Bytes value) {
  std::uint32_t number = 0;
  if (value.size() == sizeof number) std::memcpy(&number, value.data(), sizeof number);
  return number;
}

}  // namespace fairlead::cni::netlink
