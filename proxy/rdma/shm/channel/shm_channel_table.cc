#include "rdma/shm/channel/shm_channel_table.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/linux/descriptors.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

using Trigger = FdWatcher::Trigger;

// No queue pair is connected over it here, or waits for the one that its peer has announced.
bool is_idle(const Channel& channel) {
  return channel.state() == Channel::State::kOpen && channel.users() == 0;
}

}  // namespace

ChannelTable::ChannelTable(std::unique_ptr<Connector> connector)
    : connector_(std::move(connector)) {}

ChannelTable::~ChannelTable() { (void)set_watcher(nullptr); }

Result<void> ChannelTable::set_watcher(FdWatcher* watcher) {
  if (watcher_ != nullptr) {
    for (const auto& [fd, channel] : by_fd_) watcher_->unwatch(fd);
    if (timer_ >= 0) watcher_->unwatch(timer_);
  }
  watcher_ = watcher;
  Result<void> watched = connector_->set_watcher(watcher);
  if (watcher_ == nullptr) return watched;
  if (watched && timer_ >= 0) watched = watcher_->watch_readable(timer_, Trigger::kLevel);
  for (const auto& [fd, channel] : by_fd_)
    if (!watcher_->watch_readable(fd, Trigger::kEdge)) channel->close();
  return watched;
}

Result<void> ChannelTable::watch_timer(int fd) {
  if (timer_ >= 0 && watcher_ != nullptr) watcher_->unwatch(timer_);
  timer_ = fd;
  if (timer_ < 0 || watcher_ == nullptr) return {};
  return watcher_->watch_readable(timer_, Trigger::kLevel);
}

// Limits the memory of channels that no connection uses, which any peer can ask for: the oldest is
// closed.
Result<void> ChannelTable::limit_idle(std::uint32_t pod) {
  Channel* of_pod = nullptr;
  std::size_t own = 0, all = 0;
  for (const auto& channel : channels_) {
    if (!channel->attached() || !is_idle(*channel)) continue;
    ++all;
    if (pod == 0 || channel->pod() != pod) continue;
    if (own++ == 0) of_pod = channel.get();
  }
  if (own < kIdleChannelsPerPodMax && all < kIdleChannelsMax) return {};
  Channel* goes =
      own < kIdleChannelsPerPodMax ? idle_channel_of_largest_pod(pod, Counted::kIdle) : of_pod;
  if (goes == nullptr) return Error{Errc::kExhausted, "channels without use"};
  terminate(*goes);
  return {};
}

// A channel that neither side uses can be made again when it is needed. It is taken from the pod
// that has most, so that no pod can take the channels of others. Where there are no pods each peer
// counts for itself.
Result<void> ChannelTable::admit(PeerId peer, std::uint32_t pod) {
  std::size_t living = 0, of_peer = 0, of_pod = 0;
  for (const auto& channel : channels_) {
    if (channel->state() == Channel::State::kDead) continue;
    ++living;
    of_peer += channel->peer() == peer && channel->state() == Channel::State::kOpen;
    of_pod += pod != 0 && channel->pod() == pod;
  }
  if (of_peer >= kChannelsPerPeerMax) return Error{Errc::kExhausted, "channels of one peer"};
  if (of_pod >= kChannelsPerPodMax) {
    const auto idle = std::find_if(channels_.begin(), channels_.end(), [&](const auto& channel) {
      return channel->pod() == pod && is_idle(*channel);
    });
    if (idle == channels_.end()) return Error{Errc::kExhausted, "channels of one pod"};
    terminate(**idle);
    return {};
  }
  if (living < kChannelsMax) return {};
  Channel* const idle = idle_channel_of_largest_pod(pod, Counted::kAll);
  if (idle == nullptr) return Error{Errc::kExhausted, "channels"};
  terminate(*idle);
  return {};
}

Channel* ChannelTable::idle_channel_of_largest_pod(std::uint32_t pod, Counted counted) const {
  const auto counts = [&](const Channel& channel) {
    return counted == Counted::kIdle ? is_idle(channel) : channel.state() != Channel::State::kDead;
  };
  const auto same = [](const Channel& one, const Channel& other) {
    return one.pod() != 0 || other.pod() != 0 ? one.pod() == other.pod()
                                              : one.peer() == other.peer();
  };
  std::size_t most = 0, own = 0;
  Channel* found = nullptr;
  for (const auto& candidate : channels_) {
    if (pod != 0 && candidate->pod() == pod && counts(*candidate)) ++own;
    if (!is_idle(*candidate)) continue;
    const auto count = static_cast<std::size_t>(std::count_if(
        channels_.begin(), channels_.end(),
        [&](const auto& channel) { return counts(*channel) && same(*channel, *candidate); }));
    if (count <= most) continue;
    most = count;
    found = candidate.get();
  }
  return most >= own ? found : nullptr;
}

Result<Channel*> ChannelTable::request(PeerId peer, TimePoint now) {
  const auto silent = unanswered_.find(peer);
  if (silent != unanswered_.end() && now < silent->second.until)
    return Error{Errc::kTimedOut, "channels that were asked for do not come"};
  SMC_TRY(admit(peer, 0));
  Mapping scratch = SMC_TRY(Mapping::map_private(sizeof(ChannelMemory)));
  SMC_TRY(connector_->request_channel(peer));
  channels_.push_back(std::make_unique<Channel>(peer, std::move(scratch), budget_));
  channels_.back()->note_asked(now);
  return channels_.back().get();
}

// An answer can be lost: the broker drops what a device does not read, and ends without a word.
bool ChannelTable::give_up(Channel& channel, TimePoint now) {
  if (!channel.awaits_memory() || now - channel.asked_at() < kAnswerWaitMax) return false;
  if (unanswered_.size() >= kUnansweredMax) unanswered_.clear();
  Unanswered& silent = unanswered_[channel.peer()];
  silent.pause = std::clamp<Duration>(silent.pause * 2, kAnswerPause, kAnswerPauseMax);
  silent.until = now + silent.pause;
  channel.close();
  return true;
}

Channel* ChannelTable::awaiting(PeerId peer) const {
  const auto found = std::find_if(channels_.begin(), channels_.end(), [&](const auto& channel) {
    return channel->peer() == peer && channel->awaits_memory();
  });
  return found == channels_.end() ? nullptr : found->get();
}

Result<Channel*> ChannelTable::take_in(ConnectorEvent event) {
  Channel* channel = event.side == 0 ? awaiting(event.peer) : nullptr;
  if (channel != nullptr) {
    unanswered_.erase(channel->peer());
    const auto attached = attach(*channel, std::move(event));
    if (!attached) channel->close();
    if (!attached) return attached.error();
    const bool abandoned = channel->take_abandoned();
    if (channel->users() != 0 || !abandoned) return channel;
    // Nobody wants it any more: the peer finds its end closed.
    terminate(*channel);
    return nullptr;
  }
  if (event.side == 0) return nullptr;
  SMC_TRY(admit(event.peer, event.pod));
  SMC_TRY(limit_idle(event.pod));
  Mapping scratch = SMC_TRY(Mapping::map_private(sizeof(ChannelMemory)));
  auto made = std::make_unique<Channel>(event.peer, std::move(scratch), budget_);
  SMC_TRY(attach(*made, std::move(event)));
  channels_.push_back(std::move(made));
  return channels_.back().get();
}

Result<void> ChannelTable::attach(Channel& channel, ConnectorEvent event) {
  if (descriptors_scarce(event.end.watch.get(), DescriptorUse::kNew))
    return Error{Errc::kExhausted, "descriptors"};
  if (!ring_debts_.good(event.pod, event.peer, std::chrono::steady_clock::now()))
    return Error{Errc::kExhausted, "the bells of its pod take too long to ring"};
  const Channel::Side side = event.side == 0 ? Channel::Side::kDialler : Channel::Side::kAcceptor;
  channel.set_pod(event.pod);
  SMC_TRY(channel.attach(side, std::move(event.end)));
  if (watcher_ != nullptr) SMC_TRY(watcher_->watch_readable(channel.bell(), Trigger::kEdge));
  by_fd_[channel.bell()] = &channel;
  return {};
}

Channel* ChannelTable::refuse(PeerId peer) {
  Channel* const channel = awaiting(peer);
  if (channel == nullptr) return nullptr;
  const bool again = channel->take_abandoned() && channel->users() != 0;
  if (again && connector_->request_channel(peer)) {
    channel->note_asked(std::chrono::steady_clock::now());
    return nullptr;
  }
  channel->close();
  return channel;
}

void ChannelTable::refuse_all() {
  for (const auto& channel : channels_)
    if (channel->awaits_memory()) channel->close();
}

Channel* ChannelTable::find(int fd) const {
  auto found = by_fd_.find(fd);
  return found == by_fd_.end() ? nullptr : found->second;
}

Channel* ChannelTable::find_open(PeerId peer) const {
  for (auto at = channels_.rbegin(); at != channels_.rend(); ++at)
    if ((*at)->peer() == peer && (*at)->state() == Channel::State::kOpen) return at->get();
  return nullptr;
}

void ChannelTable::terminate(Channel& channel) {
  const auto found = by_fd_.find(channel.bell());
  if (found != by_fd_.end() && found->second == &channel) {
    if (watcher_ != nullptr) watcher_->unwatch(found->first);
    by_fd_.erase(found);
  }
  channel.terminate();
  has_dead_ = true;
}

void ChannelTable::erase_dead() {
  std::erase_if(channels_, [](const auto& channel) {
    return channel->state() == Channel::State::kDead && channel->users() == 0;
  });
  has_dead_ = false;
}

}  // namespace fairlead::rdma::shm
