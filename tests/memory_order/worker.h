// One side of channels: a worker with the real scheduler and the real channels. What the device,
// the message path and a queue pair do between them is written here, one to one after
// shm_device.cc, shm_message_path.cc, shm_control_path.cc and shm_queue_pair.cc, without what needs
// a device.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "explorer.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/channel/shm_channel_scheduler.h"

namespace explore {

namespace shm = fairlead::rdma::shm;

// Memory of a channel whose words have names.
struct PlacedChannel {
  shm::Mapping mapping;
  void place(Explorer& explorer, const std::string& name);
};

class Worker {
 public:
  // `bell` is heard by this side, `peer_bell` by the other.
  void add(const PlacedChannel& placed, shm::Channel::Side side, unsigned bell, unsigned peer_bell);
  // Wakes the worker as a socket or a timer would.
  void hear(unsigned bell) { bells_ |= 1U << bell; }

  // ShmQueuePair::post(), of one message. False when there is no room.
  bool post(std::size_t channel, std::size_t bytes, bool signaled);
  void tell(std::size_t channel);  // DeviceParts::send(), of one control message
  void poll();                     // MessagePath::poll()
  void ring_doorbells();           // ShmDevice::ring_doorbells()
  void rest();                     // WorkerThread::sleep()

  unsigned received(std::size_t channel) const { return ends_[channel].received; }
  unsigned told(std::size_t channel) const { return ends_[channel].told; }
  unsigned completed(std::size_t channel) const { return ends_[channel].completed; }
  bool flushed(std::size_t channel) const { return ends_[channel].channel->control_flushed(); }
  // The peer says a control message before each message.
  void expect_told_first() { told_first_ = true; }

 private:
  struct End {
    std::unique_ptr<shm::Channel> channel;
    unsigned bell = 0;
    unsigned posted = 0, received = 0, completed = 0, said = 0, told = 0;
    std::deque<std::uint64_t> sent;  // positions of signaled requests without completion
  };
  End& end_of(const shm::Channel& channel);
  bool arm();
  bool has_room(shm::Channel& channel, std::uint64_t slots);
  void serve(End& end);
  void handle_control(End& end);
  void complete_sends(End& end);
  void receive(End& end);
  void take(End& end, const shm::MessageHeader& header);

  shm::ChannelScheduler scheduler_;
  shm::MapBudget budget_;
  std::vector<End> ends_;
  unsigned bells_ = 0;
  bool told_first_ = false;
};

// A message is a pattern that only it has.
std::byte pattern(unsigned message, std::size_t at);

}  // namespace explore
