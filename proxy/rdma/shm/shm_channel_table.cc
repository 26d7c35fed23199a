#include "rdma/shm/shm_channel_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

using Trigger = FdWatcher::Trigger;

ChannelTable::ChannelTable(Fabric fabric, PeerId self, const BufferTable& buffers)
    : fabric_(std::move(fabric)), self_(self), buffers_(&buffers) {}

ChannelTable::~ChannelTable() { set_watcher(nullptr); }

void ChannelTable::set_watcher(FdWatcher* watcher) {
  if (watcher_ != nullptr) {
    if (listener_watched_) unwatch(fabric_.listener());
    for (const FileDescriptor& stranger : strangers_) unwatch(stranger.get());
    for (const auto& [fd, channel] : by_fd_) unwatch(fd);
  }
  watcher_ = watcher;
  listener_watched_ = true;
  watch(fabric_.listener(), Trigger::kLevel);
  for (const FileDescriptor& stranger : strangers_) watch(stranger.get(), Trigger::kLevel);
  for (const auto& [fd, channel] : by_fd_)
    watch(fd, fd == channel->socket() ? Trigger::kLevel : Trigger::kEdge);
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
  FileDescriptor socket = SMC_TRY(fabric_.dial(peer));
  Mapping memory = SMC_TRY(open_channel_memory(socket.get(), self_, fabric_.id()));
  const int fd = socket.get();
  Channel& channel = add(std::make_unique<Channel>(peer, Channel::Side::kDialler, std::move(socket),
                                                   std::move(memory), *buffers_));
  watch(fd, Trigger::kLevel);
  return &channel;
}

Result<int> ChannelTable::accept() {
  auto accepted = fabric_.accept();
  if (!accepted && accepted.error().code == Errc::kSystem && listener_watched_) {
    listener_watched_ = false;
    unwatch(fabric_.listener());
  }
  FileDescriptor socket = SMC_TRY(std::move(accepted));
  const int fd = socket.get();
  // Whoever connects and says nothing must not keep others out.
  if (strangers_.size() >= kStrangersMax) {
    unwatch(strangers_.front().get());
    strangers_.erase(strangers_.begin());
  }
  strangers_.push_back(std::move(socket));
  watch(fd, Trigger::kLevel);
  return fd;
}

bool ChannelTable::is_stranger(int fd) const {
  return std::any_of(strangers_.begin(), strangers_.end(),
                     [&](const FileDescriptor& one) { return one.get() == fd; });
}

std::vector<int> ChannelTable::strangers() const {
  std::vector<int> all;
  for (const FileDescriptor& one : strangers_) all.push_back(one.get());
  return all;
}

Result<Channel*> ChannelTable::greet(int stranger) {
  auto found = std::find_if(strangers_.begin(), strangers_.end(),
                            [&](const FileDescriptor& one) { return one.get() == stranger; });
  auto hello = receive_control(stranger);
  if (!hello && hello.error().code == Errc::kWouldBlock) return nullptr;
  auto adopted = hello ? adopt(*found, *hello) : hello.error();
  // The descriptor stays watched when it became a channel's.
  if (!adopted) unwatch(stranger);
  strangers_.erase(found);
  return adopted;
}

Result<Channel*> ChannelTable::adopt(FileDescriptor& socket, const ReceivedControl& hello) {
  const ControlMessage& message = hello.message;
  if (message.kind != ControlMessage::Kind::kHello || message.fabric != fabric_.id() ||
      message.peer.is_zero())
    return Error{Errc::kMalformed, "first message of a channel"};
  const auto of_this_peer =
      std::count_if(channels_.begin(), channels_.end(), [&](const auto& channel) {
        return channel->peer() == message.peer && channel->state() == Channel::State::kOpen;
      });
  if (static_cast<std::size_t>(of_this_peer) >= kChannelsPerPeerMax || !make_room())
    return Error{Errc::kExhausted, "channels"};
  Mapping memory = SMC_TRY(adopt_segment(hello.fd.get(), sizeof(ChannelMemory)));
  return &add(std::make_unique<Channel>(message.peer, Channel::Side::kAcceptor, std::move(socket),
                                        std::move(memory), *buffers_));
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
  channel.terminate();
  has_dead_ = true;
  if (!listener_watched_) {
    listener_watched_ = true;
    watch(fabric_.listener(), Trigger::kLevel);
  }
}

void ChannelTable::erase_dead() {
  std::erase_if(channels_, [](const auto& channel) {
    return channel->state() == Channel::State::kDead && channel->users == 0;
  });
  has_dead_ = false;
}

}  // namespace fairlead::rdma::shm
