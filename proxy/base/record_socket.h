// Records that may bring a descriptor along, over a Unix socket of type SOCK_SEQPACKET. Nothing
// here ever blocks.
#pragma once

#include <cstddef>
#include <span>

#include "base/handle.h"
#include "base/result.h"

namespace fairlead {

// `fd` is sent along when it is not -1 and stays ours. Errors: kWouldBlock when the socket, or what
// the kernel lets us have in flight, is full; kPeerGone; others.
Result<void> send_record(int socket, std::span<const std::byte> record, int fd);

struct ReceivedRecord {
  std::size_t size_bytes = 0;
  std::size_t descriptors = 0;  // that came with it; all but the first are closed
  FileDescriptor fd;
};
// Errors: kWouldBlock, kPeerGone at the end, kExhausted when a descriptor was lost for want of room
// in our table, kMalformed for a record longer than `into`.
Result<ReceivedRecord> receive_record(int socket, std::span<std::byte> into);

}  // namespace fairlead
