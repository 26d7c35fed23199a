#include "event/event_loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace fairlead::event {
namespace {

// ThreadSanitizer does not see close_range(2). It would report that the next owner of a number
// races with the thread that closed it.
#if defined(__SANITIZE_THREAD__)
constexpr bool kClosesRanges = false;
#else
constexpr bool kClosesRanges = true;
#endif

timespec to_timespec(TimePoint at) {
  const auto ns = std::chrono::nanoseconds(at.time_since_epoch()).count();
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return {static_cast<time_t>(ns / kPerSecond), static_cast<long>(ns % kPerSecond)};
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  std::unique_ptr<EventLoop> loop(new EventLoop);
  loop->epoll_fd_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_fd_) return system_error("epoll_create1", errno);
  loop->wake_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_fd_) return system_error("eventfd", errno);
  loop->alarm_fd_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!loop->alarm_fd_) return system_error("timerfd_create", errno);
  // Edge-triggered and never read, as the doorbells of a device.
  SMC_TRY(loop->add(loop->wake_fd_.get(), EPOLLIN | EPOLLET, loop->wake_));
  SMC_TRY(loop->add(loop->alarm_fd_.get(), EPOLLIN | EPOLLET, loop->alarm_));
  return loop;
}

EventLoop::~EventLoop() = default;

TimePoint EventLoop::now() { return std::chrono::steady_clock::now(); }

void EventLoop::poll() { dispatch(0); }

void EventLoop::wait(std::optional<TimePoint> deadline) {
  if (deadline) {
    if (*deadline <= now()) return poll();
    wake_at(*deadline);
  }
  dispatch(-1);
}

// A handler may destroy other handlers: each event is taken out before its call. It must not wait.
void EventLoop::dispatch(int timeout_ms) {
  settle();
  const int count =
      ::epoll_wait(epoll_fd_.get(), fetched_.data(), static_cast<int>(fetched_.size()), timeout_ms);
  if (count < 0) {
    SMC_ASSERT(errno == EINTR, errno);
    return;
  }
  fetched_count_ = static_cast<std::size_t>(count);
  for (handled_ = 0; handled_ < fetched_count_;) {
    const epoll_event event = fetched_[handled_++];
    if (event.data.ptr == nullptr) continue;
    ++dispatched_;
    static_cast<EventHandler*>(event.data.ptr)->handle_events(event.events);
  }
}

Result<void> EventLoop::control(int operation, int fd, std::uint32_t events,
                                EventHandler& handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &handler;
  if (::epoll_ctl(epoll_fd_.get(), operation, fd, &event) != 0)
    return system_error("epoll_ctl", errno);
  return {};
}

Result<void> EventLoop::add(int fd, std::uint32_t events, EventHandler& handler) {
  return control(EPOLL_CTL_ADD, fd, events, handler);
}

Result<void> EventLoop::modify(int fd, std::uint32_t events, EventHandler& handler) {
  return control(EPOLL_CTL_MOD, fd, events, handler);
}

void EventLoop::remove(int fd, EventHandler& handler) {
  (void)control(EPOLL_CTL_DEL, fd, 0, handler);
  forget(handler);
}

void EventLoop::forget(EventHandler& handler) {
  for (std::size_t i = handled_; i < fetched_count_; ++i)
    if (fetched_[i].data.ptr == &handler) fetched_[i].data.ptr = nullptr;
}

void EventLoop::defer(Deferred& who) {
  if (who.place_ != Deferred::kNone) return;
  who.place_ = deferred_.size();
  deferred_.push_back(&who);
}

bool EventLoop::forget_deferred(Deferred& who) {
  if (who.place_ == Deferred::kNone) return false;
  Deferred* const last = deferred_.back();
  deferred_[who.place_] = last;
  last->place_ = who.place_;
  deferred_.pop_back();
  who.place_ = Deferred::kNone;
  return true;
}

void EventLoop::run_deferred() {
  while (!deferred_.empty()) {
    Deferred& who = *deferred_.back();
    (void)forget_deferred(who);
    who.run_deferred();
  }
}

void EventLoop::settle() {
  run_deferred();
  close_collected();
}

void EventLoop::close_later(FileDescriptor descriptor) {
  if (descriptor && closing_.size() < kClosingMax) closing_.push_back(std::move(descriptor));
}

// The two sockets of a connection are neighbours as a rule.
void EventLoop::close_collected() {
  if (kClosesRanges && closing_.size() > 1) {
    std::sort(closing_.begin(), closing_.end(),
              [](const FileDescriptor& a, const FileDescriptor& b) { return a.get() < b.get(); });
    for (std::size_t first = 0, next = 1; first < closing_.size(); first = next++) {
      while (next < closing_.size() && closing_[next].get() == closing_[next - 1].get() + 1) ++next;
      if (next - first == 1) continue;
      const auto low = static_cast<unsigned>(closing_[first].get());
      const auto high = static_cast<unsigned>(closing_[next - 1].get());
      if (::close_range(low, high, 0) != 0) break;  // not in this kernel, or not permitted
      for (std::size_t i = first; i < next; ++i) (void)closing_[i].release();
    }
  }
  closing_.clear();
}

void EventLoop::wake_at(TimePoint at) {
  if (alarm_at_ && *alarm_at_ <= at) return;
  itimerspec spec = {};
  spec.it_value = to_timespec(at);
  const int rc = ::timerfd_settime(alarm_fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  SMC_ASSERT(rc == 0, errno);
  alarm_at_ = at;
}

void EventLoop::wake() {
  const std::uint64_t one = 1;
  // A full counter means that the loop is being woken already.
  if (::write(wake_fd_.get(), &one, sizeof one) < 0) return;
}

void EventLoop::Watched::handle_events(std::uint32_t) noexcept {
  if (loop.handler_ != nullptr) loop.handler_->handle_readable(fd);
}

Result<void> EventLoop::watch_readable(int fd, Trigger trigger) {
  auto watched = std::make_unique<Watched>(*this, fd);
  const std::uint32_t edge = trigger == Trigger::kEdge ? EPOLLET : 0U;
  SMC_TRY(add(fd, EPOLLIN | edge, *watched));
  watched_[fd] = std::move(watched);
  return {};
}

void EventLoop::unwatch(int fd) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  remove(fd, *found->second);
  watched_.erase(found);
}

}  // namespace fairlead::event
