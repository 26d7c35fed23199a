// What the objects of one device share, and the heart of the device: which channels have to be
// looked at, where an arriving message goes, what a control message changes, and who dies of what.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bounded_queue.h"
#include "rdma/device.h"
#include "rdma/shm/shm_buffer.h"
#include "rdma/shm/shm_channel_table.h"
#include "rdma/shm/shm_events.h"
#include "rdma/shm/shm_queue_pair_table.h"

namespace fairlead::rdma::shm {

class Backplane {
 public:
  Backplane(std::unique_ptr<Rendezvous> rendezvous, PeerId self, std::uint32_t random,
            std::vector<Port> ports, bool addressable);
  Backplane(const Backplane&) = delete;
  Backplane& operator=(const Backplane&) = delete;

  AsyncEvents events;
  BufferTable buffers;

  FabricId fabric_id() const { return channels_.rendezvous().id(); }
  const Rendezvous& rendezvous() const { return channels_.rendezvous(); }
  void reconnect();  // Rendezvous::reconnect(), and what has come of it
  bool addressable() const { return addressable_; }
  std::span<const Port> ports() const { return ports_; }
  PortState port_state(PortNumber port) const;
  void set_port_state(PortNumber port, PortState state);
  bool has_channel(PeerId peer) const { return channels_.find_open(peer) != nullptr; }
  std::optional<ShmFault> poll_fault();

  // As in Device.
  std::size_t poll(std::span<Completion> completions);
  bool pending() const noexcept;
  bool arm();
  void disarm();
  void ring_doorbells();
  void set_watcher(FdWatcher* watcher) { channels_.set_watcher(watcher); }
  void handle_readable(int fd);

  // For queue pairs, domains and receive queues.
  Result<void> add(ShmQueuePair& queue_pair);
  void remove(ShmQueuePair& queue_pair);
  // The channel to post on for that device, dialled if there is none.
  Result<Channel*> channel_to(PeerId peer);
  void release(Channel& channel);  // a queue pair points to it no longer
  void send(Channel& channel, const ControlMessage& message);
  void note_posted(Channel& channel);
  void queue_pair_connected(ShmQueuePair& queue_pair, PeerId peer, QpNumber peer_number);
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

  void accept_waiting();
  void greet(int stranger);
  void handle_control(Channel& channel, int messages_max);
  Result<void> apply(Channel& channel, ReceivedControl& received);
  Result<void> handle_ready(Channel& channel, const ControlMessage& message);
  Result<void> handle_gone(Channel& channel, const ControlMessage& message);

  std::size_t flush_broken(std::span<Completion> into);
  std::size_t serve(Channel& channel, std::span<Completion> into);
  std::size_t complete_sends(Channel& channel, std::span<Completion> into);
  std::size_t receive(Channel& channel, std::span<Completion> into);
  Delivery deliver(Channel& channel, const MessageHeader& header, Completion& into);
  Delivery refuse(Channel& channel, const MessageHeader& header);
  void fail_departed(Channel& channel);
  void end(Channel& channel);
  void forget_dead();

  bool addressable_;
  std::vector<Port> ports_;
  ChannelTable channels_;
  QueuePairTable queue_pairs_;
  std::vector<ShmQueuePair*> broken_;  // with requests to flush
  std::vector<Channel*> active_;       // looked at by poll()
  std::vector<Channel*> asleep_;       // put to sleep by the last arm()
  std::vector<Channel*> bells_;        // for ring_doorbells()
  std::vector<Channel*> stalled_;      // a message waits for a receive request
  std::size_t next_active_ = 0;        // where the next poll() begins, so that all get their turn
  BoundedQueue<ShmFault> faults_;
};

}  // namespace fairlead::rdma::shm
