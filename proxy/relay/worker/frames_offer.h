// Whether the listeners for peers announce that connections may begin in frames. All workers of a
// proxy listen on the same ports, and the option program keeps the announcement by port: it is
// withdrawn while at least one worker lacks the memory.
//
// Thread-safe. A worker changes its part rarely, see SocketMemory::affords_frames().
#pragma once

#include <atomic>
#include <mutex>

namespace fairlead::relay {

class FramesOffer {
 public:
  // One more worker has memory for connections in frames again, or one fewer.
  void set_affordable(bool affordable) {
    const std::lock_guard lock(mutex_);
    workers_short_ = affordable ? workers_short_ - 1 : workers_short_ + 1;
    due_ = (workers_short_ == 0) != announced_;
  }
  // `announce(bool)` is called if what holds for all has changed, and again with later calls while
  // it returns false; never by two workers at a time.
  template <class Announce>
  void settle(Announce announce) {
    if (!due_.load(std::memory_order_relaxed)) return;
    repeat(announce);
  }
  // For listeners that were opened since.
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
  bool announced_ = true;  // as the listeners begin
  std::atomic<bool> due_{false};
};

// A worker's part in it. Threads: the worker's.
class FramesOfferOfWorker {
 public:
  explicit FramesOfferOfWorker(FramesOffer& offer) : offer_(offer) {}
  // `affords`: whether the worker has memory for connections in frames, by what it had before.
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
