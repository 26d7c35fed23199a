// Pods of this node that have a sidecar, and a descriptor that reports changes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/linux/handle.h"
#include "cni/plugin/plugin_error.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {

struct WatchedPod {
  std::string netns;
  NetnsIdentity identity;
  friend bool operator==(const WatchedPod&, const WatchedPod&) = default;
};
using WatchedPods = std::map<std::string, WatchedPod>;  // by container id

class PodWatch {
 public:
  // From the plugin's states, whose folder is made if it is missing. Pods whose network namespace
  // exists, or may exist: a runtime that crashed removes no state. Errors: kState.
  static Outcome<PodWatch> of_states(const std::string& run_dir);
  // The own network namespace and those with a name in that folder, as ip-netns(8) makes them. ""
  // for no folder. Errors: kState.
  static Outcome<PodWatch> of_namespaces(const std::string& folder);

  // Readable when it is time to look(); -1 if that is never.
  int descriptor() const { return inotify_.get(); }
  const WatchedPods& look();

 private:
  using Reader = std::function<WatchedPods(int inotify)>;
  PodWatch(FileDescriptor inotify, Reader read)
      : inotify_(std::move(inotify)), read_(std::move(read)) {}
  FileDescriptor inotify_;
  Reader read_;
  WatchedPods pods_;
};

}  // namespace fairlead::cni::node
