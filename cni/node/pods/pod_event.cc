#include "cni/node/pods/pod_event.h"

namespace fairlead::cni::node {

event::ClusterEvent pod_event(const std::string& node, const std::string& name_space,
                              const std::string& pod, const std::string& uid) {
  event::ClusterEvent event;
  event.component = "fairlead-node";
  event.host = node;
  event.name_space = name_space;
  event.about = {"v1", "Pod", pod, uid};
  return event;
}

}  // namespace fairlead::cni::node
