// Descriptors that the agent holds for pods, of the node and of each pod. What is promised is
// reserved. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace fairlead::cni::node {

class KeptDescriptors {
 public:
  explicit KeptDescriptors(std::uint64_t max) : max_(max) {}
  KeptDescriptors(const KeptDescriptors&) = delete;
  KeptDescriptors& operator=(const KeptDescriptors&) = delete;

  // The part of one pod. `node` outlives it.
  class Share {
   public:
    explicit Share(KeptDescriptors& node) : node_(node) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { (void)resize(0); }
    // So many in all from now on; false, and nothing changes, where a larger share would leave too
    // little to others. Once others have half of the node's, a pod may have half of what is left.
    bool resize(std::uint64_t count);
    std::uint64_t size() const { return size_; }

   private:
    KeptDescriptors& node_;
    std::uint64_t size_ = 0;
  };
  std::uint64_t used() const { return used_; }

 private:
  const std::uint64_t max_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace fairlead::cni::node
