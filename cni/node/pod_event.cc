#include "cni/node/pod_event.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>

namespace fairlead::cni::node {
namespace {

constexpr std::size_t kNameCharsMax = 253;

// As Kubernetes' own components name their Events.
std::string event_name(const std::string& pod) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  std::array<char, 24> end{};
  (void)std::snprintf(end.data(), end.size(), ".%016llx",
                      static_cast<unsigned long long>(now.count()));
  const std::string suffix = end.data();
  return pod.substr(0, kNameCharsMax - suffix.size()) + suffix;
}

}  // namespace

event::ClusterEvent pod_event(const std::string& node, const std::string& name_space,
                              const std::string& pod, const std::string& uid) {
  event::ClusterEvent event;
  event.component = "fairlead-node";
  event.host = node;
  event.name_space = name_space;
  event.name = event_name(pod);
  event.about = {"v1", "Pod", pod, uid};
  return event;
}

}  // namespace fairlead::cni::node
