#include "cni/node/broker/shared_quota.h"

namespace fairlead::cni::node {

bool SharedQuota::Share::resize(std::uint64_t count) {
  std::uint64_t used = quota_.used_.load();
  do {
    const std::uint64_t others = used - size_;
    const std::uint64_t left = quota_.max_ - others;
    const std::uint64_t allowed = others <= quota_.max_ / 2 ? left : left / 2;
    if (count > size_ && count > allowed) return false;
  } while (!quota_.used_.compare_exchange_weak(used, used - size_ + count));
  size_ = count;
  return true;
}

}  // namespace fairlead::cni::node
