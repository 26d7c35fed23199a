// The heart of a shared-memory device: what Device asks for, and what queue pairs, domains and
// receive queues need of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rdma/device.h"
#include "rdma/shm/channel/shm_control_path.h"
#include "rdma/shm/channel/shm_message_path.h"
#include "rdma/shm/memory/shm_buffer.h"
#include "rdma/shm/memory/shm_discards.h"
#include "rdma/shm/memory/shm_page_returns.h"
#include "rdma/shm/shm_engine_parts.h"

namespace fairlead::rdma::shm {

class ShmEngine {
 public:
  ShmEngine(std::unique_ptr<Connector> connector, FileDescriptor timer, std::uint32_t random,
            std::vector<Port> ports, bool addressable)
      : parts_(std::move(connector), std::move(timer), random, std::move(ports), addressable) {}

  BufferTable buffers;

  void set_port_state(PortNumber port, PortState state);
  EngineParts& parts() { return parts_; }
  const EngineParts& parts() const { return parts_; }
  ControlPath& control() { return control_; }

  // As in Device.
  std::size_t poll(std::span<Completion> completions) { return messages_.poll(completions); }
  bool pending() const noexcept;
  bool arm();
  void disarm() { parts_.scheduler.wake_up(); }
  void ring_doorbells();
  Result<void> set_watcher(FdWatcher* watcher) { return parts_.channels.set_watcher(watcher); }
  void handle_readable(int fd);

  Result<void> add(ShmQueuePair& queue_pair);
  void remove(ShmQueuePair& queue_pair);
  void queue_pair_broken(ShmQueuePair& queue_pair, bool report, bool has_requests);
  void receive_queue_refilled(const ShmReceiveQueue& queue);

  // The channel to post on for that device, dialled if there is none.
  Result<Channel*> channel_to(PeerId peer);
  // That queue pair, which is about to be destroyed, points to it no longer.
  void release(Channel& channel, QpNumber queue_pair);

  // The memory of a new buffer, and of one that is destroyed.
  Result<Blank> take_buffer() { return parts_.channels.connector().take_buffer(); }
  void discard_buffer(Mapping memory, const BufferId& buffer);
  std::unique_ptr<PageReturn> return_pages(std::span<std::byte> view) {
    return page_returns_.add(view);
  }
  // Tells the peer of the channel about a local buffer and gives it the memory.
  void announce(Channel& channel, const ControlMessage& announcement);

 private:
  void handle_timer();
  void free_discarded();

  Discards discards_;
  PageReturns page_returns_;
  EngineParts parts_;
  ControlPath control_{parts_};
  MessagePath messages_{parts_, control_};
};

}  // namespace fairlead::rdma::shm
