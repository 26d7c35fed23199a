// The channels of one device and the descriptors behind them: dialling, accepting, who owns which
// descriptor, and the watcher that is told of all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "rdma/device.h"
#include "rdma/shm/shm_channel.h"
#include "rdma/shm/shm_fabric.h"

namespace fairlead::rdma::shm {

class ChannelTable {
 public:
  // `buffers` outlives *this.
  ChannelTable(Fabric fabric, PeerId self, const BufferTable& buffers);
  ~ChannelTable();

  const Fabric& fabric() const { return fabric_; }
  void set_watcher(FdWatcher* watcher);

  // Errors: those of Fabric::dial(), kExhausted at kChannelsMax.
  Result<Channel*> dial(PeerId peer);
  // Takes a waiting connection in as a stranger: its descriptor. Errors: those of Fabric::accept().
  // When the listener cannot be emptied it is not watched until some descriptor was closed.
  Result<int> accept();
  bool is_stranger(int fd) const;
  // Reads a stranger's Hello: nullptr when it has not come yet. On error the stranger is shut out.
  Result<Channel*> greet(int stranger);
  std::vector<int> strangers() const;

  Channel* find(int fd) const;            // by socket or doorbell
  Channel* find_open(PeerId peer) const;  // the newest
  template <class Visit>
  void for_each(Visit visit) const {  // `visit` may neither add nor erase
    for (const auto& channel : channels_) visit(*channel);
  }

  // Watches the pipe and takes it in place of the one before. kMalformed unless it is a pipe.
  Result<void> set_doorbell(Channel& channel, FileDescriptor pipe);
  // Closes all its descriptors; it stays until erase_dead().
  void terminate(Channel& channel);
  // Frees terminated channels that no queue pair points to. REQUIRES: nobody else does, either.
  void erase_dead();
  bool has_dead() const { return has_dead_; }  // erase_dead() would find something
  void note_unused(const Channel& channel) {
    has_dead_ |= channel.state() == Channel::State::kDead;
  }

 private:
  Channel& add(std::unique_ptr<Channel> channel);
  bool make_room();
  Result<Channel*> adopt(FileDescriptor& socket, const ReceivedControl& hello);
  void watch(int fd, FdWatcher::Trigger trigger);
  void unwatch(int fd);

  Fabric fabric_;
  PeerId self_;
  const BufferTable* buffers_;
  FdWatcher* watcher_ = nullptr;
  std::vector<FileDescriptor> strangers_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unordered_map<int, Channel*> by_fd_;
  bool has_dead_ = false;
  bool listener_watched_ = true;
};

}  // namespace fairlead::rdma::shm
