// Records that may bring descriptors along, over a Unix socket of type SOCK_SEQPACKET. Nothing
// here ever blocks, where the caller's closer does not.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/linux/descriptor_closer.h"
#include "base/result.h"

namespace fairlead {

inline constexpr std::size_t kRecordDescriptorsMax = 4;

// `fds`, kRecordDescriptorsMax at most, are sent along and stay ours. Errors: kWouldBlock when the
// socket, or what the kernel lets us have in flight, is full; kPeerGone; others.
Result<void> send_record(int socket, std::span<const std::byte> record, std::span<const int> fds);

struct ReceivedRecord {
  std::size_t size_bytes = 0;
  std::size_t descriptors = 0;  // that came with it; those beyond kRecordDescriptorsMax are closed
  std::array<ForeignDescriptor, kRecordDescriptorsMax> fds;
};
// Also for bytes of a stream, which has no records. `closer` closes the descriptors, also those of
// a record that is refused. But the kernel closes here what finds no room in our table, and that
// may block. Errors: kWouldBlock, kPeerGone at the end, kExhausted when a descriptor was lost for
// want of room in our table, kMalformed for a record longer than `into`.
Result<ReceivedRecord> receive_record(int socket, std::span<std::byte> into,
                                      DescriptorCloser& closer);

// From now on only about six records of this end are on their way: send_record() then would block
// until the peer has read. So few descriptors are in flight, for which the kernel limits our user.
void keep_few_in_flight(int socket) noexcept;

// Nobody can send descriptors to this Unix socket, or to those that it accepts. To be called before
// it is connected or listens. Does nothing before Linux 6.16.
void refuse_descriptors(int socket) noexcept;

}  // namespace fairlead
