// The injected pods of this node, as the container runtime describes them: for the repair, which
// then needs no right to list pods. Adds a pod when its sidecar is created, or exists when the
// agent connects. Drops it when its network namespace is gone, or when the runtime no longer lists
// it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/paced_lines.h"
#include "cni/node/nri/plugin_session.h"
#include "cni/plugin/request.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node::nri {

// Further pods are not repaired. A kubelet runs some hundred.
inline constexpr std::size_t kRuntimePodsMax = 4096;
// Maximum length of an annotation; the rest is cut. No allowed value is as long.
inline constexpr std::size_t kAnnotationBytesMax = 4096;

struct RuntimePod {
  std::string name_space, name, uid;
  StringMap annotations;               // only those that the node uses
  std::vector<std::string> addresses;  // empty from runtimes that pass none
  std::string netns;                   // path of its network namespace
  NetnsIdentity identity;
};

// All functions but list() are for the thread of the plugin.
class RuntimePods final : public ContainerHandler {
 public:
  void connected(pid_t runtime) override;
  void create_container(const fairlead::nri::PodSandbox& pod,
                        const fairlead::nri::Container& container,
                        fairlead::nri::ContainerAdjustment& adjustment) override;
  void existing_container(const fairlead::nri::PodSandbox& pod,
                          const fairlead::nri::Container& container) override;
  void synchronized() override;

  // Any thread. Checks the network namespace of each pod.
  std::vector<RuntimePod> list();

 private:
  struct Kept {
    RuntimePod pod;
    std::uint64_t connection = 0;  // the latest connection that reported the pod
  };
  void keep(const fairlead::nri::PodSandbox& pod, const fairlead::nri::Container& container);

  std::uint64_t connection_ = 0;
  PacedLines lines_;
  std::mutex mutex_;                  // guards pods_
  std::map<std::string, Kept> pods_;  // by id of the sandbox
};

}  // namespace fairlead::cni::node::nri
