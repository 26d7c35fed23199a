// A thread that serves until it is told to stop: it waits for descriptors and times, and does what
// they ask for. Its owner has it as a member, declared behind what the thread uses.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <span>
#include <thread>

#include "base/linux/event_descriptor.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead {

// Threads: start() and stop() on one thread; wake() on any between them; wait() and is_stopping()
// on the thread itself.
class ServiceThread {
 public:
  ServiceThread() = default;
  ~ServiceThread() { stop(); }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  // `body` returns once a wait() is false. Errors: those of eventfd(2), kExhausted without a
  // thread.
  Result<void> start(std::function<void()> body);
  // Ends its wait, and waits for its end. Nothing when it does not run.
  void stop();
  // Ends its wait, or its next one.
  void wake() const { event_.signal(); }

  // Waits for `descriptors`, kWaitedMax - 1 at most, and fills in `revents`; until `deadline`, or
  // wake(). It can be over earlier. False: the thread has to end.
  bool wait(std::span<pollfd> descriptors, TimePoint deadline = TimePoint::max());
  bool wait_until(TimePoint deadline) { return wait({}, deadline); }
  bool is_stopping() const { return stopping_.load(std::memory_order_acquire); }

 private:
  EventDescriptor event_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace fairlead
