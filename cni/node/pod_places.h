// Where a pod is on its node, when no runtime says it: its network namespace, by the addresses that
// the kernel finds there, and its cgroup, by the name that the kubelet gives it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "cni/netns.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kNamespacesMax = 2048;
inline constexpr std::size_t kCgroupsLookedAtMax = 16 * 1024;

struct PodNetns {
  std::string path;
  NetnsIdentity identity;
  std::string ifname;  // of the interface that has the address
};

// The addresses in all network namespaces that have a name in one folder.
class NetnsAddresses {
 public:
  // Enters each for a moment; those that cannot be entered are left out.
  static NetnsAddresses read(const std::string& folder);

  // `addresses` as numbers in text. The error is a sentence: nobody has one of them, or somebody
  // else has it too, which a pod with CAP_NET_ADMIN can bring about.
  tl::expected<PodNetns, std::string> find(const std::vector<std::string>& addresses) const;

 private:
  std::multimap<SocketAddress, PodNetns> found_;  // port 0
};

// Directory of the pod's cgroup below `root`, a cgroup v2 mount or a folder that has one as
// "unified": /kubepods/…/pod<uid> or a slice that ends so, as the kubelet's two drivers name it.
// Errors: kNotFound.
Result<std::string> find_pod_cgroup(const std::string& root, std::string_view uid);

}  // namespace fairlead::cni::node
