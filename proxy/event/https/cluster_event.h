// Events of the core group, by which Fairlead reports on an object of the cluster.
// Source: Kubernetes API reference, Event v1.
#pragma once

#include <string>

namespace fairlead::event {

struct ClusterEvent {
  std::string component;  // who tells
  std::string host;       // the node that it runs on; empty: none is told
  std::string name_space;
  struct {
    std::string api_version, kind, name, uid;
  } about;
  bool warning = true;
  std::string reason;   // one word
  std::string message;  // cut where the API server would refuse it
};

std::string cluster_event_path(const ClusterEvent& event);
// Of this moment. What is no UTF-8 is replaced.
std::string cluster_event_body(const ClusterEvent& event);

}  // namespace fairlead::event
