// Limits, for each pod, of the resources that the broker holds for pods: descriptors that wait
// until a device reads, grants that wait until a device connects, buffers, and kernel objects. The
// kernel charges these objects to the broker's cgroup as long as a pod keeps them. No sockets and
// no clock.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/time.h"

namespace fairlead::cni::node {

// Descriptors of waiting records. All pods together have at most a quarter of the broker's limit.
// When three quarters of that are in use, the limit of a pod is lower.
inline constexpr std::size_t kWaitingPerPodMax = 2048;
inline constexpr std::size_t kWaitingPerPodWhenScarce = 128;
inline constexpr std::size_t kHeldGrantsMax = 4096;  // of the node
inline constexpr std::size_t kHeldGrantsPerPodMax = 512;
inline constexpr std::size_t kBuffersPerPodMax = 4096;
inline constexpr std::size_t kBuffersPerNodeMax = 65536;  // or half of the descriptors
inline constexpr std::size_t kBuffersPerPodWhenScarce = 256;

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
  struct Held {
    std::size_t waiting = 0;  // descriptors
    std::size_t grants = 0;
    std::size_t buffers = 0;
  };

 public:
  // `descriptors_max`: of the process. `kernel_share`: part of the memory limit that kernel objects
  // use.
  BrokerShares(std::size_t descriptors_max, std::function<double()> kernel_share);

  std::size_t buffers() const { return held_.buffers; }

  // The part of one pod. When the pod ends, its part is free. The node outlives it.
  class Share {
   public:
    explicit Share(BrokerShares& node) : node_(node) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share();

    bool may_wait(std::size_t descriptors) const;
    void add_waiting(std::size_t descriptors) { add(&Held::waiting, descriptors); }
    void remove_waiting(std::size_t descriptors) { remove(&Held::waiting, descriptors); }

    bool may_hold_grant() const;
    void grant_held() { add(&Held::grants, 1); }
    void grant_let_go() { remove(&Held::grants, 1); }

    bool may_have_buffer() const;
    void buffer_made() { add(&Held::buffers, 1); }
    void buffers_gone(std::size_t count) { remove(&Held::buffers, count); }

    // Reads the memory use at most once in kMemoryLookInterval.
    bool may_give(TimePoint now);
    void given(double kernel_bytes, TimePoint now);

   private:
    void add(std::size_t Held::*what, std::size_t count) {
      held_.*what += count;
      node_.held_.*what += count;
    }
    void remove(std::size_t Held::*what, std::size_t count) {
      held_.*what -= count;
      node_.held_.*what -= count;
    }
    // Reduces the recorded amount by the elapsed time.
    void forget_given(TimePoint now);

    BrokerShares& node_;
    Held held_;
    double given_bytes_ = 0;
    std::optional<TimePoint> given_at_;
  };

 private:
  std::size_t waiting_max_;
  std::size_t buffers_max_;
  std::function<double()> kernel_share_;
  Held held_;
  double share_ = 0;
  std::optional<TimePoint> looked_at_;
};

}  // namespace fairlead::cni::node
