#include "cni/node/token_claims.h"

#include <algorithm>
#include <cstdint>

#include "cni/json_text.h"

namespace fairlead::cni::node {
namespace {

constexpr std::size_t kNodeNameCharsMax = 253;
constexpr std::size_t kUidCharsMax = 128;

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// RFC 1123, as Kubernetes has it. It gets into paths and labels.
bool is_node_name(const std::string& text) {
  return !text.empty() && text.size() <= kNodeNameCharsMax && is_lower_or_digit(text.front()) &&
         is_lower_or_digit(text.back()) && text.find("..") == std::string::npos &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_lower_or_digit(c) || c == '-' || c == '.'; });
}

bool is_uid(const std::string& text) {
  return !text.empty() && text.size() <= kUidCharsMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '-';
         });
}

// RFC 4648, section 5, without padding.
std::optional<std::string> from_base64url(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr unsigned kBitsOfDigit = 6, kBitsOfByte = 8;
  std::string bytes;
  std::uint32_t value = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << kBitsOfDigit | static_cast<std::uint32_t>(digit);
    bits += kBitsOfDigit;
    if (bits < kBitsOfByte) continue;
    bits -= kBitsOfByte;
    bytes.push_back(static_cast<char>(value >> bits & 0xff));
  }
  return bytes;
}

}  // namespace

std::optional<NodeIdentity> node_claim(std::string_view token) {
  if (token.size() > kTokenBytesMax) return std::nullopt;
  const std::size_t begin = token.find('.');
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = token.find('.', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  const auto payload = from_base64url(token.substr(begin + 1, end - begin - 1));
  if (!payload) return std::nullopt;
  const auto claims = parse_json(*payload, kTokenBytesMax);
  if (!claims) return std::nullopt;
  const Json& node = member(*claims, "kubernetes.io", "node");
  NodeIdentity identity{text_of(member(node, "name")), text_of(member(node, "uid"))};
  if (!is_node_name(identity.name) || !is_uid(identity.uid)) return std::nullopt;
  return identity;
}

NodeIdentity identify_node(const std::string& named, std::string_view token) {
  return node_claim(token).value_or(NodeIdentity{named, ""});
}

}  // namespace fairlead::cni::node
