// One libevent base, owned by one thread. It waits for descriptors and for an absolute deadline;
// timers are the caller's (timer_queue.h), so that they can run under another clock.
//
// What the loop itself waits for is a timerfd, armed again only for an earlier time, never a
// timeout of epoll_wait(2): the kernel sets and clears that at every sleep, and when it is near,
// the processor's own timer with it. A timer that fires early costs one turn of the loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/fd_watcher.h"
#include "base/handle.h"
#include "base/result.h"
#include "base/time.h"

struct event_base;
struct event;

namespace fairlead::event {

void free_base(event_base* base) noexcept;
void free_event(::event* handle) noexcept;
using EventBase = Handle<event_base, free_base>;
using EventHandle = Handle<::event, free_event>;

// How long after a request for a second look it is taken.
inline constexpr Duration kRecheckDelay = std::chrono::milliseconds(10);

// Something that libevent's events may have told only half of; see EventLoop::schedule_recheck().
class Recheck {
 public:
  virtual ~Recheck() = default;
  virtual void look_again() noexcept = 0;

 private:
  friend class EventLoop;
  static constexpr std::size_t kNone = SIZE_MAX;
  std::size_t place_ = kNone;  // in EventLoop::rechecks_
};

class EventLoop final : public FdWatcher {
 public:
  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop() override;

  static TimePoint now();

  // Dispatches what is ready; never blocks.
  void poll();
  // Blocks until something is ready, wake() is called or `deadline` has passed.
  void wait(std::optional<TimePoint> deadline);
  // Ends a wait(). The only method that other threads may call.
  void wake();

  // Called by poll() and wait() with each descriptor of watch_readable() that became readable.
  void set_watch_handler(FdHandler* handler) { handler_ = handler; }
  Result<void> watch_readable(int fd, Trigger trigger) override;
  void unwatch(int fd) override;

  // Calls who.look_again() once, after kRecheckDelay; asking twice is asking once. Whoever dies
  // first takes its request back.
  void schedule_recheck(Recheck& who);
  void forget(Recheck& who);

  // How many callbacks have run: whether a poll() found anything.
  std::uint64_t dispatch_count() const { return dispatched_; }
  void count_dispatch() { ++dispatched_; }
  event_base* base() { return base_.get(); }

 private:
  explicit EventLoop(EventBase base);
  static void on_watched(int fd, short what, void* self) noexcept;
  static void on_wake(int fd, short what, void* self) noexcept;
  static void on_alarm(int fd, short what, void* self) noexcept;
  void wake_at(TimePoint at);
  void run_rechecks();

  EventBase base_;
  FileDescriptor wake_fd_;
  EventHandle wake_event_;
  FileDescriptor alarm_fd_;
  EventHandle alarm_event_;
  std::optional<TimePoint> alarm_;  // when alarm_fd_ fires
  std::vector<Recheck*> rechecks_;  // each knows its place
  TimePoint rechecks_due_;          // valid while there are any
  std::unordered_map<int, EventHandle> watched_;
  FdHandler* handler_ = nullptr;
  std::uint64_t dispatched_ = 0;
};

}  // namespace fairlead::event
