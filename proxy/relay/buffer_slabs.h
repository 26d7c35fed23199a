// The registered memory of one link group: RmbSlabs decides, this class registers. One object
// serves RMB elements, another the send rings of devices whose remote memory cannot be addressed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/stats.h"
#include "rdma/device.h"
#include "smc/rmb_slabs.h"

namespace fairlead::relay {

struct BufferSizes {
  std::uint8_t wanted_code = 0;
  std::uint8_t least_code = 0;
};

class BufferSlabs {
 public:
  BufferSlabs(rdma::Device& device, rdma::ProtectionDomain& domain, smc::RmbBudget& budget,
              WorkerStats& stats)
      : device_(device), domain_(domain), budget_(budget), stats_(stats) {}
  ~BufferSlabs();
  BufferSlabs(const BufferSlabs&) = delete;
  BufferSlabs& operator=(const BufferSlabs&) = delete;

  // kExhausted when not even the least size can be had.
  Result<smc::ElementId> take(const BufferSizes& sizes);
  void release(smc::ElementId element);

  std::uint8_t size_code(smc::ElementId element) const { return slabs_.size_code(element.slab); }
  std::span<std::byte> bytes(smc::ElementId element) const;
  const rdma::RegisteredBuffer& buffer(smc::ElementId element) const {
    return *buffers_[element.slab];
  }
  std::size_t offset_bytes(smc::ElementId element) const;
  std::size_t slab_count() const { return buffers_.size(); }
  std::size_t used_bytes() const { return slabs_.used_bytes(); }
  std::size_t total_bytes() const { return slabs_.total_bytes(); }

 private:
  Result<void> add_slab(const BufferSizes& sizes);
  void count_use(smc::ElementId element, bool taken);

  rdma::Device& device_;
  rdma::ProtectionDomain& domain_;
  smc::RmbBudget& budget_;
  WorkerStats& stats_;
  smc::RmbSlabs slabs_;
  std::vector<std::unique_ptr<rdma::RegisteredBuffer>> buffers_;  // by slab number
};

}  // namespace fairlead::relay
