// A fabric of one process: devices get channels and grants as from the node's broker, without
// sockets. Tests can push events that no broker makes. Any thread.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/random_id.h"
#include "broker/shared_objects.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/connect/shm_connector.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

class TestFabric {
 public:
  // The place of one device. It is gone with its object.
  class Seat {
   public:
    Seat(TestFabric& fabric, PeerId peer)
        : fabric_(fabric), peer_(peer), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
      const std::lock_guard lock(fabric_.mutex_);
      fabric_.seats_[peer_] = this;
    }
    ~Seat() {
      const std::lock_guard lock(fabric_.mutex_);
      fabric_.seats_.erase(peer_);
    }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    TestFabric& fabric() { return fabric_; }
    PeerId peer() const { return peer_; }
    int bell() const { return bell_.get(); }
    // All that has come.
    std::deque<ConnectorEvent> take() {
      const std::lock_guard lock(fabric_.mutex_);
      eventfd_t ignored = 0;
      (void)::eventfd_read(bell_.get(), &ignored);
      return std::exchange(events_, {});
    }

   private:
    friend class TestFabric;
    TestFabric& fabric_;
    const PeerId peer_;
    const FileDescriptor bell_;
    std::deque<ConnectorEvent> events_;
  };

  FabricId id() const { return id_; }
  bool knows(PeerId peer) const {
    const std::lock_guard lock(mutex_);
    return seats_.contains(peer);
  }
  // False if there is no such device.
  bool push(PeerId to, ConnectorEvent event) {
    const std::lock_guard lock(mutex_);
    const auto seat = seats_.find(to);
    if (seat == seats_.end()) return false;
    seat->second->events_.push_back(std::move(event));
    return ::eventfd_write(seat->second->bell_.get(), 1) == 0;
  }
  std::unique_ptr<Connector> join(PeerId self);

 private:
  const FabricId id_ = random_id<FabricId>();
  mutable std::mutex mutex_;
  std::map<PeerId, Seat*> seats_;
};

class TestConnector final : public Connector {
 public:
  TestConnector(TestFabric& fabric, PeerId self) : seat_(fabric, self) {}
  ~TestConnector() override { (void)set_watcher(nullptr); }

  FabricId id() const override { return fabric_.id(); }
  Result<void> set_watcher(FdWatcher* watcher) override {
    if (watcher_ != nullptr) watcher_->unwatch(seat_.bell());
    watcher_ = watcher;
    if (watcher == nullptr) return {};
    return watcher->watch_readable(seat_.bell(), FdWatcher::Trigger::kLevel);
  }
  bool owns(int fd) const override { return fd == seat_.bell(); }
  void handle_readable(int) override { collect(); }
  Result<void> request_channel(PeerId peer) override {
    auto ends = SMC_TRY(broker::make_channel(sizeof(ChannelMemory)));
    using Kind = ConnectorEvent::Kind;
    if (!fabric_.push(
            peer,
            {.kind = Kind::kChannel, .peer = seat_.peer(), .side = 1, .end = std::move(ends[1])}))
      return Error{Errc::kPeerGone, "no such device"};
    events_.push_back({.kind = Kind::kChannel, .peer = peer, .end = std::move(ends[0])});
    return {};
  }
  bool may_reach(PeerId peer) const override { return fabric_.knows(peer); }
  Result<Blank> take_buffer() override {
    FileDescriptor made = SMC_TRY(broker::make_blank());
    static std::atomic<std::uint64_t> made_ever{0};
    const BufferId id{1, ++made_ever};
    buffers_[id.number] = copy_of(made.get());
    return Blank{id, std::move(made)};
  }
  Result<void> grant(const BufferId& buffer, PeerId peer) override {
    FileDescriptor memory = copy_of(buffers_.at(buffer.number).get());
    if (!memory) return system_error("F_DUPFD_CLOEXEC", errno);
    const bool known = fabric_.push(peer, {.kind = ConnectorEvent::Kind::kGranted,
                                           .peer = seat_.peer(),
                                           .buffer = buffer,
                                           .memory = std::move(memory)});
    if (!known) return Error{Errc::kPeerGone, "no such device"};
    return {};
  }
  void free_buffer(const BufferId& buffer) override { buffers_.erase(buffer.number); }
  bool may_bring(const BufferId&) const override { return true; }
  Result<ConnectorEvent> next() override {
    if (events_.empty()) collect();
    if (events_.empty()) return Error{Errc::kWouldBlock, "nothing has come"};
    ConnectorEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  bool has_events() const override { return !events_.empty(); }
  void flush() override {}
  bool backlog() const override { return false; }

 private:
  static FileDescriptor copy_of(int fd) { return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
  // What others gave is closed by a thread, as with a broker.
  void collect() {
    for (ConnectorEvent& event : seat_.take()) {
      for (ForeignDescriptor* const one :
           {&event.end.memory, &event.end.ring, &event.end.watch, &event.memory})
        if (*one) *one = ForeignDescriptor(one->release(), closer_);
      events_.push_back(std::move(event));
    }
  }

  DescriptorCloser closer_;  // outlives all descriptors that others gave
  TestFabric::Seat seat_;
  TestFabric& fabric_ = seat_.fabric();
  FdWatcher* watcher_ = nullptr;
  std::map<std::uint64_t, FileDescriptor> buffers_;
  std::deque<ConnectorEvent> events_;
};

inline std::unique_ptr<Connector> TestFabric::join(PeerId self) {
  return std::make_unique<TestConnector>(*this, self);
}

}  // namespace fairlead::rdma::shm
