#include "smc/group/rmb_slabs.h"

#include <algorithm>

#include "base/assert.h"
#include "smc/connection/cursor.h"

namespace fairlead::smc {

std::size_t SlabPlan::bytes() const {
  return std::size_t{element_bytes(size_code)} * element_count;
}

namespace {

std::size_t element_bytes_max(const RingMemory& memory) {
  if (memory.left_bytes >= memory.total_bytes) return memory.left_bytes / kElementShare;
  const double left = static_cast<double>(memory.left_bytes);
  return static_cast<std::size_t>(left / static_cast<double>(memory.total_bytes) * left /
                                  static_cast<double>(kElementShare));
}

}  // namespace

std::optional<SlabPlan> plan_slab(const RingMemory& memory, std::size_t held_bytes,
                                  std::uint8_t wanted_code, std::uint8_t least_code) {
  SMC_ASSERT(least_code <= wanted_code && wanted_code <= kElementCodeMax, least_code, wanted_code);
  std::uint8_t code = wanted_code;
  const std::size_t most = element_bytes_max(memory);
  while (code > least_code && element_bytes(code) > most) --code;
  // In a small budget even the least size may exceed that share. It is used if it fits at all.
  const std::size_t size = element_bytes(code);
  if (size > memory.left_bytes) return std::nullopt;
  const std::size_t slab_bytes =
      std::min(std::clamp(held_bytes, kSlabBytesFirst, kSlabBytesMax), memory.left_bytes / 8);
  const std::size_t count = std::clamp<std::size_t>(slab_bytes / size, 1, kSlabElementsMax);
  return SlabPlan{code, static_cast<unsigned>(count)};
}

ElementId RmbSlabs::take_from(std::size_t index) {
  Slab& slab = slabs_[index];
  for (unsigned i = 0; i < slab.element_count; ++i) {
    if (slab.used[i]) continue;
    slab.used[i] = true;
    --slab.free_count;
    slab.empty_since.reset();
    used_bytes_ += element_bytes(slab.size_code);
    return {static_cast<std::uint16_t>(index), RmbIndex{static_cast<std::uint8_t>(i + 1)}};
  }
  SMC_UNREACHABLE();
}

std::optional<std::size_t> RmbSlabs::find(std::uint8_t size_code) const {
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    const Slab& slab = slabs_[i];
    if (slab.state == State::kInUse && slab.size_code == size_code && slab.free_count != 0)
      return i;
  }
  return std::nullopt;
}

std::optional<ElementId> RmbSlabs::take(std::uint8_t size_code) {
  const std::optional<std::size_t> slab = find(size_code);
  if (!slab) return std::nullopt;
  return take_from(*slab);
}

std::optional<ElementId> RmbSlabs::take_at_most(std::uint8_t size_code, std::uint8_t least_code) {
  for (int code = size_code; code >= least_code; --code)
    if (auto element = take(static_cast<std::uint8_t>(code))) return element;
  return std::nullopt;
}

bool RmbSlabs::can_take_at_most(std::uint8_t size_code, std::uint8_t least_code) const {
  for (int code = size_code; code >= least_code; --code)
    if (find(static_cast<std::uint8_t>(code))) return true;
  return false;
}

void RmbSlabs::release(ElementId element, TimePoint now) {
  SMC_ASSERT(element.slab < slabs_.size() && element.index.value != 0, element.slab,
             element.index.value);
  Slab& slab = slabs_[element.slab];
  const unsigned i = element.index.value - 1U;
  SMC_ASSERT(i < slab.element_count && slab.used[i], i, slab.element_count);
  slab.used[i] = false;
  ++slab.free_count;
  used_bytes_ -= element_bytes(slab.size_code);
  if (slab.free_count == slab.element_count) slab.empty_since = now;
}

std::uint16_t RmbSlabs::add(const SlabPlan& plan) {
  SMC_ASSERT(!full() && plan.element_count != 0 && plan.element_count <= kSlabElementsMax,
             plan.element_count);
  std::size_t number = 0;
  while (number < slabs_.size() && slabs_[number].state != State::kFree) ++number;
  if (number == slabs_.size()) slabs_.emplace_back();
  Slab& slab = slabs_[number];
  slab.state = State::kInUse;
  slab.size_code = plan.size_code;
  slab.element_count = slab.free_count = plan.element_count;
  ++count_;
  total_bytes_ += plan.bytes();
  return static_cast<std::uint16_t>(number);
}

void RmbSlabs::bar(std::uint16_t slab) {
  if (slabs_[slab].state != State::kInUse) return;
  slabs_[slab].state = State::kBarred;
  ++barred_count_;
}

bool RmbSlabs::last(const Slab& slab) const {
  return !slab.barred() && count_ - retired_count_ - barred_count_ <= 1;
}

std::optional<TimePoint> RmbSlabs::idle_since() const {
  std::optional<TimePoint> since;
  for (const Slab& slab : slabs_)
    if (slab.empty() && !last(slab)) since = earliest(since, slab.empty_since);
  return since;
}

std::optional<std::uint16_t> RmbSlabs::retire(TimePoint until) {
  for (std::size_t i = slabs_.size(); i-- != 0;) {
    Slab& slab = slabs_[i];
    if (!slab.empty() || last(slab) || *slab.empty_since > until) continue;
    if (slab.barred()) --barred_count_;
    slab.state = State::kRetired;
    ++retired_count_;
    return static_cast<std::uint16_t>(i);
  }
  return std::nullopt;
}

std::size_t RmbSlabs::bytes(std::uint16_t slab) const {
  return SlabPlan{slabs_[slab].size_code, slabs_[slab].element_count}.bytes();
}

void RmbSlabs::remove(std::uint16_t slab) {
  SMC_ASSERT(slab < slabs_.size() && retired(slab), slab);
  total_bytes_ -= bytes(slab);
  slabs_[slab] = {};
  --count_;
  --retired_count_;
}

}  // namespace fairlead::smc
