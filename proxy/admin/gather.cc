#include "admin/gather.h"

#include <algorithm>
#include <utility>

namespace fairlead::admin {

SnapshotGather::SnapshotGather(event::HttpServer& http,
                               std::function<void(const SnapshotRequest&, SnapshotReply)> source,
                               std::size_t worker_count, Duration timeout)
    : http_(http), source_(std::move(source)), worker_count_(worker_count), timeout_(timeout) {}

bool SnapshotGather::ask(const SnapshotRequest& request, event::HttpExchange& exchange,
                         Render render) {
  if (pending_.size() >= kPendingMax) return false;
  std::vector<event::HttpExchange> one;
  one.push_back(std::move(exchange));
  begin(request, std::move(one), std::move(render));
  return true;
}

void SnapshotGather::ask_shared(event::HttpExchange exchange, Render render) {
  sharing_.push_back(std::move(exchange));
  shared_render_ = std::move(render);
  if (!shared_is_due_) begin_shared();
}

void SnapshotGather::begin_shared() {
  shared_is_due_ = !sharing_.empty();
  if (!shared_is_due_) return;
  shared_timer_ = http_.call_after(kSharedInterval, [this] { begin_shared(); });
  begin({}, std::exchange(sharing_, {}), shared_render_);
}

void SnapshotGather::begin(const SnapshotRequest& request,
                           std::vector<event::HttpExchange> exchanges, Render render) {
  const std::uint64_t id = next_id_++;
  pending_.emplace(id, Pending{std::move(exchanges), std::move(render), {}, {}});
  if (!source_ || worker_count_ == 0) return complete(id);
  pending_.at(id).timer = http_.call_after(timeout_, [this, id] { complete(id); });
  // The reply refers to the server and not to this object: the server's queue refuses tasks once it
  // is stopped, and this object may be gone by then.
  source_(request, [this, http = &http_, id](WorkerSnapshot snapshot) {
    http->post([this, id, answer = std::move(snapshot)]() mutable { take(id, std::move(answer)); });
  });
}

void SnapshotGather::take(std::uint64_t id, WorkerSnapshot snapshot) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  std::vector<WorkerSnapshot>& answers = found->second.answers;
  const unsigned worker = snapshot.worker;
  const bool is_new = std::none_of(answers.begin(), answers.end(), [worker](const auto& answer) {
    return answer.worker == worker;
  });
  if (!is_new || worker >= worker_count_) return;
  answers.push_back(std::move(snapshot));
  if (answers.size() == worker_count_) complete(id);
}

void SnapshotGather::complete(std::uint64_t id) {
  auto node = pending_.extract(id);
  if (node.empty()) return;
  Pending& done = node.mapped();
  GatheredSnapshot gathered;
  gathered.workers = std::move(done.answers);
  std::sort(gathered.workers.begin(), gathered.workers.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  if (source_) {
    auto answered = gathered.workers.begin();
    for (unsigned worker = 0; worker < worker_count_; ++worker) {
      if (answered != gathered.workers.end() && answered->worker == worker)
        ++answered;
      else
        gathered.silent.push_back(worker);
    }
  }
  const event::HttpResponse response = done.render(done.exchanges.front().request(), gathered);
  for (event::HttpExchange& exchange : done.exchanges) exchange.respond(response);
}

}  // namespace fairlead::admin
