#include "rdma/verbs/verbs_receive_queue.h"

#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace fairlead::rdma::verbs {

VerbsReceiveQueue::VerbsReceiveQueue(CompletionQueue& completions, std::uint32_t requests_max,
                                     Kind kind)
    : completions_(completions),
      requests_max_(requests_max),
      kind_(kind),
      requests_(requests_max),
      pieces_(requests_max) {}

Result<std::unique_ptr<VerbsReceiveQueue>> VerbsReceiveQueue::create(const VerbsDomain& domain,
                                                                     CompletionQueue& completions,
                                                                     std::uint32_t requests_max,
                                                                     Kind kind) {
  std::unique_ptr<VerbsReceiveQueue> made(new VerbsReceiveQueue(completions, requests_max, kind));
  SMC_TRY(completions.reserve(requests_max));
  made->reserved_ = true;
  made->serial_ = SMC_TRY(completions.add(*made));
  if (!made->shared()) return made;
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = requests_max;
  wanted.attr.max_sge = 1;
  made->queue_.reset(ibv_create_srq(domain.get(), &wanted));
  if (made->queue_ == nullptr) return system_error("ibv_create_srq", errno);
  return made;
}

VerbsReceiveQueue::~VerbsReceiveQueue() {
  if (serial_ != 0) completions_.remove(serial_);
  if (reserved_) completions_.give_back(requests_max_);
}

Result<void> VerbsReceiveQueue::post(std::span<const ReceiveRequest> requests) {
  if (requests.size() > requests_max_ - posted_)
    return Error{Errc::kExhausted, "room of the receive queue"};
  if (requests.empty() || ended_) return {};
  if (unattached()) {
    early_.insert(early_.end(), requests.begin(), requests.end());
    posted_ += static_cast<std::uint32_t>(requests.size());
    return {};
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const ReceiveRequest& request = requests[i];
    SMC_ASSERT(request.offset + request.length_bytes <= request.buffer->bytes().size(),
               request.offset, request.length_bytes);
    pieces_[i] = {reinterpret_cast<std::uintptr_t>(request.buffer->bytes().data()) + request.offset,
                  request.length_bytes, request.buffer->lkey().value};
    requests_[i] = {};
    requests_[i].wr_id = CompletionQueue::receive_id(serial_, request.id);
    requests_[i].next = i + 1 < requests.size() ? &requests_[i + 1] : nullptr;
    requests_[i].sg_list = &pieces_[i];
    requests_[i].num_sge = 1;
  }
  ibv_recv_wr* refused = nullptr;
  if (const int error = submit(&refused); error != 0) {
    posted_ += static_cast<std::uint32_t>(refused - requests_.data());
    return system_error(shared() ? "ibv_post_srq_recv" : "ibv_post_recv", error);
  }
  posted_ += static_cast<std::uint32_t>(requests.size());
  return {};
}

int VerbsReceiveQueue::submit(ibv_recv_wr** refused) {
  return shared() ? ibv_post_srq_recv(queue_.get(), requests_.data(), refused)
                  : ibv_post_recv(queue_pair_, requests_.data(), refused);
}

Result<void> VerbsReceiveQueue::attach(ibv_qp& queue_pair) {
  SMC_ASSERT(unattached());
  queue_pair_ = &queue_pair;
  posted_ = 0;
  const std::vector<ReceiveRequest> early = std::exchange(early_, {});
  return post(early);
}

VerbsQueuePair* VerbsReceiveQueue::served() const {
  return queue_pair_ == nullptr ? nullptr : static_cast<VerbsQueuePair*>(queue_pair_->qp_context);
}

void VerbsReceiveQueue::detach() {
  queue_pair_ = nullptr;
  ended_ = true;
  posted_ = 0;
}

bool VerbsReceiveQueue::note_taken() {
  // The queue pair may have gone before the completion was seen.
  if (posted_ != 0) --posted_;
  if (posted_ >= limit_) return false;
  limit_ = 0;
  return true;
}

// The device watches shared ones only.
Result<void> VerbsReceiveQueue::arm_limit(std::uint32_t count) {
  if (!shared()) {
    limit_ = count;
    return {};
  }
  ibv_srq_attr attributes{};
  attributes.srq_limit = count;
  if (const int error = ibv_modify_srq(queue_.get(), &attributes, IBV_SRQ_LIMIT); error != 0)
    return system_error("ibv_modify_srq", error);
  return {};
}

}  // namespace fairlead::rdma::verbs
