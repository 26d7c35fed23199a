// Network namespaces of pods and the addresses in them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "cni/plugin/pod_plan.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kNamespacesMax = 2048;

struct PodNetns {
  std::string path;
  NetnsIdentity identity;
  std::string ifname;                    // of the interface that has the address
  std::vector<std::string> addresses{};  // of the pod, in numeric form
};

// Finds the pod's interface in its own namespace: the one that has one of `addresses`, or eth0, or
// the first one. The result has `addresses`, or those of that interface if there are none. The
// error is a sentence.
Result<PodNetns, std::string> look_into(const std::string& path, const NetnsIdentity& identity,
                                        const std::vector<std::string>& addresses);

// The addresses in all network namespaces that have a name in one folder.
class NetnsAddresses {
 public:
  // Enters each for a moment; skips those that cannot be entered.
  static NetnsAddresses read(const std::string& folder);

  // `addresses` in numeric form. The error is a sentence: no namespace has one of them, or a second
  // one has it too, which a pod with CAP_NET_ADMIN can cause.
  Result<PodNetns, std::string> find(const std::vector<std::string>& addresses) const;

 private:
  std::multimap<SocketAddress, PodNetns> found_;  // port 0
};

}  // namespace fairlead::cni::node
