// The node in a service account token. A token of a pod names the node that the pod was bound to,
// since Kubernetes 1.30. Pure. Source: Kubernetes, "Managing Service Accounts", "Schema for service
// account private claims"; RFC 7515, section 7.1.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace fairlead::cni::node {

// A token has some two kilobytes.
inline constexpr std::size_t kTokenBytesMax = 16 << 10;

struct NodeIdentity {
  std::string name;
  std::string uid;  // empty: unknown
  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

// The node that the token names. The signature is not checked: the token is the agent's own, and
// the API server checks it. Empty if the token names no node, or contains characters that no name
// has.
std::optional<NodeIdentity> node_claim(std::string_view token);

// The node of the token, because the API server's policies use it. Without one, the node that the
// command line names.
NodeIdentity identify_node(const std::string& named, std::string_view token);

}  // namespace fairlead::cni::node
