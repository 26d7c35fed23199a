// The shared receive queue: posted buffers that arriving messages are copied into.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bounded_queue.h"
#include "rdma/device.h"

namespace fairlead::rdma::shm {

class ShmDevice;

class ShmReceiveQueue final : public SharedReceiveQueue {
 public:
  ShmReceiveQueue(ShmDevice& device, std::uint32_t requests_max)
      : device_(&device), requests_(requests_max) {}

  Result<void> post(std::span<const ReceiveRequest> requests) override;
  Result<void> arm_limit(std::uint32_t count) override;

  // The oldest request; nothing when the receiver is not ready.
  std::optional<ReceiveRequest> take();

 private:
  void check_limit();

  ShmDevice* device_;
  BoundedQueue<ReceiveRequest> requests_;
  std::uint32_t limit_ = 0;
};

}  // namespace fairlead::rdma::shm
