#include "rdma/shm/queue/shm_receive_queue.h"

#include <utility>

#include "base/assert.h"
#include "rdma/shm/shm_device.h"

namespace fairlead::rdma::shm {

Result<void> ShmReceiveQueue::post(std::span<const ReceiveRequest> requests) {
  if (requests.size() > requests_.room()) return Error{Errc::kExhausted, "shared receive queue"};
  for (const ReceiveRequest& request : requests) {
    SMC_ASSERT(request.buffer != nullptr);
    const std::size_t size = request.buffer->bytes().size();
    SMC_ASSERT(request.offset <= size && request.length_bytes <= size - request.offset,
               request.offset, request.length_bytes, size);
    requests_.push(request);
  }
  if (!requests.empty()) device_->receive_queue_refilled(*this);
  return {};
}

Result<void> ShmReceiveQueue::arm_limit(std::uint32_t count) {
  if (count > requests_.capacity()) return Error{Errc::kExhausted, "limit of a receive queue"};
  limit_ = count;
  check_limit();
  return {};
}

std::optional<ReceiveRequest> ShmReceiveQueue::take() {
  if (requests_.empty()) return std::nullopt;
  ReceiveRequest request = requests_.pop();
  check_limit();
  return request;
}

void ShmReceiveQueue::check_limit() {
  if (requests_.count() >= limit_) return;
  limit_ = 0;
  device_->parts().events.receive_limit();
}

}  // namespace fairlead::rdma::shm
