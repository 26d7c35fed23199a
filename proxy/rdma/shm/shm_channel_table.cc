#include "rdma/shm/shm_channel_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

using Trigger = FdWatcher::Trigger;

ChannelTable::ChannelTable(std::unique_ptr<Rendezvous> rendezvous, PeerId self,
                           const BufferTable& buffers)
    : rendezvous_(std::move(rendezvous)), self_(self), buffers_(&buffers) {}

ChannelTable::~ChannelTable() { set_watcher(nullptr); }

void ChannelTable::set_watcher(FdWatcher* watcher) {
  if (watcher_ != nullptr) {
    if (listener_watched_) unwatch(rendezvous_->descriptor());
    for (const Stranger& stranger : strangers_) unwatch(stranger.socket.get());
    for (const auto& [fd, channel] : by_fd_) unwatch(fd);
  }
  watcher_ = watcher;
  listener_watched_ = false;
  watch_listener(true);
  for (const Stranger& stranger : strangers_) watch(stranger.socket.get(), Trigger::kLevel);
  for (const auto& [fd, channel] : by_fd_)
    watch(fd, fd == channel->socket() ? Trigger::kLevel : Trigger::kEdge);
}

void ChannelTable::watch_listener(bool wanted) {
  if (wanted == listener_watched_ || rendezvous_->descriptor() < 0) return;
  listener_watched_ = wanted;
  if (wanted)
    watch(rendezvous_->descriptor(), Trigger::kLevel);
  else
    unwatch(rendezvous_->descriptor());
}

void ChannelTable::watch(int fd, Trigger trigger) {
  if (watcher_ != nullptr) watcher_->watch_readable(fd, trigger);
}

void ChannelTable::unwatch(int fd) {
  if (watcher_ != nullptr) watcher_->unwatch(fd);
}

Channel& ChannelTable::add(std::unique_ptr<Channel> channel) {
  Channel& added = *channel;
  channels_.push_back(std::move(channel));
  by_fd_[added.socket()] = &added;
  return added;
}

// A channel that neither side uses can be made again when it is needed.
bool ChannelTable::make_room() {
  const auto living = std::count_if(channels_.begin(), channels_.end(), [](const auto& channel) {
    return channel->state() != Channel::State::kDead;
  });
  if (static_cast<std::size_t>(living) < kChannelsMax) return true;
  auto idle = std::find_if(channels_.begin(), channels_.end(), [](const auto& channel) {
    return channel->state() == Channel::State::kOpen && channel->users == 0 &&
           !channel->remote.has_queue_pairs();
  });
  if (idle == channels_.end()) return false;
  terminate(**idle);
  return true;
}

Result<Channel*> ChannelTable::dial(PeerId peer) {
  if (!make_room()) return Error{Errc::kExhausted, "channels"};
  FileDescriptor socket = SMC_TRY(rendezvous_->dial(peer));
  Result<Segment> segment = create_segment("fairlead-channel", sizeof(ChannelMemory));
  if (!segment && !socket) ++abandoned_[peer];
  if (!segment) return segment.error();
  auto channel = std::make_unique<Channel>(peer, std::move(*segment), *buffers_);
  Channel& added = *channel;
  if (socket) SMC_TRY(attach(added, std::move(socket)));
  channels_.push_back(std::move(channel));
  return &added;
}

Result<void> ChannelTable::attach(Channel& channel, FileDescriptor socket) {
  SMC_TRY(channel.attach(std::move(socket), self_, rendezvous_->id()));
  by_fd_[channel.socket()] = &channel;
  watch(channel.socket(), Trigger::kLevel);
  return {};
}

Result<ChannelTable::Arrived> ChannelTable::accept() {
  auto accepted = rendezvous_->accept();
  if (!accepted && accepted.error().code == Errc::kSystem) watch_listener(false);
  // An answer may have been lost: better one that nobody wanted than one too few.
  if (!accepted && accepted.error().code == Errc::kExhausted) abandoned_.clear();
  if (!accepted && accepted.error().code == Errc::kPeerGone) {
    watch_listener(false);
    give_up_awaiting();
  }
  Arrival arrival = SMC_TRY(std::move(accepted));
  if (arrival.asked) return Arrived{.channel = answer(std::move(arrival))};
  return Arrived{.stranger = take_in(std::move(arrival))};
}

void ChannelTable::reconnect() {
  watch_listener(false);
  rendezvous_->reconnect();
  watch_listener(true);
}

int ChannelTable::take_in(Arrival arrival) {
  const int fd = arrival.socket.get();
  // Whoever connects and says nothing must not keep others out.
  if (strangers_.size() >= kStrangersMax) {
    unwatch(strangers_.front().socket.get());
    strangers_.erase(strangers_.begin());
  }
  strangers_.push_back({std::move(arrival.socket), arrival.peer});
  watch(fd, Trigger::kLevel);
  return fd;
}

Channel* ChannelTable::awaiting(PeerId peer) const {
  const auto found = std::find_if(channels_.begin(), channels_.end(), [&](const auto& channel) {
    return channel->peer() == peer && channel->awaits_socket();
  });
  return found == channels_.end() ? nullptr : found->get();
}

// Nobody waits any more: then the peer finds its end closed. Who has asked anew meanwhile must not
// take it: of many visitors that say nothing the peer keeps the latest.
Channel* ChannelTable::answer(Arrival arrival) {
  const auto abandoned = abandoned_.find(arrival.peer);
  if (abandoned != abandoned_.end()) {
    if (--abandoned->second == 0) abandoned_.erase(abandoned);
    return nullptr;
  }
  Channel* channel = awaiting(arrival.peer);
  if (channel == nullptr) return nullptr;
  if (!arrival.socket || !attach(*channel, std::move(arrival.socket))) channel->close();
  return channel;
}

void ChannelTable::give_up_awaiting() {
  abandoned_.clear();
  for (const auto& channel : channels_)
    if (channel->awaits_socket()) channel->close();
}

bool ChannelTable::is_stranger(int fd) const {
  return std::any_of(strangers_.begin(), strangers_.end(),
                     [&](const Stranger& one) { return one.socket.get() == fd; });
}

std::vector<int> ChannelTable::strangers() const {
  std::vector<int> all;
  for (const Stranger& one : strangers_) all.push_back(one.socket.get());
  return all;
}

Result<Channel*> ChannelTable::greet(int stranger) {
  auto found = std::find_if(strangers_.begin(), strangers_.end(),
                            [&](const Stranger& one) { return one.socket.get() == stranger; });
  auto hello = receive_control(stranger);
  if (!hello && hello.error().code == Errc::kWouldBlock) return nullptr;
  auto adopted = hello ? adopt(*found, *hello) : hello.error();
  // The descriptor stays watched when it became a channel's.
  if (!adopted) unwatch(stranger);
  strangers_.erase(found);
  return adopted;
}

Result<Channel*> ChannelTable::adopt(Stranger& stranger, const ReceivedControl& hello) {
  const ControlMessage& message = hello.message;
  const bool is_who_it_says = stranger.peer.is_zero() || stranger.peer == message.peer;
  if (message.kind != ControlMessage::Kind::kHello || message.fabric != rendezvous_->id() ||
      message.peer.is_zero() || !is_who_it_says)
    return Error{Errc::kMalformed, "first message of a channel"};
  const auto of_this_peer =
      std::count_if(channels_.begin(), channels_.end(), [&](const auto& channel) {
        return channel->peer() == message.peer && channel->state() == Channel::State::kOpen;
      });
  if (static_cast<std::size_t>(of_this_peer) >= kChannelsPerPeerMax || !make_room())
    return Error{Errc::kExhausted, "channels"};
  Mapping memory = SMC_TRY(adopt_segment(hello.fd.get(), sizeof(ChannelMemory)));
  return &add(std::make_unique<Channel>(message.peer, Channel::Side::kAcceptor,
                                        std::move(stranger.socket), std::move(memory), *buffers_));
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

Result<void> ChannelTable::set_doorbell(Channel& channel, FileDescriptor pipe) {
  struct stat status {};
  if (::fstat(pipe.get(), &status) != 0 || !S_ISFIFO(status.st_mode))
    return Error{Errc::kMalformed, "doorbell that is no pipe"};
  if (const int old = channel.peer_doorbell(); old >= 0) {
    unwatch(old);
    by_fd_.erase(old);
  }
  const int fd = pipe.get();
  channel.adopt_doorbell(std::move(pipe));
  by_fd_[fd] = &channel;
  watch(fd, Trigger::kEdge);
  return {};
}

void ChannelTable::terminate(Channel& channel) {
  for (int fd : {channel.socket(), channel.peer_doorbell()}) {
    if (fd < 0) continue;
    unwatch(fd);
    by_fd_.erase(fd);
  }
  if (channel.awaits_socket()) ++abandoned_[channel.peer()];
  channel.terminate();
  has_dead_ = true;
  watch_listener(true);
}

void ChannelTable::erase_dead() {
  std::erase_if(channels_, [](const auto& channel) {
    return channel->state() == Channel::State::kDead && channel->users == 0;
  });
  has_dead_ = false;
}

}  // namespace fairlead::rdma::shm
