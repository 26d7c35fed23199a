// A channel joins two devices: a block of memory with a control ring and a message ring for each
// direction, and a bell for each direction to wake a sleeping side. It moves bytes and keeps the
// protocol of sleeping; what messages mean is decided in shm_message_path and shm_control_path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "broker/shared_objects.h"
#include "rdma/shm/channel/shm_announced.h"
#include "rdma/shm/channel/shm_bell.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/channel/shm_control.h"
#include "rdma/shm/channel/shm_remote_table.h"
#include "rdma/shm/memory/shm_ring.h"
#include "rdma/shm/memory/shm_segment.h"

namespace fairlead::rdma::shm {

class ShmQueuePair;
class ShmReceiveQueue;

class Channel {
 public:
  enum class Side : std::uint8_t { kDialler = 0, kAcceptor = 1 };
  enum class State : std::uint8_t {
    kOpen,     // its memory may be still to come
    kClosing,  // the peer is gone; what it put into the ring before is still received
    kDead,
  };

  // A channel that has been asked for, before its memory has come: what is said waits for attach().
  // `scratch` has the size of ChannelMemory and stands for it until then. `budget` counts what the
  // peer makes us map, and outlives *this.
  Channel(PeerId peer, Mapping scratch, MapBudget& budget);

  // Gives the channel its memory and bells. Errors: those of adopt_segment() and
  // ChannelBell::adopt(); then nothing has changed.
  Result<void> attach(Side side, broker::ChannelEnd end);
  bool attached() const { return attached_; }
  bool awaits_memory() const { return state_ == State::kOpen && !attached_; }

  PeerId peer() const { return peer_; }
  std::uint32_t pod() const { return pod_; }
  void set_pod(std::uint32_t pod) { pod_ = pod; }
  State state() const { return state_; }
  int bell() const { return bell_.descriptor(); }  // -1 while it is awaited
  bool peer_alive() { return bell_.peer_alive(); }

  // Waits when the ring is full, or still to come. A limit makes the channel kClosing.
  void send(const ControlMessage& message);
  // The same for a QueuePairGone that the peer asked for. One that waits already is enough. False
  // when kAnswersWaitingMax makes the channel kClosing.
  bool answer(const ControlMessage& gone);
  // False while control messages wait: nothing may be put into the ring then, it would overtake
  // them.
  bool control_flushed() const { return backlog_.messages.empty(); }
  void flush_control();
  // Since when control messages wait for the peer to take others. Not while the channel's memory is
  // awaited, for which the connector has its own limits.
  std::optional<TimePoint> stalled_since() const { return backlog_.stalled_since; }

  // One of sending.announced, as its due().
  std::optional<BufferId> grant_due(TimePoint now) {
    return sending.announced.any() ? sending.announced.due(control_out_.taken(), now)
                                   : std::nullopt;
  }

  // The peer has put more into its control ring than we have handled.
  bool control_waiting() const { return control_in.waiting(); }

  void close();      // → kClosing; keeps the rings
  void terminate();  // → kDead; closes the bells

  // Wakes the peer if it sleeps and asked for what happened since the last call. Returns as
  // ChannelBell::ring().
  Duration ring_if_due();
  void note_posted() { posted_ = true; }
  void note_consumed() { consumed_ = true; }

  // Tells the peer to ring. Afterwards has_work(kOrdered) must be false for sleeping to be safe.
  // `backlog`: the connector waits for the peer to read, too.
  void fall_asleep(bool backlog);
  void stay_awake() {
    asleep_ = false;
    own_side().sleeping.store(0, std::memory_order_relaxed);
  }
  // While asleep: the peer has taken our wish, as it does before it rings.
  bool was_rung() const {
    return asleep_ && own_side().sleeping.load(std::memory_order_relaxed) == 0;
  }
  // Something that poll() would act upon. `ordered` takes part in the order fall_asleep() relies
  // on.
  bool has_work(bool ordered) const;

  // The fields below are kept by the engine's parts and by queue pairs; the channel only reads
  // them.
  RingProducer producer;
  RingConsumer consumer;
  ControlConsumer control_in;
  RemoteTable remote;
  struct {
    std::vector<ShmQueuePair*> senders;      // connected queue pairs that post here
    std::uint32_t signaled_outstanding = 0;  // their signaled requests without completion
    bool completions_due = false;            // some of them are known to be done
    bool blocked = false;                    // a post found no room
    std::uint64_t reaped_head = 0;           // producer.head() when completions were last made
    AnnouncedBuffers announced;              // that the peer has not taken
  } sending;
  struct {
    bool failures_due = false;  // queue pairs to fail once the ring is read to failure_at
    std::uint64_t failure_at = 0;
    const ShmQueuePair* stalled_on = nullptr;  // the front message waits for this queue pair
    // Since when the front control message, which is an announcement, waits for its memory.
    std::optional<TimePoint> awaiting_grant;
  } receiving;
  struct {
    unsigned idle_arms = 0;    // arms without traffic
    bool active = false;       // in the list of channels looked at by poll()
    bool bell_listed = false;  // in the list of channels for ring_doorbells()
    bool check_alive = false;  // rung, and not asked since whether the peer lives
  } schedule;
  struct {
    std::uint32_t users = 0;  // queue pairs that point here
    TimePoint asked_at{};     // of one that awaits its memory, or did
    bool abandoned = false;   // who asked for it has gone, and the answer is still to come
  } demand;

 private:
  ChannelMemory& memory() const;
  SideMemory& own_side() const { return memory().sides[static_cast<int>(side_)]; }
  SideMemory& peer_side() const { return memory().sides[1 - static_cast<int>(side_)]; }
  void start_rings();
  // False when the message has to wait.
  bool push(const ControlMessage& message);
  struct Waiting {
    ControlMessage message;
    bool answer = false;
  };
  struct Backlog {
    std::deque<Waiting> messages;
    std::unordered_set<std::uint64_t> answers;  // source and destination of each
    std::optional<TimePoint> stalled_since;
  };
  void wait(const Waiting& waiting);

  PeerId peer_;
  std::uint32_t pod_ = 0;
  Side side_ = Side::kDialler;
  State state_ = State::kOpen;
  bool attached_ = false;
  Mapping mapping_;
  ChannelBell bell_;
  ControlProducer control_out_;
  Backlog backlog_;
  bool asleep_ = false;
  bool posted_ = false;
  bool consumed_ = false;
};

}  // namespace fairlead::rdma::shm
