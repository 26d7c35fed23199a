#include "base/linux/service_thread.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/linux/wait.h"

namespace fairlead {

Result<void> ServiceThread::start(std::function<void()> body) {
  event_ = SMC_TRY(EventDescriptor::create());
  stopping_ = false;
  try {
    thread_ = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return Error{Errc::kExhausted, "thread", error.code().value()};
  }
  return {};
}

void ServiceThread::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

bool ServiceThread::wait(std::span<pollfd> descriptors, TimePoint deadline) {
  SMC_ASSERT(descriptors.size() < kWaitedMax, descriptors.size());
  if (is_stopping()) return false;
  std::array<pollfd, kWaitedMax> all;
  const auto own = std::copy(descriptors.begin(), descriptors.end(), all.begin());
  *own = {event_.get(), POLLIN, 0};
  (void)wait_for_events(std::span(all.begin(), own + 1), milliseconds_until(deadline));
  std::copy(all.begin(), own, descriptors.begin());
  if (own->revents != 0) (void)event_.take();
  return !is_stopping();
}

}  // namespace fairlead
