// Counts objects per client or server, by the block of its address (address_block()). Limits per
// address are based on these counts.
#pragma once

#include <cstddef>
#include <map>

#include "base/address.h"
#include "base/assert.h"

namespace fairlead::relay {

class AddressShares {
 public:
  void add(const SocketAddress& address) { ++counts_[address_block(address)]; }
  // REQUIRES: add() has been called more often than remove() for addresses of this block.
  void remove(const SocketAddress& address) {
    const auto own = counts_.find(address_block(address));
    SMC_ASSERT(own != counts_.end());
    if (--own->second == 0) counts_.erase(own);
  }
  std::size_t count(const SocketAddress& address) const {
    const auto own = counts_.find(address_block(address));
    return own == counts_.end() ? 0 : own->second;
  }
  // Number of blocks with at least one object.
  std::size_t block_count() const { return counts_.size(); }

 private:
  std::map<SocketAddress, std::size_t> counts_;
};

}  // namespace fairlead::relay
