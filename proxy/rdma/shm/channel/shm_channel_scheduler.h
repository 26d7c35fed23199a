// Which channels of a device have to be looked at: those with work, those whose bell is due, those
// whose message waits for a receive request, and those that the last arm() has put to sleep.
#pragma once

#include <cstddef>
#include <vector>

#include "rdma/shm/channel/shm_channel.h"

namespace fairlead::rdma::shm {

class ChannelScheduler {
 public:
  // poll() looks at it.
  void activate(Channel& channel);
  // ring_doorbells() looks at it.
  void list_bell(Channel& channel);
  void note_posted(Channel& channel) {
    activate(channel);
    list_bell(channel);
  }
  // It has moved something, and is looked at for some more arms.
  void note_traffic(Channel& channel) { channel.schedule().idle_arms = 0; }
  // The front message waits for stalled_on() of the channel.
  void stall(Channel& channel) { stalled_.push_back(&channel); }
  // `resumes(queue pair)`: channels that wait for it go on.
  template <class Resumes>
  void resume(Resumes resumes) {
    std::erase_if(stalled_, [&](Channel* channel) {
      if (!resumes(*channel->stalled_on())) return false;
      channel->stall_on(nullptr);
      activate(*channel);
      return true;
    });
  }

  // One round of poll() over `count` channels, the next of which is `channel(i)`. Serving one may
  // activate another; that one is served in the next round.
  struct Round {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  Round begin_round();
  Channel& channel(const Round& round, std::size_t i) const {
    return *active_[(round.first + i) % round.count];
  }
  // The next round begins behind the i-th.
  void continue_behind(const Round& round, std::size_t i) { next_active_ = round.first + i + 1; }

  bool has_work() const noexcept;
  // Those without work fall asleep. False if any has some. `backlog`: as Channel::fall_asleep().
  bool fall_asleep(bool backlog);
  // Channels with recent traffic are looked at again before the next sleep anyway, so their peers
  // need not ring until then.
  void wake_up();
  // `done(channel)`: its bell needs no further look.
  template <class Done>
  void check_bells(Done done) {
    std::erase_if(bells_, [&](Channel* channel) {
      if (!done(*channel)) return false;
      channel->schedule().bell_listed = false;
      return true;
    });
  }

  void forget_dead();

 private:
  std::vector<Channel*> active_;
  std::vector<Channel*> asleep_;
  std::vector<Channel*> bells_;
  std::vector<Channel*> stalled_;
  std::size_t next_active_ = 0;  // where the next round begins, so that all get their turn
};

}  // namespace fairlead::rdma::shm
