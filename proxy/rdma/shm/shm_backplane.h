// What the objects of one device share, and the heart of the device: which channels have to be
// looked at, where an arriving message goes, what a control message changes, and who dies of what.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bounded_queue.h"
#include "base/handle.h"
#include "rdma/device.h"
#include "rdma/shm/shm_buffer.h"
#include "rdma/shm/shm_channel_table.h"
#include "rdma/shm/shm_discards.h"
#include "rdma/shm/shm_events.h"
#include "rdma/shm/shm_grant_table.h"
#include "rdma/shm/shm_queue_pair_table.h"

namespace fairlead::rdma::shm {

class Backplane {
 public:
  Backplane(std::unique_ptr<Connector> connector, FileDescriptor timer, std::uint32_t random,
            std::vector<Port> ports, bool addressable);
  Backplane(const Backplane&) = delete;
  Backplane& operator=(const Backplane&) = delete;

  AsyncEvents events;
  BufferTable buffers;

  FabricId fabric_id() const { return channels_.connector().id(); }
  const Connector& connector() const { return channels_.connector(); }
  bool addressable() const { return addressable_; }
  std::span<const Port> ports() const { return ports_; }
  PortState port_state(PortNumber port) const;
  void set_port_state(PortNumber port, PortState state);
  bool has_channel(PeerId peer) const { return channels_.find_open(peer) != nullptr; }
  std::optional<PeerFault> poll_fault();
  // Other limits than kGrantWaitMax and kControlStallMax.
  void set_wait_limits(Duration grant_wait, Duration control_stall) {
    grant_wait_ = grant_wait;
    control_stall_ = control_stall;
  }

  // As in Device.
  std::size_t poll(std::span<Completion> completions);
  bool pending() const noexcept;
  bool arm();
  void disarm();
  void ring_doorbells();
  Result<void> set_watcher(FdWatcher* watcher) { return channels_.set_watcher(watcher); }
  void handle_readable(int fd);

  // For queue pairs, domains and receive queues.
  Result<void> add(ShmQueuePair& queue_pair);
  void remove(ShmQueuePair& queue_pair);
  // The channel to post on for that device, dialled if there is none.
  Result<Channel*> channel_to(PeerId peer);
  // That queue pair, which is about to be destroyed, points to it no longer.
  void release(Channel& channel, QpNumber queue_pair);
  // The memory of a new buffer, and of one that is destroyed.
  Result<Blank> take_buffer() { return channels_.connector().take_buffer(); }
  void discard_buffer(Mapping memory, const BufferId& buffer);
  // Tells the peer of the channel about a local buffer and gives it the memory.
  void announce(Channel& channel, const ControlMessage& announcement);
  void send(Channel& channel, const ControlMessage& message);
  void note_posted(Channel& channel);
  void queue_pair_connected(const ShmQueuePair& queue_pair) { unstall(queue_pair); }
  void queue_pair_broken(ShmQueuePair& queue_pair, bool report, bool has_requests);
  void receive_queue_refilled(const ShmReceiveQueue& queue);
  // Reads all that the peer has told so far, new channels included.
  void drain_control(PeerId peer);
  // Gives the channel up at once, for a reason that is worth a line in a log.
  void kill(Channel& channel, const Error& error);

 private:
  enum class Delivery : std::uint8_t { kDone, kDropped, kStalled };

  void activate(Channel& channel);
  void list_bell(Channel& channel);
  void unstall(const ShmQueuePair& queue_pair);

  void take_arrivals();
  void handle_arrival(ConnectorEvent event);
  void keep_grant(ConnectorEvent event);
  void note_fault(PeerId peer, const Error& error);
  void handle_bell(Channel& channel);
  void check_peer(Channel& channel);
  void free_discarded();
  void handle_timer();
  void start_timer();
  void check_waits();
  // How many it has handled.
  int handle_control(Channel& channel, int messages_max);
  Result<void> apply(Channel& channel, const ControlMessage& message);
  Result<void> handle_announce(Channel& channel, const ControlMessage& message);
  Result<void> wait_for_grant(Channel& channel, const BufferId& buffer);
  Result<void> handle_ready(Channel& channel, const ControlMessage& message);
  Result<void> handle_gone(Channel& channel, const ControlMessage& message);
  // Tells the peer that queue pair `ours` is not there for its queue pair `theirs`.
  void answer_gone(Channel& channel, QpNumber ours, QpNumber theirs);

  std::size_t flush_broken(std::span<Completion> into);
  // `control_left`: of kControlPerPollMax; `control_share`: of that, for one channel.
  std::size_t serve(Channel& channel, std::span<Completion> into, int control_share,
                    int& control_left);
  std::size_t complete_sends(Channel& channel, std::span<Completion> into);
  std::size_t receive(Channel& channel, std::span<Completion> into);
  Delivery deliver(Channel& channel, const MessageHeader& header, Completion& into);
  Delivery refuse(Channel& channel, const MessageHeader& header);
  void fail_departed(Channel& channel);
  void end(Channel& channel);
  void forget_dead();

  bool addressable_;
  std::vector<Port> ports_;
  FileDescriptor timer_;  // timerfd: runs while control messages or discards_ wait
  bool timer_runs_ = false;
  Duration grant_wait_ = kGrantWaitMax;
  Duration control_stall_ = kControlStallMax;
  Discards discards_;
  ChannelTable channels_;
  GrantTable grants_;  // counts in the budget of channels_
  QueuePairTable queue_pairs_;
  std::vector<ShmQueuePair*> broken_;  // with requests to flush
  std::vector<Channel*> active_;       // looked at by poll()
  std::vector<Channel*> asleep_;       // put to sleep by the last arm()
  std::vector<Channel*> bells_;        // for ring_doorbells()
  std::vector<Channel*> stalled_;      // a message waits for a receive request
  std::size_t next_active_ = 0;        // where the next poll() begins, so that all get their turn
  BoundedQueue<PeerFault> faults_;
};

}  // namespace fairlead::rdma::shm
