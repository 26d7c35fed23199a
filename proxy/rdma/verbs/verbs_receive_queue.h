// A shared receive queue of a device.
#pragma once

#include <memory>
#include <vector>

#include "rdma/device.h"
#include "rdma/verbs/verbs_buffer.h"
#include "rdma/verbs/verbs_completions.h"

namespace fairlead::rdma::verbs {

class VerbsReceiveQueue final : public SharedReceiveQueue {
 public:
  static Result<std::unique_ptr<VerbsReceiveQueue>> create(const VerbsDomain& domain,
                                                           CompletionQueue& completions,
                                                           std::uint32_t requests_max);
  ~VerbsReceiveQueue() override;
  VerbsReceiveQueue(const VerbsReceiveQueue&) = delete;
  VerbsReceiveQueue& operator=(const VerbsReceiveQueue&) = delete;

  Result<void> post(std::span<const ReceiveRequest> requests) override;
  Result<void> arm_limit(std::uint32_t count) override;

  ibv_srq* get() const { return queue_.get(); }
  // A posted request has completed.
  void note_taken() { --posted_; }

 private:
  VerbsReceiveQueue(CompletionQueue& completions, std::uint32_t requests_max);

  CompletionQueue& completions_;
  std::uint32_t requests_max_;
  std::uint32_t posted_ = 0;
  bool reserved_ = false;
  std::uint32_t serial_ = 0;
  ReceiveQueueHandle queue_;
  std::vector<ibv_recv_wr> requests_;  // of one post(), kept between uses
  std::vector<ibv_sge> pieces_;
};

}  // namespace fairlead::rdma::verbs
