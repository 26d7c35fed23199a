// The registered memory of one link group. RmbSlabs decides on slabs; this class registers them
// with every device that carries a link. One object serves RMB elements, another the send rings of
// devices whose remote memory is not addressable. Empty slabs are given back in two steps, because
// peers and devices may still use their memory: first retire(), then free().
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/stats.h"
#include "rdma/device.h"
#include "relay/pipes/memory_budget.h"
#include "smc/group/rmb_slabs.h"

namespace fairlead::relay {

struct BufferSizes {
  std::uint8_t wanted_code = 0;
  std::uint8_t least_code = 0;
};

// Error::what of take() with kPeerRefused.
inline constexpr const char* kKeysRefused = "the peer takes no more keys";

class BufferSlabs {
 public:
  BufferSlabs(rdma::BufferUse use, rdma::Device& device, rdma::ProtectionDomain& domain,
              MemoryBudget& budget, WorkerStats& stats)
      : use_(use), budget_(budget), stats_(stats), homes_{{&device, &domain}} {}
  ~BufferSlabs();
  BufferSlabs(const BufferSlabs&) = delete;
  BufferSlabs& operator=(const BufferSlabs&) = delete;

  // Registers all present and future slabs with one more device. On an error, nothing changes.
  Result<void> add_device(rdma::Device& device, rdma::ProtectionDomain& domain);
  // Removes the device that was added last.
  void remove_device();

  // kMemoryLimit or kExhausted: there is no memory even for the least size. kPeerRefused: a slab is
  // barred; no other slab is added, because the peer would refuse its key as well.
  Result<smc::ElementId> take(const BufferSizes& sizes);
  void release(smc::ElementId element, TimePoint now);

  // See smc::RmbSlabs.
  std::optional<TimePoint> idle_since() const { return slabs_.idle_since(); }
  std::optional<std::uint16_t> retire(TimePoint until) { return slabs_.retire(until); }
  std::size_t retired_count() const { return slabs_.retired_count(); }
  bool retired(std::uint16_t slab) const { return slabs_.retired(slab); }
  void bar(std::uint16_t slab) { slabs_.bar(slab); }
  // Deregisters a slab and frees its memory. REQUIRES: the slab is retired, and unused by anybody.
  void free(std::uint16_t slab);

  std::uint8_t size_code(smc::ElementId element) const { return slabs_.size_code(element.slab); }
  std::span<std::byte> bytes(smc::ElementId element) const;
  // The registration of the element's slab with one device. `device` counts in the order of
  // addition.
  const rdma::RegisteredBuffer& buffer(smc::ElementId element, std::size_t device = 0) const {
    const Slab& slab = memory_[element.slab];
    return device == 0 ? *slab.memory : *slab.elsewhere[device - 1];
  }
  std::size_t offset_bytes(smc::ElementId element) const;
  // Slab numbers are below this value; some may be unused.
  std::size_t slab_numbers() const { return memory_.size(); }
  bool has(std::size_t slab) const { return memory_[slab].memory != nullptr; }
  std::size_t slab_count() const { return slabs_.count(); }
  std::size_t used_bytes() const { return slabs_.used_bytes(); }
  std::size_t total_bytes() const { return slabs_.total_bytes(); }

 private:
  struct Home {
    rdma::Device* device = nullptr;
    rdma::ProtectionDomain* domain = nullptr;
  };
  struct Slab {
    std::unique_ptr<rdma::RegisteredBuffer> memory;
    std::vector<std::unique_ptr<rdma::RegisteredBuffer>> elsewhere;  // same memory, by added device
  };

  Result<Slab> register_slab(std::size_t size_bytes);
  smc::RingMemory ring_memory() const;
  Result<void> add_slab(const BufferSizes& sizes);
  void count_use(smc::ElementId element, bool taken);

  rdma::BufferUse use_;
  MemoryBudget& budget_;
  WorkerStats& stats_;
  smc::RmbSlabs slabs_;
  std::vector<Home> homes_;
  std::vector<Slab> memory_;  // by slab number; empty for unused numbers
};

}  // namespace fairlead::relay
