#include "event/event_loop.h"

#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace fairlead::event {

void free_base(event_base* base) noexcept { event_base_free(base); }
void free_event(::event* handle) noexcept { event_free(handle); }

namespace {

struct ConfigDestroy {
  void operator()(event_config* config) const noexcept { event_config_free(config); }
};

void on_timeout(int, short, void*) noexcept {}

timeval to_timeval(Duration duration) {
  const auto us =
      std::chrono::ceil<std::chrono::microseconds>(std::max(duration, Duration::zero()));
  return {static_cast<time_t>(us.count() / 1000000),
          static_cast<suseconds_t>(us.count() % 1000000)};
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
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
  loop->timeout_.reset(event_new(loop->base_.get(), -1, 0, on_timeout, nullptr));
  loop->wake_event_.reset(event_new(loop->base_.get(), loop->wake_fd_.get(),
                                    EV_READ | EV_PERSIST | EV_ET, &EventLoop::on_wake, loop.get()));
  loop->second_look_timer_.reset(
      event_new(loop->base_.get(), -1, 0, &EventLoop::on_second_look, loop.get()));
  if (!loop->timeout_ || !loop->second_look_timer_ || !loop->wake_event_ ||
      event_add(loop->wake_event_.get(), nullptr) != 0)
    return Error{Errc::kExhausted, "event_new"};
  return loop;
}

EventLoop::EventLoop(EventBase base) : base_(std::move(base)) {}
EventLoop::~EventLoop() = default;

TimePoint EventLoop::now() { return std::chrono::steady_clock::now(); }

void EventLoop::poll() { event_base_loop(base_.get(), EVLOOP_NONBLOCK | EVLOOP_ONCE); }

void EventLoop::wait(std::optional<TimePoint> deadline) {
  if (deadline) {
    const timeval delay = to_timeval(*deadline - now());
    event_add(timeout_.get(), &delay);
  }
  event_base_loop(base_.get(), EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY);
  if (deadline) event_del(timeout_.get());
}

void EventLoop::wake() {
  const std::uint64_t one = 1;
  // A full counter means that the loop is being woken already.
  if (::write(wake_fd_.get(), &one, sizeof one) < 0) return;
}

// Edge-triggered and never read, as the doorbells of a device.
void EventLoop::on_wake(int, short, void* self) noexcept {
  static_cast<EventLoop*>(self)->count_dispatch();
}

void EventLoop::look_again_at(SecondLook& who) {
  if (who.place_ != SecondLook::kNone) return;
  if (second_looks_.empty()) {
    const timeval delay = to_timeval(kSecondLookDelay);
    event_add(second_look_timer_.get(), &delay);
  }
  who.place_ = second_looks_.size();
  second_looks_.push_back(&who);
}

void EventLoop::forget(SecondLook& who) {
  if (who.place_ == SecondLook::kNone) return;
  SecondLook* last = second_looks_.back();
  second_looks_[who.place_] = last;
  last->place_ = who.place_;
  second_looks_.pop_back();
  who.place_ = SecondLook::kNone;
}

void EventLoop::on_second_look(int, short, void* self) noexcept {
  auto* loop = static_cast<EventLoop*>(self);
  while (!loop->second_looks_.empty()) {
    SecondLook& who = *loop->second_looks_.back();
    loop->forget(who);
    who.look_again();
  }
}

void EventLoop::on_watched(int fd, short, void* self) noexcept {
  auto* loop = static_cast<EventLoop*>(self);
  loop->count_dispatch();
  if (loop->handler_) loop->handler_(fd);
}

void EventLoop::watch_readable(int fd, Trigger trigger) {
  const short flags =
      static_cast<short>(EV_READ | EV_PERSIST | (trigger == Trigger::kEdge ? EV_ET : 0));
  EventHandle handle(event_new(base_.get(), fd, flags, &EventLoop::on_watched, this));
  SMC_ASSERT(handle && event_add(handle.get(), nullptr) == 0, fd);
  watched_[fd] = std::move(handle);
}

void EventLoop::unwatch(int fd) { watched_.erase(fd); }

}  // namespace fairlead::event
