// What all pods of the node together may have of something at the agent: descriptors, or bytes.
// What is promised to a pod is reserved for it. Threads: any.
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
    // So much in all from now on; false, and nothing changes, where a larger share would leave too
    // little to others. Once others have half of the quota, a pod may have half of what is left.
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
