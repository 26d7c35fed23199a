#include "cni/node/pods/pod_calls.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace fairlead::cni::node {
namespace {

// Shared by the caller and the thread, until both have released it.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<PodCall> call;
  bool done = false;
  bool left = false;  // by the caller: the thread owns it
};

TimePoint now() { return std::chrono::steady_clock::now(); }

void run_shared(Shared* shared) {
  shared->call->run();
  std::unique_lock lock(shared->mutex);
  shared->done = true;
  const bool ours = shared->left;
  shared->changed.notify_all();
  lock.unlock();
  if (ours) delete shared;
}

}  // namespace

void PodCalls::reap() {
  std::erase_if(left_, [](const auto& one) {
    one.second->kick();
    return one.second->ended();
  });
}

Duration PodCalls::limit(Duration max, TimePoint now) {
  const auto earned =
      std::chrono::duration_cast<Duration>((now - counted_at_) * kCallsWaitPerSecond);
  may_wait_ = std::min(may_wait_ + earned, wait_at_once_);
  counted_at_ = now;
  return std::min(max, std::max(may_wait_, kHurriedCallMax));
}

std::unique_ptr<PodCall> PodCalls::run(const std::string& pod, Duration max,
                                       std::unique_ptr<PodCall> call) {
  reap();
  if (left_.contains(pod) || left_.size() >= kCallsLeftMax) return nullptr;
  auto shared = std::make_unique<Shared>();
  shared->call = std::move(call);
  auto thread = PodThread::start([own = shared.get()](PodThread::Here&) { run_shared(own); });
  if (!thread) return nullptr;
  const TimePoint begun = now();
  std::unique_lock lock(shared->mutex);
  (void)shared->changed.wait_for(lock, limit(max, begun), [&] { return shared->done; });
  may_wait_ = std::max(may_wait_ - (now() - begun), Duration::zero());
  if (shared->done) return std::move(shared->call);
  shared->left = true;
  (*thread)->stop();
  left_.emplace(pod, std::move(*thread));
  lock.unlock();
  (void)shared.release();
  return nullptr;
}

std::string name_of_pod(const NetnsIdentity& pod) {
  return std::to_string(pod.device) + ":" + std::to_string(pod.inode);
}

}  // namespace fairlead::cni::node
