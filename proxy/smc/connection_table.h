// The connections of one link group by alert token. A token is what the peer puts into its CDC
// messages, so any 32-bit value may come: the low 8 bits are a slot, the rest a generation that
// starts at random and differs for each use of the slot, so that a late message of a former
// connection finds nobody.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/assert.h"
#include "base/ids.h"

namespace fairlead::smc {

inline constexpr unsigned kConnectionsPerGroupMax = 255;

// T is not owned.
template <class T>
class ConnectionTable {
 public:
  explicit ConnectionTable(std::uint32_t random) : generation_(random << 8) {}

  // Nothing when all slots are taken.
  std::optional<AlertToken> reserve() {
    for (unsigned i = 0; i < kConnectionsPerGroupMax; ++i) {
      const unsigned slot = (next_slot_ + i) % kConnectionsPerGroupMax;
      if (slots_[slot].token.value != 0) continue;
      next_slot_ = slot + 1;
      generation_ += 0x100;
      slots_[slot].token = AlertToken{generation_ | (slot + 1)};  // never 0
      ++count_;
      return slots_[slot].token;
    }
    return std::nullopt;
  }
  void set(AlertToken token, T* connection) { slot_of(token).connection = connection; }
  void release(AlertToken token) {
    slot_of(token) = {};
    --count_;
  }

  T* find(AlertToken token) const {
    const unsigned low = token.value & 0xff;
    if (low == 0 || low > kConnectionsPerGroupMax) return nullptr;
    const Slot& slot = slots_[low - 1];
    return slot.token == token ? slot.connection : nullptr;
  }
  unsigned count() const { return count_; }

  // `visit` may release the connection it is given.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_)
      if (slot.token.value != 0 && slot.connection != nullptr) visit(*slot.connection);
  }

 private:
  struct Slot {
    AlertToken token;
    T* connection = nullptr;
  };
  Slot& slot_of(AlertToken token) {
    const unsigned low = token.value & 0xff;
    SMC_ASSERT(low != 0 && slots_[low - 1].token == token, token.value);
    return slots_[low - 1];
  }

  std::array<Slot, kConnectionsPerGroupMax> slots_{};
  std::uint32_t generation_;
  unsigned next_slot_ = 0;
  unsigned count_ = 0;
};

}  // namespace fairlead::smc
