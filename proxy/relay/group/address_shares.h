// How many of something each client or server has, by the block of its address (address_block()):
// the basis of limits for one address.
#pragma once

#include <cstddef>
#include <map>

#include "base/address.h"
#include "base/assert.h"

namespace fairlead::relay {

class AddressShares {
 public:
  void add(const SocketAddress& address) { ++counts_[address_block(address)]; }
  // REQUIRES: add() was called more often for addresses of this block.
  void remove(const SocketAddress& address) {
    const auto own = counts_.find(address_block(address));
    SMC_ASSERT(own != counts_.end());
    if (--own->second == 0) counts_.erase(own);
  }
  std::size_t count(const SocketAddress& address) const {
    const auto own = counts_.find(address_block(address));
    return own == counts_.end() ? 0 : own->second;
  }
  // Blocks with at least one.
  std::size_t block_count() const { return counts_.size(); }

 private:
  std::map<SocketAddress, std::size_t> counts_;
};

}  // namespace fairlead::relay
