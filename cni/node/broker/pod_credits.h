// The rate limit of one pod at the broker: each wake-up and each request takes one credit. The
// broker does not serve a pod without credits. No clock.
#pragma once

#include <chrono>
#include <optional>

#include "base/linux/cpu_time.h"
#include "base/time.h"

namespace fairlead::cni::node {

inline constexpr double kRequestsPerSecond = 1024;
inline constexpr double kRequestsBurst = 4096;
inline constexpr double kRequestsPerDevice = 16;  // one that is connected: its request ring
inline constexpr double kRequestsPerConnect = 4;  // a channel: memory and two pairs of sockets
// Additional cost of a new peer id of the pod, because it is written to the file.
inline constexpr double kRequestsPerPeerId = 64;
// Additional cost of system calls on the socket of a device: one credit for each such period of
// processor time, after the first. The pod can make the calls slow by watchers at its end.
inline constexpr std::chrono::microseconds kTimePerRequest{50};
inline constexpr double kRequestsDebtMax = 512;
// Maximum cost of the buffers of one disconnected device, or of one freed buffer.
inline constexpr int kClosingRequestsMax = 4096;

class PodCredits {
 public:
  // Takes one credit. Nothing on success, else the time until there is one.
  std::optional<Duration> spend(TimePoint now);
  // Takes further credits for a request that has begun; the next spend() waits for them.
  void charge(double requests) { requests_ -= requests; }
  void charge_time(Duration processor_time);
  // True if the pod owes more than requests alone can cost, because its system calls take very
  // long. The broker sends it nothing for a while.
  bool shunned() const { return requests_ < -kRequestsDebtMax; }

 private:
  double requests_ = kRequestsBurst;
  std::optional<TimePoint> counted_at_;
};

// Measures the cost of system calls on the sockets of a pod's devices, in addition to its requests.
// The pod controls the wait queue of a device's socket: it may add its end to very many epoll
// instances, and each system call of the broker walks them all. The time is charged to the pod.
class PodMeter {
 public:
  explicit PodMeter(PodCredits& credits) : credits_(credits), begun_(thread_cpu_time()) {}
  ~PodMeter() { credits_.charge_time(thread_cpu_time() - begun_); }
  PodMeter(const PodMeter&) = delete;
  PodMeter& operator=(const PodMeter&) = delete;

 private:
  PodCredits& credits_;
  Duration begun_;
};

}  // namespace fairlead::cni::node
