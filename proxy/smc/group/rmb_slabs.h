// RMB elements for the connections of one link group. Memory is registered in slabs: one
// registration, one rkey, up to 255 elements of one size, indexed from 1 (docs/wire.md, "Link
// groups"). So a peer's table of rkeys holds one entry a slab, and a connection in an existing slab
// costs no registration. A new slab is announced by CONFIRM_RKEY where the group may have more
// than one link.
//
// Pure bookkeeping: the caller registers and frees the memory. A slab that was empty long enough is
// retired: it takes no more connections, and the caller removes it once the peer has deleted its
// rkey. The last slab stays. A slab whose rkey the peer refuses is barred: it takes no connections,
// and is retired like others when it is empty.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace fairlead::smc {

inline constexpr std::size_t kSlabsMax = 64;       // per link group
inline constexpr unsigned kSlabElementsMax = 255;  // the index has 8 bits and starts at 1
// Each slab is as large as all earlier ones together, between these two sizes, but at least one
// element. So memory grows with connections, and the number of slabs with its logarithm.
inline constexpr std::size_t kSlabBytesFirst = 64 * 1024;
inline constexpr std::size_t kSlabBytesMax = 8 * 1024 * 1024;
// An element is at most this part of all memory while all of it is free. The limit shrinks with the
// square of the free part: early connections get large rings, late ones still get a ring.
inline constexpr std::size_t kElementShare = 128;

struct ElementId {
  std::uint16_t slab = 0;
  RmbIndex index{1};
  friend constexpr bool operator==(const ElementId&, const ElementId&) = default;
};

struct SlabPlan {
  std::uint8_t size_code = 0;
  unsigned element_count = 0;
  std::size_t bytes() const;
};

// Memory for rings: free bytes and total.
struct RingMemory {
  std::size_t left_bytes = 0;
  std::size_t total_bytes = 0;
};

// The slab to register so that one more connection gets an element of at most `wanted_code` and at
// least `least_code`: the size steps down as the budget fills, so that late connections get small
// buffers before they get none. `held_bytes`: of the slabs that the group has. Nothing when even
// the least size does not fit.
std::optional<SlabPlan> plan_slab(const RingMemory& memory, std::size_t held_bytes,
                                  std::uint8_t wanted_code, std::uint8_t least_code);

class RmbSlabs {
 public:
  // A free element of exactly this size.
  std::optional<ElementId> take(std::uint8_t size_code);
  // The largest free element between the sizes, for use when no slab can be added.
  std::optional<ElementId> take_at_most(std::uint8_t size_code, std::uint8_t least_code);
  bool can_take_at_most(std::uint8_t size_code, std::uint8_t least_code) const;
  void release(ElementId element, TimePoint now);

  bool full() const { return count_ == kSlabsMax; }
  // Adds a slab; the next take() of that size succeeds. Returns the slab's number, the lowest free
  // one.
  std::uint16_t add(const SlabPlan& plan);

  // Since when the slab that is retired next has been empty. None if no slab is empty, or if it is
  // the last one.
  std::optional<TimePoint> idle_since() const;
  // Retires one slab that has been empty since `until` or longer. High numbers go first, because
  // low ones are filled first.
  std::optional<std::uint16_t> retire(TimePoint until);
  bool retired(std::uint16_t slab) const { return slabs_[slab].state == State::kRetired; }
  // Stops new connections on a slab. Elements in use stay so until their release. No effect on a
  // retired slab.
  void bar(std::uint16_t slab);
  std::size_t barred_count() const { return barred_count_; }
  std::size_t retired_count() const { return retired_count_; }
  // Frees the slab's number. REQUIRES: retired
  void remove(std::uint16_t slab);

  std::uint8_t size_code(std::uint16_t slab) const { return slabs_[slab].size_code; }
  std::size_t bytes(std::uint16_t slab) const;
  // Slabs that are registered, retired ones included.
  std::size_t count() const { return count_; }
  std::size_t used_bytes() const { return used_bytes_; }
  std::size_t total_bytes() const { return total_bytes_; }

 private:
  enum class State : std::uint8_t { kFree, kInUse, kBarred, kRetired };
  struct Slab {
    State state = State::kFree;
    std::uint8_t size_code = 0;
    unsigned element_count = 0;
    unsigned free_count = 0;
    std::bitset<kSlabElementsMax> used;
    std::optional<TimePoint> empty_since;  // set once a connection has used it
    bool barred() const { return state == State::kBarred; }
    bool empty() const {
      return (state == State::kInUse || state == State::kBarred) && empty_since.has_value();
    }
  };
  ElementId take_from(std::size_t slab);
  std::optional<std::size_t> find(std::uint8_t size_code) const;
  // True if it is the only slab that takes connections.
  bool last(const Slab& slab) const;

  std::vector<Slab> slabs_;  // by number
  std::size_t count_ = 0;
  std::size_t retired_count_ = 0;
  std::size_t barred_count_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t total_bytes_ = 0;
};

}  // namespace fairlead::smc
