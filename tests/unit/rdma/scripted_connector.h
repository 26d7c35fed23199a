// A connector that a test implements.
#pragma once

#include <unistd.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "broker/shared_objects.h"
#include "rdma/shm/connect/shm_connector.h"

namespace fairlead::rdma::shm {

// Says what the test has put into `arrivals`, and notes what it is asked for.
class ScriptedConnector final : public Connector {
 public:
  static constexpr int kDescriptor = 100'000;  // nobody opens that many

  FabricId id() const override { return {{1, 2, 3, 4, 5}}; }
  Result<void> set_watcher(FdWatcher* watcher) override {
    if (watcher != nullptr && !watchable) return Error{Errc::kExhausted, "test"};
    return {};
  }
  bool owns(int fd) const override { return fd == kDescriptor; }
  void handle_readable(int) override { ++readable; }
  Result<void> request_channel(PeerId peer) override {
    if (!reachable) return Error{Errc::kPeerGone, "test"};
    requested.push_back(peer);
    if (answer) arrivals.emplace_back(std::move(*std::exchange(answer, std::nullopt)));
    return {};
  }
  bool may_reach(PeerId) const override { return reachable; }
  Result<Blank> take_buffer() override {
    FileDescriptor made = SMC_TRY(broker::make_blank());
    blanks.emplace_back(::dup(made.get()));
    return Blank{{1, blanks.size()}, std::move(made)};
  }
  Result<void> grant(const BufferId& buffer, PeerId peer) override {
    if (!grants) return Error{Errc::kPeerGone, "test"};
    granted.emplace_back(buffer, peer);
    return {};
  }
  void free_buffer(const BufferId& buffer) override { freed.push_back(buffer); }
  bool may_bring(const BufferId&) const override { return brings; }
  Result<ConnectorEvent> next() override {
    if (arrivals.empty()) return Error{Errc::kWouldBlock, "test"};
    if (!arrivals.front()) {
      const Error lost = arrivals.front().error();
      arrivals.pop_front();
      return lost;
    }
    ConnectorEvent event = std::move(*arrivals.front());
    arrivals.pop_front();
    return event;
  }
  bool has_events() const override { return tells && !arrivals.empty(); }
  void flush() override { ++flushes; }
  bool backlog() const override { return waits; }

  std::deque<Result<ConnectorEvent>> arrivals;
  std::optional<ConnectorEvent> answer;  // arrives with the next request
  bool watchable = true, reachable = true, grants = true, brings = true, waits = false;
  bool tells = false;  // no descriptor tells of `arrivals`
  int readable = 0, flushes = 0;
  std::vector<PeerId> requested;
  std::vector<std::pair<BufferId, PeerId>> granted;
  std::vector<BufferId> freed;
  std::vector<FileDescriptor> blanks;  // of buffer n at n - 1
};

}  // namespace fairlead::rdma::shm
