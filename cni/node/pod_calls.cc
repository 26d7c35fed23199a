#include "cni/node/pod_calls.h"

#include <condition_variable>
#include <mutex>

namespace fairlead::cni::node {
namespace {

// Of the caller and the thread, until both have let it go.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<PodCall> call;
  bool done = false;
  bool left = false;  // by the caller: it is the thread's
};

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

std::unique_ptr<PodCall> PodCalls::run(const std::string& pod, Duration max,
                                       std::unique_ptr<PodCall> call) {
  reap();
  if (left_.contains(pod) || left_.size() >= kCallsLeftMax) return nullptr;
  auto shared = std::make_unique<Shared>();
  shared->call = std::move(call);
  auto thread = PodThread::start([own = shared.get()](PodThread::Here&) { run_shared(own); });
  if (!thread) return nullptr;
  std::unique_lock lock(shared->mutex);
  if (!shared->changed.wait_for(lock, max, [&] { return shared->done; })) {
    shared->left = true;
    (*thread)->stop();
    left_.emplace(pod, std::move(*thread));
    lock.unlock();
    (void)shared.release();
    return nullptr;
  }
  return std::move(shared->call);
}

std::string name_of_pod(const NetnsIdentity& pod) {
  return std::to_string(pod.device) + ":" + std::to_string(pod.inode);
}

}  // namespace fairlead::cni::node
