#include "cni/node/pods/pod_thread.h"

#include <linux/close_range.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/linux/cpu_time.h"
#include "base/linux/event_descriptor.h"
#include "base/linux/wait.h"
#include "base/log.h"
#include "cni/node/pods/thread_user.h"

namespace fairlead::cni::node {
namespace {

constexpr int kKickSignal = SIGUSR1;
constexpr int kFirstNumber = STDERR_FILENO + 1;

TimePoint now_() { return std::chrono::steady_clock::now(); }

bool close_numbers(int first, unsigned last, unsigned flags) {
  return static_cast<unsigned>(first) > last || ::syscall(SYS_close_range, first, last, flags) == 0;
}

// Once in a process, for kick().
void handle_kicks() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {};  // without SA_RESTART: calls that wait return
    (void)::sigaction(kKickSignal, &nothing, nullptr);
  });
}

}  // namespace

Duration TimeBudget::rest(TimePoint now) {
  const auto earned = std::chrono::duration_cast<Duration>((now - counted_at_) * kPodTimePerSecond);
  counted_at_ = now;
  left_ = std::min(left_ + earned, kPodTimeAtOnce);
  if (left_ >= Duration::zero()) return Duration::zero();
  return std::chrono::duration_cast<Duration>(-left_ / kPodTimePerSecond);
}

struct PodThread::Shared {
  EventDescriptor stop_event;
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<void>> begun;  // guarded by mutex: whether the thread has its own table
  bool ended = false;                 // guarded
  bool abandoned = false;             // guarded: the thread owns this
};

PodThread::Here::Here(const std::atomic<bool>& stopped, int stop_event)
    : stopped_(stopped), stop_event_(stop_event), charged_(thread_cpu_time()), budget_(now_()) {}

bool PodThread::Here::stopped() const { return stopped_.load(std::memory_order_acquire); }

void PodThread::Here::charge() {
  const Duration used = thread_cpu_time();
  budget_.spend(used - std::exchange(charged_, used));
}

bool PodThread::Here::wait(std::span<pollfd> descriptors, TimePoint until) {
  charge();
  TimePoint now = now_();
  for (Duration rest = budget_.rest(now); rest > Duration::zero(); rest = budget_.rest(now)) {
    if (stopped()) return false;
    pollfd stop{stop_event_, POLLIN, 0};
    (void)wait_for_events({&stop, 1}, std::max(1, milliseconds_until(now + rest)));
    now = now_();
  }
  std::vector<pollfd> all(descriptors.begin(), descriptors.end());
  all.push_back({stop_event_, POLLIN, 0});
  (void)wait_for_events(all, milliseconds_until(until));
  std::copy_n(all.begin(), descriptors.size(), descriptors.begin());
  return !stopped();
}

PodThread::PodThread(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<PodThread>> PodThread::start(Work work) {
  handle_kicks();
  auto shared = std::make_unique<Shared>();
  shared->stop_event = SMC_TRY(EventDescriptor::create());
  std::unique_ptr<PodThread> made(new PodThread(std::move(shared)));
  try {
    made->thread_ = std::thread([shared = made->shared_.get(), work = std::move(work)]() mutable {
      run(*shared, work);
      work = nullptr;  // destroying what it owns may block too
      std::unique_lock lock(shared->mutex);
      shared->ended = true;
      const bool ours = shared->abandoned;
      lock.unlock();
      if (ours) delete shared;
    });
  } catch (const std::system_error& error) {
    return Error{Errc::kExhausted, "a thread for the pod", error.code().value()};
  }
  std::unique_lock lock(made->shared_->mutex);
  made->shared_->changed.wait(lock, [&] { return made->shared_->begun.has_value(); });
  if (!*made->shared_->begun) {
    lock.unlock();
    made->thread_.join();
    return made->shared_->begun->error();
  }
  return made;
}

void PodThread::run(Shared& shared, const Work& work) {
  const int stop_event = shared.stop_event.get();
  // From here on the number identifies this file in both tables.
  const bool unshared = close_numbers(stop_event + 1, UINT_MAX, CLOSE_RANGE_UNSHARE);
  {
    const std::lock_guard lock(shared.mutex);
    shared.begun = unshared ? Result<void>() : system_error("close_range", errno);
  }
  shared.changed.notify_one();
  if (!unshared) return;
  (void)close_numbers(kFirstNumber, static_cast<unsigned>(stop_event) - 1, 0);
  if (const auto user = take_thread_user(); !user)
    LogEvent(LogLevel::kWarn, "node", "user_shared")
        .field("what", to_string(user.error()))
        .field("hint", "needs CAP_SETUID; pods can delay each other's hand-overs");
  Here here(shared.stopped, stop_event);
  work(here);
}

PodThread::~PodThread() {
  stop();
  if (!thread_.joinable()) return;
  std::unique_lock lock(shared_->mutex);
  if (shared_->ended) {
    lock.unlock();
    thread_.join();
    return;
  }
  shared_->abandoned = true;
  // The thread has its own copy.
  shared_->stop_event.close();
  thread_.detach();
  lock.unlock();
  (void)shared_.release();
}

void PodThread::stop() {
  if (shared_->stopped.exchange(true, std::memory_order_acq_rel)) return;
  shared_->stop_event.signal();
}

void PodThread::kick() {
  if (!ended()) (void)::pthread_kill(thread_.native_handle(), kKickSignal);
}

bool PodThread::ended() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->ended;
}

}  // namespace fairlead::cni::node
