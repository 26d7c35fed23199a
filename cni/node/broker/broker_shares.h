// Limits, for each pod, of the resources that the broker holds for pods: descriptors that wait
// until a device reads, grants that wait until a device connects, and kernel objects. The kernel
// charges these objects to the broker's cgroup as long as a pod keeps them. No sockets and no
// clock.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"

namespace fairlead::cni::node {

// Descriptors of waiting records. All pods together have at most a quarter of the broker's limit.
// When three quarters of that are in use, the limit of a pod is lower.
inline constexpr std::size_t kWaitingPerPodMax = 2048;
inline constexpr std::size_t kWaitingPerPodWhenScarce = 128;
inline constexpr std::size_t kHeldGrantsMax = 4096;  // of the node
inline constexpr std::size_t kHeldGrantsPerPodMax = 512;

// Approximate kernel memory of one object: a memory file, and a channel with its two bells.
inline constexpr double kBufferKernelBytes = 1280;
inline constexpr double kChannelKernelBytes = 12'800;
// When kernel objects use half of the broker's memory limit, a pod that was given more than this
// gets no more; at three quarters no pod does. Below half, the amount recorded for a pod decreases
// at this rate.
inline constexpr double kGivenWhenStrainedBytes = 4.0 * (1 << 20);
inline constexpr double kForgottenBytesPerSecond = 4096;
inline constexpr double kStrainedShare = 0.5;
inline constexpr double kFullShare = 0.75;
inline constexpr Duration kMemoryLookInterval = std::chrono::milliseconds(100);

class BrokerShares {
 public:
  // `descriptors_max`: of the process. `kernel_share`: part of the memory limit that kernel objects
  // use.
  BrokerShares(std::size_t descriptors_max, std::function<double()> kernel_share);

  bool may_wait(const std::string& pod, std::size_t descriptors) const;
  void change_waiting(const std::string& pod, std::size_t before, std::size_t after);

  bool may_hold_grant(const std::string& pod) const;
  void grant_held(const std::string& pod);
  void grant_let_go(const std::string& pod);

  // Reads the memory use at most once in kMemoryLookInterval.
  bool may_give(const std::string& pod, TimePoint now);
  void given(const std::string& pod, double kernel_bytes, TimePoint now);

  void forget(const std::string& pod) { pods_.erase(pod); }

 private:
  struct Pod {
    std::size_t waiting = 0;
    std::size_t grants = 0;
    double given_bytes = 0;
    std::optional<TimePoint> given_at;
  };
  // Reduces the recorded amount by the elapsed time.
  Pod& given_of(const std::string& pod, TimePoint now);
  const Pod* find(const std::string& pod) const;

  std::size_t waiting_max_;
  std::function<double()> kernel_share_;
  std::map<std::string, Pod> pods_;
  std::size_t waiting_ = 0;
  std::size_t grants_ = 0;
  double share_ = 0;
  std::optional<TimePoint> looked_at_;
};

}  // namespace fairlead::cni::node
