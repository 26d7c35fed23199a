// Finds a pod's network namespace without the runtime, by the addresses in it.
#pragma once

#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "base/address.h"
#include "cni/netns.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kNamespacesMax = 2048;

struct PodNetns {
  std::string path;
  NetnsIdentity identity;
  std::string ifname;  // of the interface that has the address
};

// The addresses in all network namespaces that have a name in one folder.
class NetnsAddresses {
 public:
  // Enters each for a moment; skips those that cannot be entered.
  static NetnsAddresses read(const std::string& folder);

  // `addresses` in numeric form. The error is a sentence: no namespace has one of them, or another
  // one has it too, which a pod with CAP_NET_ADMIN can cause.
  tl::expected<PodNetns, std::string> find(const std::vector<std::string>& addresses) const;

 private:
  std::multimap<SocketAddress, PodNetns> found_;  // port 0
};

}  // namespace fairlead::cni::node
