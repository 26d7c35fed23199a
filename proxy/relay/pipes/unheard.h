// What a reader sends to an application that is gone, while the reader must still read what that
// application sent before its FIN.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "event/stream.h"

namespace fairlead::relay {

// Bytes dropped per turn; then other connections have their turn.
inline constexpr std::size_t kUnheardTurnBytesMax = 512 * 1024;

struct Unheard {
  std::uint64_t bytes = 0;
  bool more = false;     // to drop in the next turn
  bool refused = false;  // the reader was reset
};

// Reads and drops what is available.
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
