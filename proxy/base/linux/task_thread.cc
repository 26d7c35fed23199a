#include "base/linux/task_thread.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

namespace fairlead {

struct TaskThread::Shared {
  struct Posted {
    std::uint64_t number = 0;
    std::unique_ptr<Task> task;
    bool called_off = false;  // it is destroyed where it would have run
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Posted> waiting;
  Tasks done;
  std::uint64_t posted = 0;   // ever; the number of the latest task
  std::uint64_t running = 0;  // the number of the task that runs, or 0
  std::optional<TimePoint> running_since;
  bool ends = false;       // after what waits
  bool abandoned = false;  // at once
  bool ended = false;
};

TaskThread::TaskThread(std::size_t tasks_max)
    : tasks_max_(tasks_max), shared_(std::make_unique<Shared>()) {}

TaskThread::~TaskThread() {
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

std::uint64_t TaskThread::post(std::unique_ptr<Task>& task) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([shared = shared_.get()] {
        if (work(*shared)) delete shared;
      });
    } catch (const std::system_error&) {
      return 0;  // the next task tries again
    }
  }
  const std::lock_guard lock(shared_->mutex);
  const std::size_t running = shared_->running_since ? 1 : 0;
  if (shared_->waiting.size() + shared_->done.size() + running >= tasks_max_) return 0;
  shared_->waiting.push_back({++shared_->posted, std::move(task), false});
  shared_->changed.notify_all();
  return shared_->posted;
}

TaskThread::CallOff TaskThread::call_off(std::uint64_t number) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->running == number) return CallOff::kRunning;
  // The numbers of those that wait are ascending.
  const auto found =
      std::lower_bound(shared_->waiting.begin(), shared_->waiting.end(), number,
                       [](const Shared::Posted& at, std::uint64_t to) { return at.number < to; });
  if (found == shared_->waiting.end() || found->number != number) return CallOff::kTooLate;
  found->called_off = true;
  return CallOff::kDone;
}

TaskThread::Tasks TaskThread::take_done() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->done, {});
}

TaskThread::Tasks TaskThread::take_waiting() {
  const std::lock_guard lock(shared_->mutex);
  Tasks taken;
  for (auto& posted : std::exchange(shared_->waiting, {})) taken.push_back(std::move(posted.task));
  return taken;
}

Duration TaskThread::running_for(TimePoint now) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->running_since ? now - *shared_->running_since : Duration::zero();
}

bool TaskThread::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.changed.wait(lock, [&] { return shared.ends || !shared.waiting.empty(); });
    if (shared.waiting.empty() || shared.abandoned) break;
    Shared::Posted posted = std::move(shared.waiting.front());
    shared.waiting.pop_front();
    if (posted.called_off) {
      lock.unlock();
      posted.task.reset();
      lock.lock();
      continue;
    }
    std::unique_ptr<Task> task = std::move(posted.task);
    shared.running = posted.number;
    shared.running_since = std::chrono::steady_clock::now();
    lock.unlock();
    if (!task->run()) task.reset();
    lock.lock();
    shared.running = 0;
    shared.running_since.reset();
    if (task) shared.done.push_back(std::move(task));
  }
  shared.ended = true;
  shared.changed.notify_all();
  return shared.abandoned;
}

}  // namespace fairlead
