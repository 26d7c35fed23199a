// The completion queue of a device, the channel that wakes us, and the queue pair or receive queue
// that each completion belongs to. One queue for sends and receives, so that their order is kept;
// it grows with the queue pairs, because a queue that overflows takes the whole device with it.
//
// A work request is named by its wr_id alone: the opcode of a failed completion is not defined.
//   bit 63 set:    31 bits of the queue pair's serial number, 32 bits of its request's
//   bit 63 clear:  15 bits of the receive queue's serial number, 48 bits of the poster's WorkId
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "rdma/device.h"
#include "rdma/verbs/verbs_handles.h"

namespace fairlead::rdma::verbs {

class VerbsQueuePair;
class VerbsReceiveQueue;

class CompletionQueue {
 public:
  // `context` outlives the queue. Errors: those of libibverbs.
  static Result<std::unique_ptr<CompletionQueue>> create(ibv_context& context,
                                                         std::uint32_t entries_max);
  ~CompletionQueue();

  ibv_cq* get() const { return queue_.get(); }
  int fd() const { return channel_->fd; }

  // Room for so many more completions; kExhausted when the device cannot hold them.
  Result<void> reserve(std::uint32_t entries);
  void give_back(std::uint32_t entries) { reserved_ -= entries; }

  // Each gives the serial number for wr_ids.
  std::uint32_t add(VerbsQueuePair& queue_pair);
  Result<std::uint32_t> add(VerbsReceiveQueue& receive_queue);
  // Takes in what the device holds, so that no receive is lost with the queue pair; completions of
  // its sends are dropped. The queue pair is in error, or was never connected.
  void remove(VerbsQueuePair& queue_pair, std::uint32_t serial);
  void remove(std::uint32_t receive_queue_serial) { receive_queues_.erase(receive_queue_serial); }

  template <class Visit>
  void for_each(Visit visit) {
    for (const auto& [serial, queue_pair] : queue_pairs_) visit(*queue_pair);
  }

  std::size_t poll(std::span<Completion> completions);
  bool pending() const noexcept;
  bool arm();
  // The channel is readable.
  void take_notices();
  // What completions tell of receive queues that are not shared, and of their queue pairs: the
  // device says nothing else of them.
  std::optional<AsyncEvent> take_event();

  static std::uint64_t send_id(std::uint32_t serial, std::uint32_t request) {
    return std::uint64_t{1} << 63 | std::uint64_t{serial} << 32 | request;
  }
  static std::uint64_t receive_id(std::uint32_t serial, WorkId id);

 private:
  CompletionQueue(ChannelHandle channel, CompletionQueueHandle queue, std::uint32_t entries_max)
      : channel_(std::move(channel)), queue_(std::move(queue)), entries_max_(entries_max) {}
  // From the device to waiting_. True when there was anything.
  bool fetch() const;
  bool translate(const ibv_wc& from, Completion& to) const;

  ChannelHandle channel_;
  CompletionQueueHandle queue_;
  std::uint32_t entries_max_;
  std::uint32_t reserved_ = 0;
  std::uint32_t queue_pair_serial_ = 0;
  std::uint32_t receive_queue_serial_ = 0;
  std::unordered_map<std::uint32_t, VerbsQueuePair*> queue_pairs_;  // by serial number
  std::unordered_map<std::uint32_t, VerbsReceiveQueue*> receive_queues_;
  // Fetched, not yet polled: pending() must look to know, and a queue pair that goes must leave
  // its receives. At most what the queue holds.
  mutable std::deque<Completion> waiting_;
  mutable std::deque<AsyncEvent> events_;  // not yet taken; two a queue pair at most
  bool armed_ = false;
};

}  // namespace fairlead::rdma::verbs
