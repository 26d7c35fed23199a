// The channels of one device and the descriptors behind them: dialling, accepting, who owns which
// descriptor, and the watcher that is told of all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "rdma/device.h"
#include "rdma/shm/shm_channel.h"
#include "rdma/shm/shm_rendezvous.h"

namespace fairlead::rdma::shm {

class ChannelTable {
 public:
  // `buffers` outlives *this.
  ChannelTable(std::unique_ptr<Rendezvous> rendezvous, PeerId self, const BufferTable& buffers);
  ~ChannelTable();

  const Rendezvous& rendezvous() const { return *rendezvous_; }
  void set_watcher(FdWatcher* watcher);

  // Errors: those of Rendezvous::dial(), kExhausted at kChannelsMax.
  Result<Channel*> dial(PeerId peer);
  // What has arrived: a visitor is a stranger first, an answer gives a channel its socket, or ends
  // it.
  struct Arrived {
    int stranger = -1;
    Channel* channel = nullptr;
  };
  // Errors: those of Rendezvous::accept(). When the listener cannot be emptied it is not watched
  // until some descriptor was closed. kPeerGone ends the channels that wait for a socket.
  Result<Arrived> accept();
  // Rendezvous::reconnect().
  void reconnect();
  bool is_stranger(int fd) const;
  // Reads a stranger's Hello: nullptr when it has not come yet. On error the stranger is shut out.
  Result<Channel*> greet(int stranger);
  std::vector<int> strangers() const;

  Channel* find(int fd) const;            // by socket or doorbell
  Channel* find_open(PeerId peer) const;  // the newest
  bool is_listener(int fd) const { return fd == rendezvous_->descriptor(); }
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
  // A visitor that has not said Hello.
  struct Stranger {
    FileDescriptor socket;
    PeerId peer;  // as the rendezvous has it, or zero
  };
  Channel& add(std::unique_ptr<Channel> channel);
  bool make_room();
  int take_in(Arrival arrival);
  Result<Channel*> adopt(Stranger& stranger, const ReceivedControl& hello);
  Channel* awaiting(PeerId peer) const;
  Channel* answer(Arrival arrival);
  Result<void> attach(Channel& channel, FileDescriptor socket);
  void give_up_awaiting();
  void watch_listener(bool wanted);
  void watch(int fd, FdWatcher::Trigger trigger);
  void unwatch(int fd);

  std::unique_ptr<Rendezvous> rendezvous_;
  PeerId self_;
  const BufferTable* buffers_;
  FdWatcher* watcher_ = nullptr;
  std::vector<Stranger> strangers_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unordered_map<int, Channel*> by_fd_;
  // Answers of the rendezvous still to come for which nobody waits any more; it gives them in the
  // order of the questions. There are no more of them than its socket holds.
  std::unordered_map<PeerId, std::size_t> abandoned_;
  bool has_dead_ = false;
  bool listener_watched_ = true;
};

}  // namespace fairlead::rdma::shm
