#include "mutants.h"

#include "memory.h"

namespace explore {
namespace {

constexpr Mutant weaker(const char* name, const char* scenario, Role role, Op op,
                        std::memory_order order, std::memory_order weaker,
                        std::optional<bool> of_zero = {}) {
  return {name, scenario, role, op, order, of_zero, Instead::kOrder, weaker, Step::kNone};
}

constexpr Mutant instead(const char* name, const char* scenario, Role role, Op op, Instead instead,
                         std::optional<bool> of_zero = {}) {
  return {name, scenario, role, op, kSeqCst, of_zero, instead, kRelease, Step::kNone};
}

constexpr Mutant step(const char* name, const char* scenario, Step step) {
  Mutant mutant{name, scenario};
  mutant.step = step;
  return mutant;
}

constexpr Mutant kMutants[] = {
    weaker("publish of a tail relaxed", "ring", Role::kTail, Op::kStore, kRelease, kRelaxed),
    weaker("refresh of a tail relaxed", "ring", Role::kTail, Op::kLoad, kAcquire, kRelaxed),
    weaker("publish of a head relaxed", "ring", Role::kHead, Op::kStore, kRelease, kRelaxed),
    weaker("refresh of a head relaxed", "ring", Role::kHead, Op::kLoad, kAcquire, kRelaxed),
    weaker("tail of a control ring stored relaxed", "control_ring", Role::kControlTail, Op::kStore,
           kRelease, kRelaxed),
    weaker("tail of a control ring loaded relaxed", "control_ring", Role::kControlTail, Op::kLoad,
           kAcquire, kRelaxed),
    weaker("head of a control ring stored relaxed", "control_ring", Role::kControlHead, Op::kStore,
           kRelease, kRelaxed),
    weaker("head of a control ring loaded relaxed", "control_ring", Role::kControlHead, Op::kLoad,
           kAcquire, kRelaxed),
    instead("publish_ordered of a tail is publish", "wake_up", Role::kTail, Op::kExchange,
            Instead::kStore),
    weaker("publish_ordered of a tail acq_rel", "wake_up", Role::kTail, Op::kExchange, kSeqCst,
           kAcqRel),
    instead("publish_ordered of a head is publish", "room", Role::kHead, Op::kExchange,
            Instead::kStore),
    weaker("publish_ordered of a head acq_rel", "room", Role::kHead, Op::kExchange, kSeqCst,
           kAcqRel),
    instead("second look for messages omitted", "wake_up", Role::kTail, Op::kLoad,
            Instead::kRemembered),
    weaker("second look for messages acquire", "wake_up", Role::kTail, Op::kLoad, kSeqCst,
           kAcquire),
    instead("second look for room omitted", "room", Role::kHead, Op::kLoad, Instead::kRemembered),
    weaker("second look for room acquire", "room", Role::kHead, Op::kLoad, kSeqCst, kAcquire),
    weaker("look for room of a backlog relaxed", "backlog", Role::kHead, Op::kLoad, kSeqCst,
           kRelaxed),
    instead("wish stored with release", "wake_up", Role::kSleeping, Op::kExchange, Instead::kStore,
            false),
    weaker("wish exchanged acq_rel", "wake_up", Role::kSleeping, Op::kExchange, kSeqCst, kAcqRel,
           false),
    weaker("wish looked at with acquire", "wake_up", Role::kSleeping, Op::kLoad, kSeqCst, kAcquire),
    instead("wish taken by load and store", "two_kinds", Role::kSleeping, Op::kExchange,
            Instead::kLoadStore, true),
    instead("wish that has changed taken without a ring", "two_kinds", Role::kSleeping,
            Op::kExchange, Instead::kIfSame, true),
    step("look before the wish", "wake_up", Step::kLookBeforeWish),
    step("control messages looked at before the tail", "overtaking", Step::kControlBeforeTail),
};

}  // namespace

std::span<const Mutant> mutants() { return kMutants; }

}  // namespace explore
