// Defects that are built into the code under test, one at a time. Each has to be refused by a
// scenario; otherwise the scenarios would not notice it in the program.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

namespace explore {

// What a shared word is.
enum class Role : std::uint8_t {
  kPlain,
  kTail,  // of a message ring
  kHead,
  kControlTail,
  kControlHead,
  kSleeping,
};

enum class Op : std::uint8_t { kLoad, kStore, kExchange };

// What stands in the place of an access.
enum class Instead : std::uint8_t {
  kNothing,     // the mutant is in a step
  kOrder,       // the same with another order
  kStore,       // a store, where an exchange was
  kLoadStore,   // a load, then a store, where an exchange was
  kRemembered,  // what the thread knows already, where a load was
  kIfSame,      // an exchange that gives 0 if the word has changed since the thread loaded it
};

// Defects in what is written by hand after the program (worker.cc).
enum class Step : std::uint8_t {
  kNone,
  kLookBeforeWish,     // the second look comes before the wish
  kControlBeforeTail,  // control messages are looked at before the tail of the message ring
};

struct Mutant {
  const char* name;
  const char* scenario;  // which refuses it
  Role role = Role::kPlain;
  Op op = Op::kLoad;
  std::memory_order order = std::memory_order_relaxed;  // of the access that it replaces
  std::optional<bool> of_zero;                          // only one that writes 0, or never
  Instead instead = Instead::kNothing;
  std::memory_order weaker = std::memory_order_relaxed;
  Step step = Step::kNone;
};

std::span<const Mutant> mutants();

}  // namespace explore
