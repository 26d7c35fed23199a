// A simulated RDMA network: its devices, their queue pairs, and the effect of requests at the other
// end, one packet at a time. The Pace decides when a packet moves.
//
// Order: requests of one queue pair move in the order posted, one by one; those of different queue
// pairs move in any order. A SEND waits for a receive request without limit (infinite RNR retry).
//
// Threads: none in a simulation. The conformance suite uses one for each device, therefore the
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/ids.h"
#include "rdma/device.h"
#include "sim/event_file.h"

namespace fairlead::sim {

class SimDevice;
class SimQueuePair;

class Pace {
 public:
  virtual ~Pace() = default;
  // Runs `move` after the time that a packet or its answer takes.
  virtual void soon(std::function<void()> move) = 0;
  // Runs `move` when the retries of a sender are used up; never, if packets take no time.
  virtual void after_retries(std::function<void()> move) = 0;
  // True if the failure of a queue pair is announced to its peer. Otherwise the peer notices it by
  // its next request.
  virtual bool announced() = 0;
  // True with this probability, in thousandths.
  virtual bool chance(unsigned per_mille) = 0;
  // Called at the end of a call that moved packets.
  virtual void settle() {}
};

// Registered memory as the network sees it. Outlives the buffer: the holder of a view still writes
// into pages that no longer belong to a buffer.
class Memory {
 public:
  explicit Memory(std::size_t size_bytes);
  // The same bytes, for another device to register.
  explicit Memory(std::shared_ptr<Memory> other);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::span<std::byte> bytes;  // zeroed; empty if there is no memory
  std::uint64_t domain = 0;
  RemoteKey rkey;
  RemoteAddress address;
  bool granted = true;
  bool peer_may_write = false;

 private:
  std::shared_ptr<Memory> owner_;  // of the bytes, where it is another
};

// Existing objects, to find leaks.
struct FabricCounts {
  std::size_t domains = 0, buffers = 0, receive_queues = 0, queue_pairs = 0, devices = 0;
  bool none() const { return domains + buffers + receive_queues + queue_pairs + devices == 0; }
};

class Fabric {
 public:
  explicit Fabric(Pace& pace) : pace_(pace) {}
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  bool knows(const Gid& gid) const;
  // The queue pair that would receive what this one sends now.
  const SimQueuePair* opposite(const SimQueuePair& queue_pair) const;
  const FabricCounts& counts() const { return counts_; }
  // How often pages of a view were given back.
  std::uint64_t pages_returned() const { return pages_returned_; }
  // Sees every message that is received. For checkers.
  std::function<void(const SimQueuePair& sender, std::span<const std::byte> message)> on_message;
  // May change a message before it is received, not its length. For scenarios.
  std::function<void(const SimQueuePair& sender, std::span<std::byte> message)> alter;
  // Sees every work request that is posted, before it moves. May be empty.
  std::function<void(const SimQueuePair& sender, const rdma::WorkRequest& request)> on_post;
  // Where all that queue pairs do is written. Not owned; may be null.
  EventFile* events = nullptr;

 private:
  friend class SimDevice;
  friend class SimQueuePair;
  friend class SimReceiveQueue;
  friend class SimDomain;
  friend class SimBuffer;

  // Held by every call from outside.
  class Access {
   public:
    explicit Access(Fabric& fabric) : fabric_(fabric), lock_(fabric.mutex_) {}
    ~Access() { fabric_.pace_.settle(); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    Fabric& fabric_;
    std::lock_guard<std::recursive_mutex> lock_;
  };

  enum class Route : std::uint8_t { kOpen, kNotYet, kGone };
  struct Target {
    Route route = Route::kGone;
    SimQueuePair* queue_pair = nullptr;
  };

  void start(SimQueuePair& sender);
  void move(std::uint64_t sender);
  bool deliver(SimQueuePair& sender, SimQueuePair& target);
  void wait_for_retries(SimQueuePair& sender);
  Target target_of(const SimQueuePair& sender) const;
  SimQueuePair* find(std::uint64_t id) const;
  // Notifies the peer of a failed queue pair.
  void peer_died(const Gid& gid, QpNumber peer, QpNumber dead);

  Pace& pace_;
  mutable std::recursive_mutex mutex_;
  std::map<Gid, SimDevice*> devices_;
  std::map<std::uint64_t, SimQueuePair*> queue_pairs_;
  FabricCounts counts_;
  std::uint64_t pages_returned_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_address_ = 0x100000;
};

}  // namespace fairlead::sim
