// The note that the plugin leaves for the sidecar: the alias of interface lo in the pod's network
// namespace. It needs no mount, is readable without privileges (/sys/class/net/lo/ifalias), and
// lives and dies with the namespace.
//
//   smc1;pnet=NETA;rnic=mlx5_0/1,mlx5_1/1;mode=shared;gid=auto
//
// "smc1" is the version; after it come key=value pairs in any order. Readers ignore keys that they
// do not know.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fairlead::cni {

inline constexpr std::size_t kAliasBytesMax = 255;  // IFALIASZ without its terminator
inline constexpr std::string_view kAliasPrefix = "smc1;";

struct HandOver {
  std::string pnet;                // empty: no physical network
  std::vector<std::string> rnics;  // "mlx5_0/1"; empty: whichever there are
  bool operator==(const HandOver&) const = default;
};

// With all RNICs, or none where there is no room for all.
std::string to_alias(const HandOver& note);

// Of lo in the network namespace of the calling thread; empty when there is none.
Result<std::string> read_loopback_alias();
// Empty removes it.
Result<void> write_loopback_alias(std::string_view alias);

}  // namespace fairlead::cni
