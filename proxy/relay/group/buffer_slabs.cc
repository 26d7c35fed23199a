#include "relay/group/buffer_slabs.h"

#include <algorithm>

#include "base/assert.h"
#include "smc/connection/cursor.h"

namespace fairlead::relay {

BufferSlabs::~BufferSlabs() {
  budget_.give_back(MemoryUse::kRings, slabs_.total_bytes());
  stats_.pinned_bytes.sub(slabs_.total_bytes());
  stats_.rmb_used_bytes.sub(slabs_.used_bytes());
  stats_.rmb_free_bytes.sub(slabs_.total_bytes() - slabs_.used_bytes());
}

Result<void> BufferSlabs::add_device(rdma::Device& device, rdma::ProtectionDomain& domain) {
  std::vector<std::unique_ptr<rdma::RegisteredBuffer>> shared(memory_.size());
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (has(i)) shared[i] = SMC_TRY(device.share_buffer(domain, *memory_[i].memory, use_));
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (has(i)) memory_[i].elsewhere.push_back(std::move(shared[i]));
  homes_.push_back({&device, &domain});
  return {};
}

void BufferSlabs::remove_device() {
  for (Slab& slab : memory_)
    if (slab.memory) slab.elsewhere.pop_back();
  homes_.pop_back();
}

Result<smc::ElementId> BufferSlabs::take(const BufferSizes& sizes) {
  std::optional<smc::ElementId> element = slabs_.take(sizes.wanted_code);
  if (!element) {
    const Result<void> added = add_slab(sizes);
    element = slabs_.take_at_most(sizes.wanted_code, sizes.least_code);
    if (!element) return added ? Error{Errc::kExhausted, "no RMB element"} : added.error();
  }
  if (slabs_.size_code(element->slab) < sizes.wanted_code) stats_.buffer_downgrade.add();
  count_use(*element, true);
  return *element;
}

Result<void> BufferSlabs::add_slab(const BufferSizes& sizes) {
  if (slabs_.barred_count() != 0) return Error{Errc::kPeerRefused, kKeysRefused};
  if (slabs_.full()) return Error{Errc::kExhausted, "slabs of the link group"};
  std::optional<smc::SlabPlan> plan =
      smc::plan_slab(ring_memory(), slabs_.total_bytes(), sizes.wanted_code, sizes.least_code);
  if (!plan) {
    const bool budget_spent = budget_.rings_left_bytes() < smc::element_bytes(sizes.least_code);
    return budget_spent ? Error{Errc::kMemoryLimit, kBudgetSpent}
                        : Error{Errc::kExhausted, "locked memory"};
  }
  // A smaller element that is already free is better than another slab of its size.
  if (plan->size_code < sizes.wanted_code &&
      slabs_.can_take_at_most(sizes.wanted_code, plan->size_code))
    return {};
  for (;;) {
    Result<Slab> slab = register_slab(plan->bytes());
    if (slab) {
      const bool taken = budget_.take(MemoryUse::kRings, plan->bytes());
      SMC_ASSERT(taken, plan->bytes());
      stats_.pinned_bytes.add(plan->bytes());
      stats_.rmb_free_bytes.add(plan->bytes());
      const std::size_t number = slabs_.add(*plan);
      if (number == memory_.size()) memory_.emplace_back();
      memory_[number] = std::move(*slab);
      return {};
    }
    // The device has less than the budget promised: try a smaller slab before giving up.
    if (plan->element_count > 1)
      plan->element_count = (plan->element_count + 1) / 2;
    else if (plan->size_code > sizes.least_code)
      --plan->size_code;
    else
      return slab.error();
  }
}

Result<BufferSlabs::Slab> BufferSlabs::register_slab(std::size_t size_bytes) {
  Slab slab;
  slab.memory = SMC_TRY(homes_[0].device->allocate_buffer(*homes_[0].domain, size_bytes, use_));
  for (std::size_t i = 1; i < homes_.size(); ++i)
    slab.elsewhere.push_back(
        SMC_TRY(homes_[i].device->share_buffer(*homes_[i].domain, *slab.memory, use_)));
  return slab;
}

// For each registration of the same pages, the kernel counts them as locked memory once more.
smc::RingMemory BufferSlabs::ring_memory() const {
  smc::RingMemory memory{budget_.rings_left_bytes(), budget_.rings_limit_bytes()};
  const rdma::Device& device = *homes_[0].device;
  memory.left_bytes = std::min(memory.left_bytes, device.registrable_bytes() / homes_.size());
  if (const std::size_t most = device.capabilities().registered_bytes_max; most != 0)
    memory.total_bytes = std::min(memory.total_bytes, most / homes_.size());
  return memory;
}

void BufferSlabs::release(smc::ElementId element, TimePoint now) {
  slabs_.release(element, now);
  count_use(element, false);
}

void BufferSlabs::free(std::uint16_t slab) {
  const std::size_t bytes = slabs_.bytes(slab);
  slabs_.remove(slab);
  memory_[slab].elsewhere.clear();  // before the memory that they share
  memory_[slab].memory.reset();
  budget_.give_back(MemoryUse::kRings, bytes);
  stats_.pinned_bytes.sub(bytes);
  stats_.rmb_free_bytes.sub(bytes);
  stats_.slabs_returned.add();
}

void BufferSlabs::count_use(smc::ElementId element, bool taken) {
  const std::uint64_t size = smc::element_bytes(size_code(element));
  (taken ? stats_.rmb_used_bytes : stats_.rmb_free_bytes).add(size);
  (taken ? stats_.rmb_free_bytes : stats_.rmb_used_bytes).sub(size);
}

std::size_t BufferSlabs::offset_bytes(smc::ElementId element) const {
  return std::size_t{smc::element_bytes(size_code(element))} * (element.index.value - 1U);
}

std::span<std::byte> BufferSlabs::bytes(smc::ElementId element) const {
  return buffer(element).bytes().subspan(offset_bytes(element),
                                         smc::element_bytes(size_code(element)));
}

}  // namespace fairlead::relay
