#include "cni/node/kept_descriptors.h"

namespace fairlead::cni::node {

bool KeptDescriptors::Share::resize(std::uint64_t count) {
  std::uint64_t used = node_.used_.load();
  do {
    const std::uint64_t others = used - size_;
    const std::uint64_t left = node_.max_ - others;
    const std::uint64_t allowed = others <= node_.max_ / 2 ? left : left / 2;
    if (count > size_ && count > allowed) return false;
  } while (!node_.used_.compare_exchange_weak(used, used - size_ + count));
  size_ = count;
  return true;
}

}  // namespace fairlead::cni::node
