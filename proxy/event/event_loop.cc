#include "event/event_loop.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace fairlead::event {
namespace {

// ThreadSanitizer does not see close_range(2). It would report that the next owner of a number
// races with the thread that closed it.
#if defined(FAIRLEAD_THREAD_SANITIZER)
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
  loop->wake_event_ = SMC_TRY(EventDescriptor::create());
  loop->alarm_fd_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!loop->alarm_fd_) return system_error("timerfd_create", errno);
  // Edge-triggered and never read, as the doorbells of a device.
  SMC_TRY(loop->add(loop->wake_event_.get(), EPOLLIN | EPOLLET, loop->wake_));
  SMC_TRY(loop->add(loop->alarm_fd_.get(), EPOLLIN | EPOLLET, loop->alarm_));
  return loop;
}

EventLoop::~EventLoop() = default;

TimePoint EventLoop::now() { return std::chrono::steady_clock::now(); }

void EventLoop::poll() { dispatch(0); }

void EventLoop::wait(Deadline deadline) {
  if (!finished_.empty()) deadline = earliest(deadline, finished_until_);
  if (deadline) {
    if (*deadline <= now()) return poll();
    wake_at(*deadline);
  }
  dispatch(-1);
}

// A handler may destroy other handlers: each event looks for its own. It must not wait.
void EventLoop::dispatch(int timeout_ms) {
  settle();
  const int count =
      ::epoll_wait(epoll_fd_.get(), fetched_.data(), static_cast<int>(fetched_.size()), timeout_ms);
  if (count < 0) {
    SMC_ASSERT(errno == EINTR, errno);
    return;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const epoll_event event = fetched_[i];
    EventHandler* const handler = handler_of(event);
    if (handler == nullptr) continue;
    ++dispatched_;
    handler->handle_events(event.events);
  }
}

EventHandler* EventLoop::handler_of(const epoll_event& event) const {
  const Place& place = places_[static_cast<std::uint32_t>(event.data.u64)];
  return place.generation == event.data.u64 >> 32 ? place.handler : nullptr;
}

Result<void> EventLoop::control(int operation, int fd, std::uint32_t events,
                                const EventHandler& handler) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = std::uint64_t{places_[handler.place_].generation} << 32 | handler.place_;
  if (::epoll_ctl(epoll_fd_.get(), operation, fd, &event) != 0)
    return system_error("epoll_ctl", errno);
  return {};
}

void EventLoop::take_place(EventHandler& handler) {
  SMC_ASSERT(handler.place_ == EventHandler::kNone, handler.place_);
  if (free_places_.empty()) {
    handler.place_ = static_cast<std::uint32_t>(places_.size());
    places_.emplace_back();
  } else {
    handler.place_ = free_places_.back();
    free_places_.pop_back();
  }
  places_[handler.place_].handler = &handler;
}

Result<void> EventLoop::add(int fd, std::uint32_t events, EventHandler& handler) {
  take_place(handler);
  Result<void> added = control(EPOLL_CTL_ADD, fd, events, handler);
  if (!added) forget(handler);
  return added;
}

Result<void> EventLoop::modify(int fd, std::uint32_t events, EventHandler& handler) {
  if (handler.place_ == EventHandler::kNone) return system_error("epoll_ctl", ENOENT);
  return control(EPOLL_CTL_MOD, fd, events, handler);
}

void EventLoop::remove(int fd, EventHandler& handler) {
  if (handler.place_ == EventHandler::kNone) return;
  (void)control(EPOLL_CTL_DEL, fd, 0, handler);
  forget(handler);
}

void EventLoop::forget(EventHandler& handler) {
  if (handler.place_ == EventHandler::kNone) return;
  Place& place = places_[handler.place_];
  place.handler = nullptr;
  ++place.generation;
  free_places_.push_back(std::exchange(handler.place_, EventHandler::kNone));
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

void EventLoop::close_finished(FileDescriptor descriptor) {
  if (!kClosesRanges || finished_.size() == kFinishedMax) return close_later(std::move(descriptor));
  if (finished_.empty()) finished_until_ = now() + kFinishedAgeMax;
  finished_.push_back(std::move(descriptor));
}

// The two sockets of a connection are neighbours as a rule, or have a finished one between them.
void EventLoop::close_collected() {
  const bool finished_due = !finished_.empty() && finished_until_ <= now();
  if (closing_.empty() && !finished_due) return;
  if (kClosesRanges) close_neighbours();
  closing_.clear();
  if (finished_due || finished_.size() == kFinishedMax) finished_.clear();
}

void EventLoop::close_neighbours() {
  neighbours_.clear();
  for (FileDescriptor& closing : closing_) neighbours_.push_back(&closing);
  for (FileDescriptor& finished : finished_) neighbours_.push_back(&finished);
  std::sort(neighbours_.begin(), neighbours_.end(),
            [](const FileDescriptor* a, const FileDescriptor* b) { return a->get() < b->get(); });
  for (std::size_t first = 0, next = 1; first < neighbours_.size(); first = next++) {
    while (next < neighbours_.size() &&
           neighbours_[next]->get() == neighbours_[next - 1]->get() + 1)
      ++next;
    if (next - first == 1) continue;
    const auto low = static_cast<unsigned>(neighbours_[first]->get());
    const auto high = static_cast<unsigned>(neighbours_[next - 1]->get());
    if (::close_range(low, high, 0) != 0) break;  // not in this kernel, or not permitted
    for (std::size_t i = first; i < next; ++i) (void)neighbours_[i]->release();
  }
  std::erase_if(finished_, [](const FileDescriptor& finished) { return !finished; });
}

void EventLoop::wake_at(TimePoint at) {
  if (alarm_at_ && *alarm_at_ <= at) return;
  itimerspec spec = {};
  spec.it_value = to_timespec(at);
  const int rc = ::timerfd_settime(alarm_fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  SMC_ASSERT(rc == 0, errno);
  alarm_at_ = at;
}

void EventLoop::wake() { wake_event_.signal(); }

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
