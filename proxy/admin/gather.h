// Collects the answers of all workers for one HTTP request, with a time limit. Admin thread, apart
// from the replies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "admin/sources.h"
#include "base/time.h"
#include "event/http/http_server.h"

namespace fairlead::admin {

struct GatheredSnapshot {
  std::vector<WorkerSnapshot> workers;  // those that answered, by number
  std::vector<unsigned> silent;         // those that did not, by number
};

class SnapshotGather {
 public:
  using Render =
      std::function<event::HttpResponse(const event::HttpRequest&, const GatheredSnapshot&)>;

  // `http` outlives this object and the replies.
  SnapshotGather(event::HttpServer& http,
                 std::function<void(const SnapshotRequest&, SnapshotReply)> source,
                 std::size_t worker_count, Duration timeout);

  // Answers the exchange with what `render` makes of the snapshots: when all have come, or when the
  // time is up. With kPendingMax waiting already, false, and the exchange is left to the caller.
  bool ask(const SnapshotRequest& request, event::HttpExchange& exchange, Render render);

  // Answers all who ask this way with what `render` makes of one and the same snapshot, for the
  // request of the first. Asks the workers once in kSharedInterval at most; whoever asks meanwhile
  // waits. The server's limit of connections bounds how many wait.
  void ask_shared(event::HttpExchange exchange, Render render);

  static constexpr std::size_t kPendingMax = 16;
  static constexpr Duration kSharedInterval = std::chrono::milliseconds(50);

 private:
  struct Pending {
    std::vector<event::HttpExchange> exchanges;  // one, or all that share
    Render render;
    std::vector<WorkerSnapshot> answers;
    event::HttpTimer timer;
  };

  void begin(const SnapshotRequest& request, std::vector<event::HttpExchange> exchanges,
             Render render);
  void begin_shared();
  void take(std::uint64_t id, WorkerSnapshot snapshot);
  void complete(std::uint64_t id);

  event::HttpServer& http_;
  std::function<void(const SnapshotRequest&, SnapshotReply)> source_;
  std::size_t worker_count_;
  Duration timeout_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Pending> pending_;
  std::vector<event::HttpExchange> sharing_;  // wait for the next shared snapshot
  Render shared_render_;
  bool shared_is_due_ = false;  // shared_timer_ runs
  event::HttpTimer shared_timer_;
};

}  // namespace fairlead::admin
