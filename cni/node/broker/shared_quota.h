// A limit that all pods of the node share at the agent: of descriptors, or bytes. An amount
// promised to a pod is reserved for it. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace fairlead::cni::node {

class SharedQuota {
 public:
  explicit SharedQuota(std::uint64_t max) : max_(max) {}
  SharedQuota(const SharedQuota&) = delete;
  SharedQuota& operator=(const SharedQuota&) = delete;

  // The part of one pod. The quota outlives it.
  class Share {
   public:
    explicit Share(SharedQuota& quota) : quota_(quota) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { (void)resize(0); }
    // Sets the pod's amount. False, and nothing changes, if that would leave too little for others.
    // When others have half of the quota, a pod may have half of the rest.
    bool resize(std::uint64_t count);
    std::uint64_t size() const { return size_; }

   private:
    SharedQuota& quota_;
    std::uint64_t size_ = 0;
  };

 private:
  const std::uint64_t max_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace fairlead::cni::node
