// Decides whether the listeners for peers announce that connections may begin in frames. All
// workers of a proxy listen on the same ports, and the option program keeps the announcement per
// port. So it is withdrawn while at least one worker lacks the memory.
//
// Thread-safe. A worker changes its state rarely, see SocketMemory::affords_frames().
#pragma once

#include <atomic>
#include <mutex>

namespace fairlead::relay {

class FramesOffer {
 public:
  // Called when a worker has memory for connections in frames again, or has it no longer.
  void set_affordable(bool affordable) {
    const std::lock_guard lock(mutex_);
    workers_short_ = affordable ? workers_short_ - 1 : workers_short_ + 1;
    due_ = (workers_short_ == 0) != announced_;
  }
  // Calls `announce(bool)` if the offer of all workers has changed. While that returns false, later
  // calls repeat it. Never runs in two workers at a time.
  template <class Announce>
  void settle(Announce announce) {
    if (!due_.load(std::memory_order_relaxed)) return;
    repeat(announce);
  }
  // Announces unconditionally, for listeners that were opened since.
  template <class Announce>
  void repeat(Announce announce) {
    const std::lock_guard lock(mutex_);
    const bool offered = workers_short_ == 0;
    const bool done = announce(offered);
    if (done) announced_ = offered;
    due_ = !done;
  }

 private:
  std::mutex mutex_;
  unsigned workers_short_ = 0;
  bool announced_ = true;  // the initial state of listeners
  std::atomic<bool> due_{false};
};

// One worker's part in the offer. Thread: the worker's.
class FramesOfferOfWorker {
 public:
  explicit FramesOfferOfWorker(FramesOffer& offer) : offer_(offer) {}
  // `affords(before)` tells whether the worker has memory for connections in frames, given its last
  // answer.
  template <class Affords, class Announce>
  void update(Affords affords, Announce announce) {
    const bool now = affords(affords_);
    if (now != affords_) offer_.set_affordable(now);
    affords_ = now;
    offer_.settle(announce);
  }
  template <class Announce>
  void repeat(Announce announce) {
    offer_.repeat(announce);
  }

 private:
  FramesOffer& offer_;
  bool affords_ = true;
};

}  // namespace fairlead::relay
