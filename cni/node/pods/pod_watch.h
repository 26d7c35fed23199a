// Pods of this node that have a sidecar, from the plugin's states, and a descriptor that reports
// changes.
#pragma once

#include <map>
#include <string>

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
  // Makes the folder of the plugin's states if it is missing. Errors: kState.
  static Outcome<PodWatch> open(const std::string& run_dir);

  int descriptor() const { return inotify_.get(); }  // readable when it is time to look()
  // Pods whose network namespace exists, or may exist. A runtime that crashed removes no state.
  const WatchedPods& look();

 private:
  PodWatch(std::string run_dir, FileDescriptor inotify)
      : run_dir_(std::move(run_dir)), inotify_(std::move(inotify)) {}
  std::string run_dir_;
  FileDescriptor inotify_;
  WatchedPods pods_;
};

}  // namespace fairlead::cni::node
