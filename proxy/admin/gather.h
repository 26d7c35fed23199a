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

  static constexpr std::size_t kPendingMax = 16;

 private:
  struct Pending {
    event::HttpExchange exchange;
    Render render;
    std::vector<WorkerSnapshot> answers;
    event::HttpTimer timer;
  };

  void take(std::uint64_t id, WorkerSnapshot snapshot);
  void complete(std::uint64_t id);

  event::HttpServer& http_;
  std::function<void(const SnapshotRequest&, SnapshotReply)> source_;
  std::size_t worker_count_;
  Duration timeout_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Pending> pending_;
};

}  // namespace fairlead::admin
