// Passes the runtime's calls to several handlers, in their order.
#pragma once

#include <utility>
#include <vector>

#include "cni/node/nri/plugin_session.h"

namespace fairlead::cni::node::nri {

class ContainerHandlers final : public ContainerHandler {
 public:
  // The handlers outlive this object.
  explicit ContainerHandlers(std::vector<ContainerHandler*> all) : all_(std::move(all)) {}

  void connected(pid_t runtime) override {
    for (ContainerHandler* one : all_) one->connected(runtime);
  }
  void create_container(const fairlead::nri::PodSandbox& pod,
                        const fairlead::nri::Container& container,
                        fairlead::nri::ContainerAdjustment& adjustment) override {
    for (ContainerHandler* one : all_) one->create_container(pod, container, adjustment);
  }
  void existing_container(const fairlead::nri::PodSandbox& pod,
                          const fairlead::nri::Container& container) override {
    for (ContainerHandler* one : all_) one->existing_container(pod, container);
  }
  void synchronized() override {
    for (ContainerHandler* one : all_) one->synchronized();
  }

 private:
  std::vector<ContainerHandler*> all_;
};

}  // namespace fairlead::cni::node::nri
