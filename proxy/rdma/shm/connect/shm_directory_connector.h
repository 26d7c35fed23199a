// The connector of devices that see one directory (shm_fabric.h). The side that asks for a channel
// makes it, and the owner of a buffer makes that, as the broker would; the descriptors go over a
// connection to the socket of the other device. The processes of a directory trust each other.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/time.h"
#include "rdma/shm/connect/shm_connector.h"
#include "rdma/shm/connect/shm_fabric.h"

namespace fairlead::rdma::shm {

class DirectoryConnector final : public Connector {
 public:
  // Connections of other devices to this one, and of this one to others.
  static constexpr std::size_t kInletsMax = 1024;
  static constexpr std::size_t kOutletsMax = 1024;

  // Errors: those of Fabric::open().
  static Result<std::unique_ptr<DirectoryConnector>> open(const std::string& directory,
                                                          PeerId self);
  ~DirectoryConnector() override;

  FabricId id() const override { return fabric_.id(); }
  Result<void> set_watcher(FdWatcher* watcher) override;
  bool owns(int fd) const override {
    return fd == fabric_.listener().descriptor() || inlets_.contains(fd);
  }
  void handle_readable(int) override { collect(); }
  void forget(PeerId peer) override { outlets_.erase(peer); }
  Result<void> request_channel(PeerId peer) override;
  bool may_reach(PeerId peer) const override { return fabric_.may_reach(peer); }
  Result<Blank> take_buffer() override;
  Result<void> grant(const BufferId& buffer, PeerId peer) override;
  void free_buffer(const BufferId& buffer) override { buffers_.erase(buffer.number); }
  bool may_bring(const BufferId&) const override { return true; }
  Result<ConnectorEvent> next() override;
  bool has_events() const override { return !events_.empty(); }
  void flush() override;
  bool backlog() const override { return !waiting_.empty(); }

 private:
  // A grant for which the peer's socket had no room.
  struct Waiting {
    PeerId peer;
    BufferId buffer;
    FileDescriptor memory;
  };
  DirectoryConnector(Fabric fabric, PeerId self, std::uint64_t instance)
      : fabric_(std::move(fabric)), self_(self), instance_(instance) {
    fabric_.listener().close_with(closer_);
  }
  Result<int> outlet(PeerId peer);
  Result<void> send(PeerId peer, const broker::Message& message, std::span<const int> fds);
  void collect();
  void accept_waiting();
  bool read(int inlet);
  void drop_inlet(int inlet);
  Result<ConnectorEvent> to_event(broker::Received received) const;

  DescriptorCloser closer_;  // outlives all descriptors that peers had
  Fabric fabric_;
  PeerId self_;
  std::uint64_t instance_;
  std::uint64_t buffers_made_ = 0;
  FdWatcher* watcher_ = nullptr;
  std::unordered_map<int, ForeignDescriptor> inlets_;
  std::unordered_map<PeerId, ForeignDescriptor> outlets_;
  std::unordered_map<std::uint64_t, FileDescriptor> buffers_;
  std::deque<ConnectorEvent> events_;
  std::deque<Waiting> waiting_;
};

}  // namespace fairlead::rdma::shm
