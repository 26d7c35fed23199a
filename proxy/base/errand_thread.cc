#include "base/errand_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

namespace fairlead {

struct ErrandThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<Errand>> waiting;
  Errands done;
  std::optional<TimePoint> running_since;
  bool ends = false;       // after what waits
  bool abandoned = false;  // at once
  bool ended = false;
};

ErrandThread::ErrandThread(std::size_t errands_max)
    : errands_max_(errands_max), shared_(std::make_unique<Shared>()) {}

ErrandThread::~ErrandThread() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
  if (shared_->changed.wait_for(lock, kExitWait, [&] { return shared_->ended; })) {
    lock.unlock();
    thread_.join();
    return;
  }
  shared_->abandoned = true;
  thread_.detach();
  lock.unlock();
  (void)shared_.release();
}

void ErrandThread::post(std::unique_ptr<Errand>& errand) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([shared = shared_.get()] {
        if (work(*shared)) delete shared;
      });
    } catch (const std::system_error&) {
      return;  // the next errand tries again
    }
  }
  const std::lock_guard lock(shared_->mutex);
  const std::size_t running = shared_->running_since ? 1 : 0;
  if (shared_->waiting.size() + shared_->done.size() + running >= errands_max_) return;
  shared_->waiting.push_back(std::move(errand));
  shared_->changed.notify_all();
}

ErrandThread::Errands ErrandThread::take_done() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->done, {});
}

ErrandThread::Errands ErrandThread::take_waiting() {
  const std::lock_guard lock(shared_->mutex);
  Errands taken;
  for (auto& errand : std::exchange(shared_->waiting, {})) taken.push_back(std::move(errand));
  return taken;
}

Duration ErrandThread::running_for(TimePoint now) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->running_since ? now - *shared_->running_since : Duration::zero();
}

bool ErrandThread::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.changed.wait(lock, [&] { return shared.ends || !shared.waiting.empty(); });
    if (shared.waiting.empty() || shared.abandoned) break;
    std::unique_ptr<Errand> errand = std::move(shared.waiting.front());
    shared.waiting.pop_front();
    shared.running_since = std::chrono::steady_clock::now();
    lock.unlock();
    if (!errand->run()) errand.reset();
    lock.lock();
    shared.running_since.reset();
    if (errand) shared.done.push_back(std::move(errand));
  }
  shared.ended = true;
  shared.changed.notify_all();
  return shared.abandoned;
}

}  // namespace fairlead
