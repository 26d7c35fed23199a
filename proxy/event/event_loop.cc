#include "event/event_loop.h"

#include <event2/event.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "event/library_log.h"

namespace fairlead::event {

void free_base(event_base* base) noexcept { event_base_free(base); }
void free_event(::event* handle) noexcept { event_free(handle); }

namespace {

struct ConfigDestroy {
  void operator()(event_config* config) const noexcept { event_config_free(config); }
};

timespec to_timespec(TimePoint at) {
  const auto ns = std::chrono::nanoseconds(at.time_since_epoch()).count();
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return {static_cast<time_t>(ns / kPerSecond), static_cast<long>(ns % kPerSecond)};
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  log_library_messages();
  std::unique_ptr<event_config, ConfigDestroy> config(event_config_new());
  if (!config) return Error{Errc::kExhausted, "event_config_new"};
  event_config_require_features(config.get(), EV_FEATURE_ET);
  // No change list: it would take a closed descriptor out of epoll only later, when its number may
  // already be another thread's.
  event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_NO_CACHE_TIME);
  EventBase base(event_base_new_with_config(config.get()));
  if (!base) return system_error("event_base_new", errno);
  std::unique_ptr<EventLoop> loop(new EventLoop(std::move(base)));
  loop->wake_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_fd_) return system_error("eventfd", errno);
  loop->alarm_fd_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!loop->alarm_fd_) return system_error("timerfd_create", errno);
  // Edge-triggered and never read, as the doorbells of a device.
  constexpr short kFlags = EV_READ | EV_PERSIST | EV_ET;
  event_base* const handle = loop->base_.get();
  loop->wake_event_.reset(
      event_new(handle, loop->wake_fd_.get(), kFlags, &EventLoop::on_wake, loop.get()));
  loop->alarm_event_.reset(
      event_new(handle, loop->alarm_fd_.get(), kFlags, &EventLoop::on_alarm, loop.get()));
  if (!loop->wake_event_ || !loop->alarm_event_ ||
      event_add(loop->wake_event_.get(), nullptr) != 0 ||
      event_add(loop->alarm_event_.get(), nullptr) != 0)
    return Error{Errc::kExhausted, "event_new"};
  return loop;
}

EventLoop::EventLoop(EventBase base) : base_(std::move(base)) {}
EventLoop::~EventLoop() = default;

TimePoint EventLoop::now() { return std::chrono::steady_clock::now(); }

void EventLoop::poll() { event_base_loop(base_.get(), EVLOOP_NONBLOCK | EVLOOP_ONCE); }

void EventLoop::wait(std::optional<TimePoint> deadline) {
  if (deadline) {
    if (*deadline <= now()) return poll();
    wake_at(*deadline);
  }
  event_base_loop(base_.get(), EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY);
}

void EventLoop::wake_at(TimePoint at) {
  if (alarm_ && *alarm_ <= at) return;
  itimerspec spec = {};
  spec.it_value = to_timespec(at);
  const int rc = ::timerfd_settime(alarm_fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  SMC_ASSERT(rc == 0, errno);
  alarm_ = at;
}

void EventLoop::wake() {
  const std::uint64_t one = 1;
  // A full counter means that the loop is being woken already.
  if (::write(wake_fd_.get(), &one, sizeof one) < 0) return;
}

void EventLoop::on_wake(int, short, void* self) noexcept {
  static_cast<EventLoop*>(self)->count_dispatch();
}

void EventLoop::schedule_recheck(Recheck& who) {
  if (who.place_ != Recheck::kNone) return;
  if (rechecks_.empty()) {
    rechecks_due_ = now() + kRecheckDelay;
    wake_at(rechecks_due_);
  }
  who.place_ = rechecks_.size();
  rechecks_.push_back(&who);
}

void EventLoop::forget(Recheck& who) {
  if (who.place_ == Recheck::kNone) return;
  Recheck* last = rechecks_.back();
  rechecks_[who.place_] = last;
  last->place_ = who.place_;
  rechecks_.pop_back();
  who.place_ = Recheck::kNone;
}

void EventLoop::on_alarm(int, short, void* self) noexcept {
  auto* loop = static_cast<EventLoop*>(self);
  loop->alarm_.reset();
  if (loop->rechecks_.empty()) return;
  if (loop->rechecks_due_ <= now())
    loop->run_rechecks();
  else
    loop->wake_at(loop->rechecks_due_);
}

void EventLoop::run_rechecks() {
  while (!rechecks_.empty()) {
    Recheck& who = *rechecks_.back();
    forget(who);
    who.look_again();
  }
}

void EventLoop::on_watched(int fd, short, void* self) noexcept {
  auto* loop = static_cast<EventLoop*>(self);
  loop->count_dispatch();
  if (loop->handler_ != nullptr) loop->handler_->handle_readable(fd);
}

Result<void> EventLoop::watch_readable(int fd, Trigger trigger) {
  const short flags =
      static_cast<short>(EV_READ | EV_PERSIST | (trigger == Trigger::kEdge ? EV_ET : 0));
  EventHandle handle(event_new(base_.get(), fd, flags, &EventLoop::on_watched, this));
  if (!handle) return Error{Errc::kExhausted, "event_new"};
  errno = 0;
  if (event_add(handle.get(), nullptr) != 0) return system_error("epoll_ctl", errno);
  watched_[fd] = std::move(handle);
  return {};
}

void EventLoop::unwatch(int fd) { watched_.erase(fd); }

}  // namespace fairlead::event
