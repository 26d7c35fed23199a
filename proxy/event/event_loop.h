// An epoll(7) instance, owned by one thread. It waits for descriptors and for an absolute deadline;
// timers are the caller's (timer_queue.h), so that they can run under another clock.
//
// Not libevent (docs/adr/0034): a short connection is cheap only if one event tells errors, the end
// and urgent data apart, and if closing a descriptor needs no call before it.
//
// What the loop itself waits for is a timerfd, armed again only for an earlier time, never a
// timeout of epoll_wait(2): the kernel sets and clears that at every sleep, and when it is near,
// the processor's own timer with it. A timer that fires early costs one turn of the loop.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/linux/event_descriptor.h"
#include "base/linux/fd_watcher.h"
#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead::event {

// Events that one epoll_wait(2) fetches.
inline constexpr std::size_t kEventsPerWait = 64;

// Descriptors that wait to be closed together. Beyond that, each is closed at once.
inline constexpr std::size_t kClosingMax = 512;

// Sockets whose connections are over, and how long they wait for neighbours to be closed with.
inline constexpr std::size_t kFinishedMax = 16;
inline constexpr Duration kFinishedAgeMax = std::chrono::seconds(1);

// Of one descriptor at a time.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  // `events`: EPOLLIN and others of <sys/epoll.h>.
  virtual void handle_events(std::uint32_t events) noexcept = 0;

 private:
  friend class EventLoop;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t place_ = kNone;  // in EventLoop::places_
};

// Something to be done before the loop asks for events again, unless its owner dies before.
class Deferred {
 public:
  virtual ~Deferred() = default;
  virtual void run_deferred() noexcept = 0;

 private:
  friend class EventLoop;
  static constexpr std::size_t kNone = SIZE_MAX;
  std::size_t place_ = kNone;  // in EventLoop::deferred_
};

class EventLoop final : public FdWatcher {
 public:
  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop() override;

  static TimePoint now();

  // Dispatches what is ready; never blocks.
  void poll();
  // Blocks until something is ready, wake() is called or `deadline` has passed.
  void wait(Deadline deadline);
  // Ends a wait(). The only method that other threads may call.
  void wake();

  // `events` of a descriptor go to the handler, until remove() or forget(). Level-triggered unless
  // EPOLLET is among them.
  Result<void> add(int fd, std::uint32_t events, EventHandler& handler);
  // Of a descriptor that was added: other events from now on. What is ready is told once more.
  Result<void> modify(int fd, std::uint32_t events, EventHandler& handler);
  // The descriptor stays open. Nothing is done for a handler that was not added.
  void remove(int fd, EventHandler& handler);
  // The descriptor is closed soon, which takes it out of epoll: nobody else has a copy of it. No
  // event reaches the handler any more.
  void forget(EventHandler& handler);

  // Calls who.run_deferred() once in the next poll() or wait(); asking twice is asking once.
  // Whoever dies first takes its request back.
  void defer(Deferred& who);
  // Does now what was put off to the next poll() or wait(): for a loop that is left for good.
  void settle();
  // True if it waited.
  bool forget_deferred(Deferred& who);

  // Closes it in the next poll() or wait(), those with neighbouring numbers in one call.
  void close_later(FileDescriptor descriptor);
  // Of a socket on which both sides have ended, and nothing waits to be read: nobody can tell when
  // it is closed. It waits for neighbours, at most for kFinishedAgeMax.
  void close_finished(FileDescriptor descriptor);

  // Called by poll() and wait() with each descriptor of watch_readable() that became readable.
  void set_watch_handler(FdHandler* handler) { handler_ = handler; }
  Result<void> watch_readable(int fd, Trigger trigger) override;
  void unwatch(int fd) override;

  // How many events have been handled: whether a poll() found anything.
  std::uint64_t dispatch_count() const { return dispatched_; }

 private:
  // Of a descriptor of watch_readable().
  struct Watched final : EventHandler {
    Watched(EventLoop& its_loop, int its_fd) : loop(its_loop), fd(its_fd) {}
    void handle_events(std::uint32_t events) noexcept override;
    EventLoop& loop;
    int fd;
  };
  // Of the eventfd behind wake(): to have ended the wait is all that it does.
  struct Wake final : EventHandler {
    void handle_events(std::uint32_t) noexcept override {}
  };
  struct Alarm final : EventHandler {
    explicit Alarm(EventLoop& its_loop) : loop(its_loop) {}
    void handle_events(std::uint32_t) noexcept override { loop.alarm_at_.reset(); }
    EventLoop& loop;
  };

  EventLoop() = default;
  // The handler of a descriptor. Each event carries a place and its generation. A late event
  // carries an old generation, and is dropped.
  struct Place {
    EventHandler* handler = nullptr;
    std::uint32_t generation = 0;
  };

  Result<void> control(int operation, int fd, std::uint32_t events, const EventHandler& handler);
  void take_place(EventHandler& handler);
  EventHandler* handler_of(const epoll_event& event) const;
  void run_deferred();
  void close_collected();
  void close_neighbours();
  void dispatch(int timeout_ms);
  void wake_at(TimePoint at);

  FileDescriptor epoll_fd_;
  EventDescriptor wake_event_;
  Wake wake_;
  FileDescriptor alarm_fd_;
  Alarm alarm_{*this};
  std::optional<TimePoint> alarm_at_;  // when alarm_fd_ fires
  std::unordered_map<int, std::unique_ptr<Watched>> watched_;
  FdHandler* handler_ = nullptr;
  std::vector<Deferred*> deferred_;  // each knows its place
  std::vector<FileDescriptor> closing_;
  std::vector<FileDescriptor> finished_;
  TimePoint finished_until_{};               // while there are any
  std::vector<FileDescriptor*> neighbours_;  // within close_neighbours()
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_places_;
  std::array<epoll_event, kEventsPerWait> fetched_{};
  std::uint64_t dispatched_ = 0;
};

}  // namespace fairlead::event
