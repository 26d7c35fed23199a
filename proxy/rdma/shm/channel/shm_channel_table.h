// The channels of one device, which descriptor belongs to which, and the watcher that is told of
// all of them. Decides which channel makes room when there are too many.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "rdma/device.h"
#include "rdma/shm/channel/shm_channel.h"
#include "rdma/shm/connect/shm_connector.h"
#include "rdma/shm/memory/shm_map_budget.h"
#include "rdma/shm/memory/shm_ring_debts.h"

namespace fairlead::rdma::shm {

class ChannelTable {
 public:
  explicit ChannelTable(std::unique_ptr<Connector> connector);
  ~ChannelTable();

  Connector& connector() { return *connector_; }
  const Connector& connector() const { return *connector_; }
  MapBudget& budget() { return budget_; }
  // Errors: those of the watcher, for the connector. A channel that cannot be watched is closed.
  Result<void> set_watcher(FdWatcher* watcher);
  // Watches one more descriptor of the device, until it is -1.
  Result<void> watch_timer(int fd);

  // A channel that waits for its memory. Errors: those of Connector::request_channel(), kExhausted
  // at a limit, kTimedOut for a peer that is left alone since an answer has not come.
  Result<Channel*> request(PeerId peer, TimePoint now);
  // Closes a channel whose memory has not come within kAnswerWaitMax, and leaves its peer alone for
  // a while. False when it is not time yet.
  bool give_up(Channel& channel, TimePoint now);
  // A ring of the channel took so much processor time. False: the channel has to go.
  bool note_ring(const Channel& channel, Duration spent, TimePoint now) {
    return ring_debts_.add(channel.pod(), channel.peer(), spent, now);
  }
  // What has come for a channel: the answer to the one that waits, or a new channel. Null for an
  // answer that nobody wants any more. Errors: kExhausted at a limit, those of Channel::attach()
  // and of the watcher. A channel that waited is closed then.
  Result<Channel*> take_in(ConnectorEvent event);
  // Closes the channel that waits for that peer and returns it; nullptr for none. If the queue pair
  // that asked for it has gone and another one waits since, the refusal may be out of date: then
  // the channel is asked for once more.
  Channel* refuse(PeerId peer);
  // Closes all that wait.
  void refuse_all();

  Channel* find(int fd) const;            // by its bell
  Channel* find_open(PeerId peer) const;  // the newest
  template <class Visit>
  void for_each(Visit visit) const {  // `visit` may add, but not erase
    for (std::size_t i = 0; i < channels_.size(); ++i) visit(*channels_[i]);
  }

  // Closes its bells; it stays until erase_dead().
  void terminate(Channel& channel);
  // Frees terminated channels that no queue pair points to. REQUIRES: nobody else does, either.
  void erase_dead();
  bool has_dead() const { return has_dead_; }  // erase_dead() would find something
  void note_unused(const Channel& channel) {
    has_dead_ |= channel.state() == Channel::State::kDead;
  }

 private:
  Result<void> admit(PeerId peer, std::uint32_t pod);
  // Errors: kExhausted when only pods with fewer channels have an idle one.
  Result<void> limit_idle(std::uint32_t pod);
  enum class Counted : std::uint8_t { kAll, kIdle };
  // Nothing when only pods with fewer channels of that kind than `pod` have an idle one.
  Channel* idle_channel_of_largest_pod(std::uint32_t pod, Counted counted) const;
  Channel* awaiting(PeerId peer) const;
  Result<void> attach(Channel& channel, ConnectorEvent event);

  std::unique_ptr<Connector> connector_;
  MapBudget budget_;  // outlives the channels
  FdWatcher* watcher_ = nullptr;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unordered_map<int, Channel*> by_fd_;
  RingDebts ring_debts_;
  struct Unanswered {
    TimePoint until{};
    Duration pause{};
  };
  std::map<PeerId, Unanswered> unanswered_;  // peers; kUnansweredMax
  int timer_ = -1;
  bool has_dead_ = false;
};

}  // namespace fairlead::rdma::shm
