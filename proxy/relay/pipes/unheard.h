// What a reader says to an application that is gone, while it has still to read what that one said
// before its FIN.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "event/stream.h"

namespace fairlead::relay {

// Dropped in one turn before others get theirs.
inline constexpr std::size_t kUnheardTurnBytesMax = 512 * 1024;

struct Unheard {
  std::uint64_t bytes = 0;
  bool more = false;     // to be dropped in the next turn
  bool refused = false;  // the reader was reset
};

// Reads what is there, for nobody.
inline Unheard drop_unheard(event::Stream& reader) {
  Unheard unheard;
  unheard.refused = reader.take_error() != 0;
  std::byte scratch[16 * 1024];
  const iovec into{scratch, sizeof scratch};
  while (!unheard.refused && reader.readable()) {
    unheard.more = unheard.bytes >= kUnheardTurnBytesMax;
    if (unheard.more) break;
    const event::IoResult result = reader.read({&into, 1});
    unheard.refused = result.kind == event::IoResult::Kind::kError;
    if (result.kind != event::IoResult::Kind::kBytes) break;
    unheard.bytes += result.count;
  }
  return unheard;
}

}  // namespace fairlead::relay
