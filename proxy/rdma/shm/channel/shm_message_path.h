// Moves the messages of channels and makes completions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rdma/shm/channel/shm_control_path.h"
#include "rdma/shm/shm_device_parts.h"

namespace fairlead::rdma::shm {

class MessagePath {
 public:
  MessagePath(DeviceParts& parts, ControlPath& control) : parts_(parts), control_(control) {}

  // As Device::poll().
  std::size_t poll(std::span<Completion> completions);
  // A broken queue pair has requests to flush.
  bool pending() const { return !broken_.empty(); }
  void flush_later(ShmQueuePair& queue_pair) { broken_.push_back(&queue_pair); }
  void forget(ShmQueuePair& queue_pair) { std::erase(broken_, &queue_pair); }

 private:
  enum class Delivery : std::uint8_t { kDone, kDropped, kStalled };

  std::size_t flush_broken(std::span<Completion> into);
  // `control_left`: of kControlPerPollMax; `control_share`: of that, for one channel.
  std::size_t serve(Channel& channel, std::span<Completion> into, int control_share,
                    int& control_left);
  std::size_t complete_sends(Channel& channel, std::span<Completion> into);
  std::size_t receive(Channel& channel, std::span<Completion> into);
  Delivery deliver(Channel& channel, const MessageHeader& header, Completion& into);
  Delivery refuse(Channel& channel, const MessageHeader& header);
  void fail_departed(Channel& channel);

  DeviceParts& parts_;
  ControlPath& control_;
  std::vector<ShmQueuePair*> broken_;
};

}  // namespace fairlead::rdma::shm
