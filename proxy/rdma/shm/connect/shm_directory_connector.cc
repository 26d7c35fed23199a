#include "rdma/shm/connect/shm_directory_connector.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

using broker::Message;
using Kind = Message::Kind;
using Trigger = FdWatcher::Trigger;

Result<std::unique_ptr<DirectoryConnector>> DirectoryConnector::open(const std::string& directory,
                                                                     PeerId self) {
  Fabric fabric = SMC_TRY(Fabric::open(directory, self));
  std::uint64_t instance = 0;
  if (::getrandom(&instance, sizeof instance, 0) != sizeof instance)
    return system_error("getrandom", errno);
  return std::unique_ptr<DirectoryConnector>(
      new DirectoryConnector(std::move(fabric), self, instance | 1));
}

DirectoryConnector::~DirectoryConnector() { (void)set_watcher(nullptr); }

Result<void> DirectoryConnector::set_watcher(FdWatcher* watcher) {
  if (watcher_ != nullptr)
    for (const auto& [fd, inlet] : inlets_) watcher_->unwatch(fd);
  watcher_ = watcher;
  SMC_TRY(fabric_.listener().set_watcher(watcher));
  if (watcher_ != nullptr)
    for (const auto& [fd, inlet] : inlets_) SMC_TRY(watcher_->watch_readable(fd, Trigger::kLevel));
  return {};
}

Result<int> DirectoryConnector::outlet(PeerId peer) {
  if (const auto found = outlets_.find(peer); found != outlets_.end()) return found->second.get();
  ForeignDescriptor socket(SMC_TRY(fabric_.dial(peer, closer_)), closer_);
  if (outlets_.size() >= kOutletsMax) outlets_.erase(outlets_.begin());
  return (outlets_[peer] = std::move(socket)).get();
}

// An outlet may lead to a process that has died, while its successor listens under the same name.
Result<void> DirectoryConnector::send(PeerId peer, const Message& message,
                                      std::span<const int> fds) {
  const bool known = outlets_.contains(peer);
  auto sent = broker::send(SMC_TRY(outlet(peer)), message, fds);
  if (sent || sent.error().code == Errc::kWouldBlock) return sent;
  outlets_.erase(peer);
  if (!known) return sent;
  return broker::send(SMC_TRY(outlet(peer)), message, fds);
}

Result<void> DirectoryConnector::request_channel(PeerId peer) {
  auto ends = SMC_TRY(broker::make_channel(sizeof(ChannelMemory)));
  const Message message{.kind = Kind::kChannel,
                        .side = 1,
                        .layout = kChannelLayout,
                        .peer = self_,
                        .fabric = fabric_.id()};
  const auto sent = send(peer, message, ends[1].descriptors());
  if (!sent && sent.error().code == Errc::kWouldBlock)
    return Error{Errc::kExhausted, "the peer does not read what it is sent"};
  if (!sent) return sent;
  events_.push_back(
      {.kind = ConnectorEvent::Kind::kChannel, .peer = peer, .side = 0, .end = std::move(ends[0])});
  return {};
}

Result<Blank> DirectoryConnector::take_buffer() {
  FileDescriptor kept = SMC_TRY(broker::make_blank());
  FileDescriptor given(::fcntl(kept.get(), F_DUPFD_CLOEXEC, 0));
  if (!given) return system_error("F_DUPFD_CLOEXEC", errno);
  const BufferId id{instance_, ++buffers_made_};
  buffers_[id.number] = std::move(kept);
  return Blank{id, std::move(given)};
}

Result<void> DirectoryConnector::grant(const BufferId& buffer, PeerId peer) {
  const auto found = buffers_.find(buffer.number);
  if (found == buffers_.end()) return Error{Errc::kNotFound, "buffer"};
  const int memory = found->second.get();
  if (waiting_.empty()) {
    const Message message{
        .kind = Kind::kGranted, .peer = self_, .fabric = fabric_.id(), .buffer = buffer};
    const auto sent = send(peer, message, std::span(&memory, 1));
    if (sent || sent.error().code != Errc::kWouldBlock) return sent;
  }
  if (waiting_.size() >= kRequestsWaitingMax)
    return Error{Errc::kExhausted, "grants that wait for their peers"};
  FileDescriptor copy(::fcntl(memory, F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_error("F_DUPFD_CLOEXEC", errno);
  waiting_.push_back({peer, buffer, std::move(copy)});
  return {};
}

void DirectoryConnector::flush() {
  if (fabric_.listener().pause_is_over()) accept_waiting();
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.front();
    const Message message{
        .kind = Kind::kGranted, .peer = self_, .fabric = fabric_.id(), .buffer = first.buffer};
    const int memory = first.memory.get();
    const auto sent = send(first.peer, message, std::span(&memory, 1));
    if (!sent && sent.error().code == Errc::kWouldBlock) return;
    waiting_.pop_front();
  }
}

Result<ConnectorEvent> DirectoryConnector::next() {
  if (events_.empty()) collect();
  if (events_.empty()) return Error{Errc::kWouldBlock, "no news of other devices"};
  ConnectorEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void DirectoryConnector::collect() {
  accept_waiting();
  std::vector<int> open;
  for (const auto& [fd, inlet] : inlets_) open.push_back(fd);
  for (const int fd : open) {
    // An inlet that is not read would wake the loop without end.
    if (closer_.full()) drop_inlet(fd);
    while (events_.size() < kConnectorEventsMax && !closer_.full() && read(fd)) {
    }
  }
}

void DirectoryConnector::accept_waiting() {
  for (int i = 0; i < kArrivalsBatch; ++i) {
    if (closer_.full()) return fabric_.listener().be_deaf();
    auto accepted = fabric_.accept(closer_);
    const Errc code = accepted ? Errc{} : accepted.error().code;
    if (code == Errc::kPermission || code == Errc::kExhausted) continue;
    if (!accepted) return;
    ForeignDescriptor inlet(std::move(*accepted), closer_);
    const int fd = inlet.get();
    if (inlets_.size() >= kInletsMax) continue;
    if (watcher_ != nullptr && !watcher_->watch_readable(fd, Trigger::kLevel)) continue;
    inlets_[fd] = std::move(inlet);
  }
}

bool DirectoryConnector::read(int inlet) {
  if (!inlets_.contains(inlet)) return false;
  auto received = broker::receive(inlet, closer_);
  if (!received && received.error().code == Errc::kWouldBlock) return false;
  if (!received && received.error().code == Errc::kExhausted) return true;  // one that was lost
  if (received) {
    auto event = to_event(std::move(*received));
    if (event) {
      events_.push_back(std::move(*event));
      return true;
    }
  }
  drop_inlet(inlet);
  return false;
}

void DirectoryConnector::drop_inlet(int inlet) {
  if (watcher_ != nullptr) watcher_->unwatch(inlet);
  (void)::shutdown(inlet, SHUT_RDWR);  // the peer learns it at once, however long the closer takes
  inlets_.erase(inlet);
}

Result<ConnectorEvent> DirectoryConnector::to_event(broker::Received received) const {
  const Message& message = received.message;
  if (message.fabric != fabric_.id() || message.peer.is_zero())
    return Error{Errc::kMalformed, "record of another fabric"};
  if (message.kind == Kind::kChannel) {
    if (message.side != 1 || message.layout != kChannelLayout)
      return Error{Errc::kUnsupported, "channel layout of another version"};
    return ConnectorEvent{.kind = ConnectorEvent::Kind::kChannel,
                          .peer = message.peer,
                          .side = 1,
                          .end = {std::move(received.fds[0]), std::move(received.fds[1]),
                                  std::move(received.fds[2])}};
  }
  if (message.kind == Kind::kGranted)
    return ConnectorEvent{.kind = ConnectorEvent::Kind::kGranted,
                          .peer = message.peer,
                          .buffer = message.buffer,
                          .memory = std::move(received.fds[0])};
  return Error{Errc::kMalformed, "record that only a broker sends"};
}

}  // namespace fairlead::rdma::shm
