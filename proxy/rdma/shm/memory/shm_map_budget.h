// How much of peers' memory one device has mapped. Each mapping takes address space and counts
// against vm.max_map_count, a limit that malloc(3) shares. The last munmap(2) of a file frees its
// pages, which takes long if the peer has filled it. Therefore a task thread unmaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/linux/task_thread.h"
#include "base/result.h"
#include "rdma/shm/memory/shm_segment.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

class MapBudget;

// Memory of a peer, counted in a budget that outlives it.
class CountedMapping {
 public:
  CountedMapping() = default;
  CountedMapping(CountedMapping&& other) noexcept
      : mapping_(std::move(other.mapping_)),
        budget_(std::exchange(other.budget_, nullptr)),
        pod_(other.pod_) {}
  CountedMapping& operator=(CountedMapping&& other) noexcept;
  ~CountedMapping();

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  void detach_from_file() noexcept;

 private:
  friend class MapBudget;
  CountedMapping(Mapping mapping, MapBudget& budget, std::uint32_t pod)
      : mapping_(std::move(mapping)), budget_(&budget), pod_(pod) {}
  Mapping mapping_;
  MapBudget* budget_ = nullptr;
  std::uint32_t pod_ = 0;
};

class MapBudget {
 public:
  MapBudget() = default;
  MapBudget(const MapBudget&) = delete;
  MapBudget& operator=(const MapBudget&) = delete;

  // Maps all of a memfd that belongs to a peer in `pod`; 0 where there are no pods, and the limits
  // of a pod do not count. Errors: kExhausted at a limit of shm_limits.h, those of
  // adopt_whole_segment().
  Result<CountedMapping> map(int fd, std::uint32_t pod = 0);
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return bytes_; }

 private:
  friend class CountedMapping;
  struct Share {
    std::size_t count = 0;
    std::size_t bytes = 0;
  };
  void give_back(std::uint32_t pod, std::size_t size_bytes);
  // Here when kUnmapsWaitingMax wait.
  void unmap(Mapping mapping);
  TaskThread unmaps_{kUnmapsWaitingMax};
  std::unordered_map<std::uint32_t, Share> shares_;  // by pod
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace fairlead::rdma::shm
