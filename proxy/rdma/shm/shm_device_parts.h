// What the parts of a device share: its tables, and what ends a channel or a queue pair.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/bounded_queue.h"
#include "base/linux/handle.h"
#include "rdma/device.h"
#include "rdma/shm/channel/shm_channel_scheduler.h"
#include "rdma/shm/channel/shm_channel_table.h"
#include "rdma/shm/channel/shm_events.h"
#include "rdma/shm/channel/shm_grant_table.h"
#include "rdma/shm/queue/shm_queue_pair_table.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

// A timerfd that expires every kWaitCheckInterval while something waits.
class WaitTimer {
 public:
  explicit WaitTimer(FileDescriptor timer) : timer_(std::move(timer)) {}
  int descriptor() const { return timer_.get(); }
  void start();
  void stop();
  // True if it has expired since the last call.
  bool take_expiry();

 private:
  void set(Duration interval);

  FileDescriptor timer_;
  bool runs_ = false;
};

class Ports {
 public:
  explicit Ports(std::vector<Port> ports) : ports_(std::move(ports)) {}
  std::span<const Port> all() const { return ports_; }
  PortState state(PortNumber port) const;
  // False if it has that state already.
  bool set_state(PortNumber port, PortState state);

 private:
  std::vector<Port> ports_;
};

class PeerFaults {
 public:
  PeerFaults() : faults_(kFaultsMax) {}
  void note(PeerId peer, const Error& error);
  std::optional<PeerFault> poll();

 private:
  BoundedQueue<PeerFault> faults_;
};

// How long what a peer has to do may take.
struct WaitLimits {
  Duration grant = kGrantWaitMax;             // the memory that it has announced
  Duration control_stall = kControlStallMax;  // to take control messages
};

struct DeviceParts {
  DeviceParts(std::unique_ptr<Connector> connector, FileDescriptor timer_descriptor,
              std::uint32_t random, std::vector<Port> own_ports, bool is_addressable);

  // Sends, or keeps what the ring does not take.
  void send(Channel& channel, const ControlMessage& message);
  // Tells the peer that queue pair `ours` is not there for its queue pair `theirs`.
  void answer_gone(Channel& channel, QpNumber ours, QpNumber theirs);
  // Gives the channel up at once, for a reason that is worth a line in a log.
  void kill(Channel& channel, const Error& error);
  // All queue pairs that depend on the channel die with it, but not before the messages that the
  // peer has sent them on another channel until now.
  void end(Channel& channel);
  // The queue pair is connected or broken: messages for it wait no longer.
  void resume(const ShmQueuePair& queue_pair);

  const bool addressable;
  WaitLimits wait_limits;
  Ports ports;
  WaitTimer timer;  // runs while control messages or discarded buffers wait
  AsyncEvents events;
  PeerFaults faults;
  ChannelTable channels;
  GrantTable grants;  // counts in the budget of `channels`
  QueuePairTable queue_pairs;
  ChannelScheduler scheduler;

 private:
  void note_posted(Channel& channel);
  // False if the queue pair receives nothing that came on another channel than the ended one.
  bool fails_later(ShmQueuePair& queue_pair, const Channel& ended);
};

}  // namespace fairlead::rdma::shm
