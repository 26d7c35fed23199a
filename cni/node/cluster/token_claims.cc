#include "cni/node/cluster/token_claims.h"

#include <algorithm>

#include "base/kubernetes_names.h"
#include "cni/plugin/json_text.h"
#include "event/https/base64.h"

namespace fairlead::cni::node {
namespace {

constexpr std::size_t kUidCharsMax = 128;

bool is_uid(const std::string& text) {
  return !text.empty() && text.size() <= kUidCharsMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-';
         });
}

}  // namespace

std::optional<NodeIdentity> node_claim(std::string_view token) {
  if (token.size() > kTokenBytesMax) return std::nullopt;
  const std::size_t begin = token.find('.');
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = token.find('.', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  const auto payload = event::base64url_decoded(token.substr(begin + 1, end - begin - 1));
  if (!payload) return std::nullopt;
  const auto claims = parse_json(*payload, kTokenBytesMax);
  if (!claims) return std::nullopt;
  const Json& node = member(*claims, "kubernetes.io", "node");
  NodeIdentity identity{text_of(member(node, "name")), text_of(member(node, "uid"))};
  if (!kubernetes::is_object_name(identity.name) || !is_uid(identity.uid)) return std::nullopt;
  return identity;
}

NodeIdentity identify_node(const std::string& named, std::string_view token) {
  return node_claim(token).value_or(NodeIdentity{named, ""});
}

}  // namespace fairlead::cni::node
