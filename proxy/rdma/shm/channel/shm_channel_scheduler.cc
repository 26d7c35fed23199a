#include "rdma/shm/channel/shm_channel_scheduler.h"

#include <algorithm>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

void ChannelScheduler::activate(Channel& channel) {
  channel.schedule().idle_arms = 0;
  if (channel.schedule().active || channel.state() == Channel::State::kDead) return;
  channel.schedule().active = true;
  channel.stay_awake();
  active_.push_back(&channel);
}

void ChannelScheduler::list_bell(Channel& channel) {
  if (channel.schedule().bell_listed || channel.state() == Channel::State::kDead) return;
  channel.schedule().bell_listed = true;
  bells_.push_back(&channel);
}

ChannelScheduler::Round ChannelScheduler::begin_round() {
  Round round;
  round.count = active_.size();
  round.first = round.count == 0 ? 0 : next_active_ % round.count;
  next_active_ = round.first + 1;
  return round;
}

bool ChannelScheduler::has_work() const noexcept {
  return std::any_of(active_.begin(), active_.end(),
                     [](const Channel* channel) { return channel->has_work(false); });
}

bool ChannelScheduler::fall_asleep(bool backlog) {
  for (Channel* channel : active_) channel->fall_asleep(backlog);
  asleep_.clear();
  std::erase_if(active_, [&](Channel* channel) {
    if (channel->has_work(true)) {
      channel->stay_awake();
      return false;
    }
    channel->schedule().active = false;
    ++channel->schedule().idle_arms;
    asleep_.push_back(channel);
    return true;
  });
  return active_.empty();
}

void ChannelScheduler::wake_up() {
  for (Channel* channel : asleep_) {
    if (channel->schedule().active || channel->schedule().idle_arms >= kIdleArmsMax) continue;
    channel->schedule().active = true;
    channel->stay_awake();
    active_.push_back(channel);
  }
  asleep_.clear();
}

void ChannelScheduler::forget_dead() {
  auto is_dead = [](const Channel* channel) { return channel->state() == Channel::State::kDead; };
  for (auto* list : {&active_, &asleep_, &bells_, &stalled_}) std::erase_if(*list, is_dead);
}

}  // namespace fairlead::rdma::shm
