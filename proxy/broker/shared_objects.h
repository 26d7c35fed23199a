// The objects that two devices share: memory and bells. The broker of the node makes them, whom
// both trust.
#pragma once

#include <array>
#include <cstddef>

#include "base/linux/descriptor_closer.h"
#include "base/linux/handle.h"
#include "base/result.h"

namespace fairlead::broker {

inline constexpr std::size_t kChannelBytesMax = std::size_t{1} << 20;

// A new zeroed memfd of that size, sealed against shrinking, growing and further sealing.
// Errors: kExhausted for descriptors and memory.
Result<FileDescriptor> make_memory(const char* name, std::size_t size_bytes);

// A memfd of size 0, sealed against shrinking: its owner sets the size, and then seals it against
// growing and further sealing. The maker cannot do that once another process has the descriptor:
// setting a size or a seal takes the lock of the inode, which that process can hold indefinitely.
Result<FileDescriptor> make_blank();

// Two connected sockets on which nothing can be sent. shutdown(ring, SHUT_RDWR) wakes an
// edge-triggered epoll at `watch`. The byte that lies unread in `ring` makes SIOCOUTQ at `watch`
// tell whether `ring` is still open somewhere.
struct Bell {
  FileDescriptor ring;
  FileDescriptor watch;
};
Result<Bell> make_bell();

// What one side of a channel gets: the bell that it rings and the bell that it hears.
struct ChannelEnd {
  ForeignDescriptor memory;
  ForeignDescriptor ring;
  ForeignDescriptor watch;
  std::array<int, 3> descriptors() const { return {memory.get(), ring.get(), watch.get()}; }
};
// Index 0 is for the side that asked. Errors: kMalformed for a size of 0 or above kChannelBytesMax,
// kExhausted, others.
Result<std::array<ChannelEnd, 2>> make_channel(std::size_t size_bytes);

}  // namespace fairlead::broker
