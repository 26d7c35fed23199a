// A channel joins two devices: a block of memory with a message ring per direction, a socket for
// control messages, and a pipe per direction to wake a sleeping side. It moves bytes and keeps the
// protocol of sleeping; what messages mean is decided in shm_backplane.
//
// The doorbell is a pipe whose write end only the ringing side ever holds, and which nobody reads:
// with an eventfd both sides share one file description, and a hostile peer could make our write
// block. A full pipe is replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/handle.h"
#include "base/ids.h"
#include "base/result.h"
#include "rdma/shm/shm_control.h"
#include "rdma/shm/shm_remote_table.h"
#include "rdma/shm/shm_ring.h"
#include "rdma/shm/shm_segment.h"

namespace fairlead::rdma::shm {

class ShmQueuePair;
class ShmReceiveQueue;
class BufferTable;

// What a side asks to be woken for while it sleeps; bits of SideMemory::sleeping.
inline constexpr std::uint64_t kWakeOnMessage = 1;
inline constexpr std::uint64_t kWakeOnProgress = 2;  // we consumed what it sent

struct SideMemory {
  // Set by the side itself, swapped for 0 by the one that rings.
  alignas(64) SharedWord sleeping;
};

struct ChannelMemory {
  SideMemory sides[2];
  RingMemory rings[2];  // rings[s] is filled by side s
};

class Channel {
 public:
  enum class Side : std::uint8_t { kDialler = 0, kAcceptor = 1 };
  enum class State : std::uint8_t {
    kOpen,     // its socket may be still to come
    kClosing,  // the peer is gone; what it put into the ring before is still received
    kDead,
  };

  // `buffers` finds the descriptors of announced buffers and outlives *this.
  Channel(PeerId peer, Side side, FileDescriptor socket, Mapping memory,
          const BufferTable& buffers);

  // As the dialler, before there is a socket: what is said waits for attach().
  Channel(PeerId peer, Segment segment, const BufferTable& buffers);

  // Gives the channel its socket, and the peer the Hello of `self`. Errors: kPeerGone, others.
  Result<void> attach(FileDescriptor socket, PeerId self, FabricId fabric);
  bool awaits_socket() const { return state_ == State::kOpen && !socket_; }

  PeerId peer() const { return peer_; }
  State state() const { return state_; }
  int socket() const { return socket_.get(); }                // -1 while it is awaited
  int peer_doorbell() const { return peer_doorbell_.get(); }  // -1 until the peer sent one

  // Queued when the socket is full, dropped when the peer is gone: that is noticed by receive(),
  // after all that the peer had sent. A limit makes the channel kClosing. Announced buffers are
  // looked up by rkey, so a queued announcement of a destroyed buffer is dropped.
  void send(const ControlMessage& message);
  // False while control messages wait: nothing may be put into the ring then, it would overtake
  // them.
  bool control_flushed() const { return control_queue_.empty(); }
  void flush_control();
  // As receive_control(); notes how far the hint word was when the socket was found empty.
  Result<ReceivedControl> receive();
  // The peer has put more into the socket than we have read, or says so, or is gone.
  bool control_waiting() const {
    return peer_gone_ || rings_in().control_sent.load(std::memory_order_acquire) != control_seen_;
  }
  void adopt_doorbell(FileDescriptor pipe) { peer_doorbell_ = std::move(pipe); }

  void close();      // → kClosing; keeps the rings
  void terminate();  // → kDead; closes all descriptors

  // Wakes the peer if it sleeps and asked for what happened since the last call.
  void ring_if_due();
  void note_posted() { posted_ = true; }
  void note_consumed() { consumed_ = true; }

  // Tells the peer to ring. Afterwards has_work(kOrdered) must be false for sleeping to be safe.
  void fall_asleep();
  void stay_awake() { own_side().sleeping.store(0, std::memory_order_relaxed); }
  // Something that poll() would act upon. `ordered` takes part in the order fall_asleep() relies
  // on.
  bool has_work(bool ordered) const;

  // The fields below are kept by backplane and queue pairs; the channel itself only reads them.
  RingProducer producer;
  RingConsumer consumer;
  RemoteTable remote;
  std::vector<ShmQueuePair*> senders;      // connected queue pairs that post here
  std::uint32_t users = 0;                 // queue pairs that point here
  std::uint32_t signaled_outstanding = 0;  // their signaled requests without completion
  bool completions_due = false;            // some of them are known to be done
  bool blocked = false;                    // a post found no room
  std::uint64_t reaped_head = 0;           // producer.head() when completions were last made
  bool failures_due = false;  // queue pairs to fail once the ring is read to failure_at
  std::uint64_t failure_at = 0;
  const ShmQueuePair* stalled_on = nullptr;  // the front message waits for this queue pair
  unsigned idle_arms = 0;
  bool active = false;       // in the backplane's list of channels looked at by poll()
  bool bell_listed = false;  // in its list of channels for ring_doorbells()

 private:
  ChannelMemory& memory() const;
  SideMemory& own_side() const { return memory().sides[static_cast<int>(side_)]; }
  SideMemory& peer_side() const { return memory().sides[1 - static_cast<int>(side_)]; }
  RingMemory& rings_out() const { return memory().rings[static_cast<int>(side_)]; }
  RingMemory& rings_in() const { return memory().rings[1 - static_cast<int>(side_)]; }
  Result<void> send_now(const ControlMessage& message);
  void lose_peer();
  void ring();
  void replace_doorbell();

  PeerId peer_;
  Side side_;
  State state_ = State::kOpen;
  FileDescriptor socket_;
  FileDescriptor memory_;  // for the Hello of attach()
  Mapping mapping_;
  const BufferTable* buffers_;
  FileDescriptor own_doorbell_;   // write end
  FileDescriptor peer_doorbell_;  // read end
  std::deque<ControlMessage> control_queue_;
  std::uint64_t control_count_ = 0;
  std::uint64_t control_seen_ = 0;
  bool peer_gone_ = false;  // the socket takes nothing more
  bool posted_ = false;
  bool consumed_ = false;
};

}  // namespace fairlead::rdma::shm
