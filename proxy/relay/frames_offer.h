// Whether the listeners for peers announce that connections may begin in frames. All workers of a
// proxy listen on the same ports, and the option program keeps the announcement by port: it is
// withdrawn while at least one worker lacks the memory.
//
// Thread-safe. A worker changes its part rarely, see SocketMemory::affords_frames().
#pragma once

#include <mutex>

namespace fairlead::relay {

class FramesOffer {
 public:
  // One more worker has memory for connections in frames again, or one fewer. `announce(bool)` is
  // called when this changes what holds for all, and never by two workers at a time.
  template <class Announce>
  void set_affordable(bool affordable, Announce announce) {
    const std::lock_guard lock(mutex_);
    const bool before = workers_short_ == 0;
    workers_short_ = affordable ? workers_short_ - 1 : workers_short_ + 1;
    const bool now = workers_short_ == 0;
    if (now != before) announce(now);
  }
  // The same call for listeners that were opened since.
  template <class Announce>
  void repeat(Announce announce) {
    const std::lock_guard lock(mutex_);
    announce(workers_short_ == 0);
  }

 private:
  std::mutex mutex_;
  unsigned workers_short_ = 0;
};

// A worker's part in it. Threads: the worker's.
class FramesOfferOfWorker {
 public:
  explicit FramesOfferOfWorker(FramesOffer& offer) : offer_(offer) {}
  // `affords`: whether the worker has memory for connections in frames, by what it had before.
  template <class Affords, class Announce>
  void update(Affords affords, Announce announce) {
    const bool now = affords(affords_);
    if (now == affords_) return;
    affords_ = now;
    offer_.set_affordable(now, announce);
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
