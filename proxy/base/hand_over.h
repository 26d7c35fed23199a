// What a node tells a sidecar of its RNICs: the alias of interface lo in the pod's network
// namespace. The CNI plugin writes it, the proxy reads it. It needs no mount, is readable without
// privilege, and lives and dies with the namespace (docs/cni.md, "What is done to a pod").
//
//   smc1;pnet=NETA;mode=shared;gid=10.9.0.1,10.9.1.1;rnic=mlx5_0/1,mlx5_1/1
//
// "smc1" is the version; "gid" has the node's own addresses on its RNICs, or "auto". After it come
// key=value pairs in any order. Readers pass over keys that they do not know. The node side adds
// access=REASON when it has decided whether the sidecar gets the device nodes of its RNICs
// (docs/rdma-nodes.md), and crypt=BLOCKS for destinations that it reaches through encryption below
// TCP; crypt=all means every one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/encrypted_paths.h"
#include "base/ids.h"

namespace fairlead {

inline constexpr std::size_t kAliasBytesMax = 255;  // IFALIASZ without its terminator
inline constexpr std::string_view kAliasPrefix = "smc1;";
inline constexpr std::size_t kRnicNameCharsMax = 63;  // IB_DEVICE_NAME_MAX less its terminator

struct RnicPortName {
  std::string device;  // of letters, digits, '_', '-' and '.'
  PortNumber port;
  friend bool operator==(const RnicPortName&, const RnicPortName&) = default;
};

// "mlx5_0/1"
std::string to_string(const RnicPortName& name);
std::optional<RnicPortName> parse_rnic_port(std::string_view text);

inline constexpr std::size_t kAccessCharsMax = 32;

struct HandOver {
  std::string pnet;                 // empty: the node knows of none for this pod
  std::vector<RnicPortName> rnics;  // in that network; empty: whichever there are
  // "granted", or why the sidecar got no device; of a-z and '_'; empty: unsaid.
  std::string access{};
  std::vector<Gid> gids{};  // addresses of the node itself; empty: unsaid
  EncryptedPaths encrypted{};
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

// With all RNICs, or none where there is no room for all, and so the addresses. What parse_alias()
// makes of it is `note`, or `note` without RNICs or addresses.
std::string to_alias(const HandOver& note);
// Nothing for an alias that is somebody else's, of a version to come, or malformed.
std::optional<HandOver> parse_alias(std::string_view alias);

// `alias` with `access` in place of the one that it has; without one where `access` is empty or
// there is no room.
std::string with_access(std::string_view alias, std::string_view access);

// `alias` with `paths` in place of those that it has. Where they have no room they become larger
// blocks, at last all: to_alias() keeps room for that and for the access. Nothing else is lost.
std::string with_encrypted(std::string_view alias, const EncryptedPaths& paths);

// What the plugin wrote, without its mode and what the node side has added since: for comparison.
std::string note_of_plugin(std::string_view alias);

}  // namespace fairlead
