// Table of the connections of one link group by alert token. The token comes from the peer's CDC
// messages, so it may be any 32-bit value. Its low 8 bits are a slot. The rest is a generation that
// starts at random and differs for each use of the slot, so late messages of an ended connection
// match no entry.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/assert.h"
#include "base/ids.h"

namespace fairlead::smc {

inline constexpr unsigned kConnectionsPerGroupMax = 255;

// T is not owned. Slots take memory in chunks, each while one of its slots is in use.
template <class T>
class ConnectionTable {
 public:
  explicit ConnectionTable(std::uint32_t random) : generation_(random << 8) {}

  // Nothing when all slots are taken.
  std::optional<AlertToken> reserve() {
    if (count_ == kConnectionsPerGroupMax) return std::nullopt;
    while (const Slot* taken = find_slot(next_slot_)) {
      if (taken->token.value == 0) break;
      next_slot_ = (next_slot_ + 1) % kConnectionsPerGroupMax;
    }
    std::unique_ptr<Chunk>& chunk = chunks_[next_slot_ / kChunkSlots];
    if (!chunk) chunk = std::make_unique<Chunk>();
    ++chunk->used;
    generation_ += 0x100;
    const AlertToken token{generation_ | (next_slot_ + 1)};  // never 0
    chunk->slots[next_slot_ % kChunkSlots].token = token;
    next_slot_ = (next_slot_ + 1) % kConnectionsPerGroupMax;
    ++count_;
    return token;
  }
  void set(AlertToken token, T* connection) { slot_of(token).connection = connection; }
  void release(AlertToken token) {
    slot_of(token) = {};
    std::unique_ptr<Chunk>& chunk = chunks_[index_of(token) / kChunkSlots];
    if (--chunk->used == 0) chunk.reset();
    --count_;
  }

  T* find(AlertToken token) const {
    const unsigned low = token.value & 0xff;
    if (low == 0 || low > kConnectionsPerGroupMax) return nullptr;
    const Slot* slot = find_slot(low - 1);
    return slot != nullptr && slot->token == token ? slot->connection : nullptr;
  }
  unsigned count() const { return count_; }
  std::size_t allocated_bytes() const {
    std::size_t bytes = 0;
    for (const std::unique_ptr<Chunk>& chunk : chunks_) bytes += chunk ? sizeof(Chunk) : 0;
    return bytes;
  }

  // `visit` may release the connection it is given.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const std::unique_ptr<Chunk>& chunk : chunks_)
      for (unsigned i = 0; chunk && i < kChunkSlots; ++i)
        if (const Slot& slot = chunk->slots[i]; slot.token.value != 0 && slot.connection != nullptr)
          visit(*slot.connection);
  }

 private:
  struct Slot {
    AlertToken token;
    T* connection = nullptr;
  };
  static constexpr unsigned kChunkSlots = 16;
  struct Chunk {
    std::array<Slot, kChunkSlots> slots{};
    unsigned used = 0;
  };
  static unsigned index_of(AlertToken token) { return (token.value & 0xff) - 1; }
  // Null where no slot of its chunk is in use.
  const Slot* find_slot(unsigned index) const {
    const std::unique_ptr<Chunk>& chunk = chunks_[index / kChunkSlots];
    return chunk ? &chunk->slots[index % kChunkSlots] : nullptr;
  }
  Slot& slot_of(AlertToken token) {
    const unsigned low = token.value & 0xff;
    SMC_ASSERT(low != 0 && low <= kConnectionsPerGroupMax && chunks_[(low - 1) / kChunkSlots],
               token.value);
    Slot& slot = chunks_[(low - 1) / kChunkSlots]->slots[(low - 1) % kChunkSlots];
    SMC_ASSERT(slot.token == token, token.value);
    return slot;
  }

  std::array<std::unique_ptr<Chunk>, (kConnectionsPerGroupMax + kChunkSlots - 1) / kChunkSlots>
      chunks_;
  std::uint32_t generation_;
  unsigned next_slot_ = 0;
  unsigned count_ = 0;
};

}  // namespace fairlead::smc
