// A receive queue: a shared one of the device, or that of one queue pair where the device has none.
#pragma once

#include <memory>
#include <vector>

#include "rdma/device.h"
#include "rdma/verbs/verbs_buffer.h"
#include "rdma/verbs/verbs_completions.h"

namespace fairlead::rdma::verbs {

class VerbsQueuePair;

class VerbsReceiveQueue final : public SharedReceiveQueue {
 public:
  enum class Kind : std::uint8_t { kShared, kOfQueuePair };
  static Result<std::unique_ptr<VerbsReceiveQueue>> create(const VerbsDomain& domain,
                                                           CompletionQueue& completions,
                                                           std::uint32_t requests_max, Kind kind);
  ~VerbsReceiveQueue() override;
  VerbsReceiveQueue(const VerbsReceiveQueue&) = delete;
  VerbsReceiveQueue& operator=(const VerbsReceiveQueue&) = delete;

  Result<void> post(std::span<const ReceiveRequest> requests) override;
  Result<void> arm_limit(std::uint32_t count) override;

  bool shared() const { return kind_ == Kind::kShared; }
  std::uint32_t requests_max() const { return requests_max_; }
  ibv_srq* get() const { return queue_.get(); }  // null unless it is shared
  // It waits for its queue pair.
  bool unattached() const { return !shared() && queue_pair_ == nullptr && !ended_; }
  // Posts what was posted before to the queue pair, which is in state INIT. REQUIRES: unattached()
  Result<void> attach(ibv_qp& queue_pair);
  VerbsQueuePair* served() const;  // null unless there is one
  // The queue pair is about to be destroyed.
  void detach();
  // A posted request has completed. True when fewer are left than the limit that was armed here.
  bool note_taken();

 private:
  VerbsReceiveQueue(CompletionQueue& completions, std::uint32_t requests_max, Kind kind);
  int submit(ibv_recv_wr** refused);

  CompletionQueue& completions_;
  std::uint32_t requests_max_;
  Kind kind_;
  std::uint32_t posted_ = 0;
  std::uint32_t limit_ = 0;       // of one that is not shared
  ibv_qp* queue_pair_ = nullptr;  // likewise
  bool ended_ = false;
  std::vector<ReceiveRequest> early_;  // posted before there was a queue pair
  bool reserved_ = false;
  std::uint32_t serial_ = 0;
  ReceiveQueueHandle queue_;
  std::vector<ibv_recv_wr> requests_;  // of one post(), kept between uses
  std::vector<ibv_sge> pieces_;
};

}  // namespace fairlead::rdma::verbs
