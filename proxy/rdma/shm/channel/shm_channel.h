// A channel joins two devices: a block of memory with a control ring and a message ring for each
// direction, and a bell for each direction to wake a sleeping side. It moves bytes and keeps the
// protocol of sleeping; what messages mean is decided in shm_message_path and shm_control_path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
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

  // A buffer of this side to grant again, as AnnouncedBuffers::due().
  std::optional<BufferId> grant_due(TimePoint now) {
    return sending_.announced.any() ? sending_.announced.due(control_out_.taken(), now)
                                    : std::nullopt;
  }

  // The peer has put more into its control ring than we have handled.
  bool control_waiting() const { return control_in_.waiting(); }

  void close();      // → kClosing; keeps the rings
  void terminate();  // → kDead; closes the bells

  // Wakes the peer if it sleeps and asked for what happened since the last call. Returns as
  // ChannelBell::ring().
  Duration ring_if_due();
  void note_posted() { wakes_.posted = true; }
  void note_consumed() { wakes_.consumed = true; }

  // Tells the peer to ring. Afterwards has_work(kOrdered) must be false for sleeping to be safe.
  // `backlog`: the connector waits for the peer to read, too.
  void fall_asleep(bool backlog);
  void stay_awake() {
    wakes_.asleep = false;
    own_side().sleeping.store(0, std::memory_order_relaxed);
  }
  // While asleep: the peer has taken our wish, as it does before it rings.
  bool was_rung() const {
    return wakes_.asleep && own_side().sleeping.load(std::memory_order_relaxed) == 0;
  }
  // Something that poll() would act upon. `ordered` takes part in the order fall_asleep() relies
  // on.
  bool has_work(bool ordered) const;

  // The rings, and what the peer has told. All are empty until attach().
  RingProducer& producer() { return producer_; }
  const RingProducer& producer() const { return producer_; }
  RingConsumer& consumer() { return consumer_; }
  const RingConsumer& consumer() const { return consumer_; }
  ControlConsumer& control_in() { return control_in_; }
  RemoteTable& remote() { return remote_; }

  // Connected queue pairs that post here. `signaled`: its requests that have no completion.
  std::span<ShmQueuePair* const> senders() const { return sending_.senders; }
  void add_sender(ShmQueuePair& queue_pair) { sending_.senders.push_back(&queue_pair); }
  void remove_sender(ShmQueuePair& queue_pair, std::uint32_t signaled) {
    std::erase(sending_.senders, &queue_pair);
    sending_.signaled_outstanding -= signaled;
  }
  // A signaled request was posted, or has got its completion.
  void note_signaled() { ++sending_.signaled_outstanding; }
  void note_completed() { --sending_.signaled_outstanding; }
  void note_blocked() { sending_.blocked = true; }  // a post found no room
  void stop_waiting_for_room() { sending_.blocked = sending_.completions_due = false; }
  // True when the senders may have completions: the peer has taken more since the last call, or
  // some are due.
  bool take_progress();
  // Some requests are known to be done.
  void set_completions_due(bool due) { sending_.completions_due = due; }
  // producer().head() at the last take_progress().
  std::uint64_t reaped_head() const { return sending_.reaped_head; }

  // The front message waits for this queue pair; null: for none.
  const ShmQueuePair* stalled_on() const { return receiving_.stalled_on; }
  void stall_on(const ShmQueuePair* queue_pair) { receiving_.stalled_on = queue_pair; }
  // Queue pairs whose peer has left fail once what it had sent until now is read. REQUIRES:
  // consumer().refresh() was true.
  void note_departure() { receiving_.failure_at = consumer_.tail(); }
  // True, once, when they have to fail: all is read, or nothing takes it.
  bool take_departure();
  // Since when the front control message, an announcement, waits for its memory.
  std::optional<TimePoint> awaiting_grant() const { return receiving_.awaiting_grant; }
  void await_grant(TimePoint now) {
    if (!receiving_.awaiting_grant) receiving_.awaiting_grant = now;
  }
  void stop_awaiting_grant() { receiving_.awaiting_grant.reset(); }
  bool announced_any() const { return sending_.announced.any(); }

  // Queue pairs that point here.
  std::uint32_t users() const { return demand_.users; }
  void add_user() { ++demand_.users; }
  void remove_user() { --demand_.users; }
  // When its memory was asked for.
  TimePoint asked_at() const { return demand_.asked_at; }
  void note_asked(TimePoint now) { demand_.asked_at = now; }
  // The queue pair that asked for the channel has gone, and the answer has not come yet.
  void set_abandoned(bool abandoned) { demand_.abandoned = abandoned; }
  bool take_abandoned() { return std::exchange(demand_.abandoned, false); }

  // The peer has rung, and was not asked since whether it lives.
  void note_rung() { wakes_.check_alive = true; }
  bool check_alive_due() const { return wakes_.check_alive; }
  void note_checked() { wakes_.check_alive = false; }
  // Kept by ChannelScheduler.
  struct Schedule {
    unsigned idle_arms = 0;    // arms without traffic
    bool active = false;       // in the list of channels looked at by poll()
    bool bell_listed = false;  // in the list of channels for ring_doorbells()
  };
  Schedule& schedule() { return schedule_; }

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
  RingProducer producer_;
  RingConsumer consumer_;
  ControlConsumer control_in_;
  RemoteTable remote_;
  struct {
    std::vector<ShmQueuePair*> senders;
    std::uint32_t signaled_outstanding = 0;
    bool completions_due = false;
    bool blocked = false;
    std::uint64_t reaped_head = 0;
    AnnouncedBuffers announced;  // that the peer has not taken
  } sending_;
  struct {
    std::optional<std::uint64_t> failure_at;  // the ring is read to there
    const ShmQueuePair* stalled_on = nullptr;
    std::optional<TimePoint> awaiting_grant;
  } receiving_;
  Schedule schedule_;
  struct {
    std::uint32_t users = 0;
    TimePoint asked_at{};
    bool abandoned = false;
  } demand_;
  struct {
    bool asleep = false;
    bool posted = false;
    bool consumed = false;
    bool check_alive = false;
  } wakes_;
};

}  // namespace fairlead::rdma::shm
