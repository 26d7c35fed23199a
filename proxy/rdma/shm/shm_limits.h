// Every limit of the shared-memory device in one place. A peer that reaches one costs its own
// channel; we ourselves get Errc::kExhausted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma/device.h"

namespace fairlead::rdma::shm {

inline constexpr unsigned kPortsMax = 4;
inline constexpr std::uint32_t kQueuePairsMax = 4096;  // 12 bits of a QpNumber
inline constexpr std::uint32_t kBuffersMax = 4096;     // 12 bits of a RemoteKey; one fd each
inline constexpr std::size_t kBufferBytesMax = std::size_t{1} << 30;
inline constexpr std::uint32_t kSendRequestsMax = 1024;      // per queue pair
inline constexpr std::uint32_t kReceiveRequestsMax = 32768;  // per shared receive queue

// Channels: one normally joins two devices, a second one when both dialled at the same moment.
inline constexpr std::size_t kChannelsMax = 1024;
inline constexpr std::size_t kChannelsPerPeerMax = 4;
inline constexpr std::size_t kStrangersMax = 16;  // accepted, but have not said who they are

// A message ring of one direction: 64 KiB, of which only pages in use cost memory.
inline constexpr std::size_t kSlotBytes = 64;
inline constexpr std::uint64_t kRingSlots = 1024;

// What one peer may make us remember.
inline constexpr std::size_t kRemoteBuffersMax = 4096;
inline constexpr std::size_t kRemoteBytesMax = std::size_t{64} << 30;  // address space, not memory
inline constexpr std::size_t kRemoteQueuePairsMax = 4096;
inline constexpr std::size_t kSinksMax = 4096;  // withdrawn while a view of them was handed out

inline constexpr std::size_t kControlQueueMax =
    8192;                                      // messages that the peer's socket did not take
inline constexpr int kControlBatch = 64;       // handled in one go, so that others get a turn
inline constexpr int kControlDrainMax = 1024;  // handled when an answer depends on it

inline constexpr std::uint32_t kFaultsMax = 16;  // remembered until poll_fault()
inline constexpr int kDoorbellPipeBytes = 4096;  // rings until the pipe is full and replaced
inline constexpr unsigned kIdleArmsMax = 64;  // arms without traffic until a channel is left asleep
inline constexpr std::size_t kSweptMax = 4096;  // directory entries looked at when a device opens

}  // namespace fairlead::rdma::shm
