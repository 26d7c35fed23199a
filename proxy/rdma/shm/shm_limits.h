// Every limit of the shared-memory device in one place. A peer that reaches one costs its own
// channel; we ourselves get Errc::kExhausted.
#pragma once

#include <chrono>
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

// Channels: one normally joins two devices, a second one when both asked at the same moment.
inline constexpr std::size_t kChannelsMax = 1024;
inline constexpr std::size_t kChannelsPerPeerMax = 4;
inline constexpr std::size_t kChannelsPerPodMax = 256;
// Those that no queue pair uses. Each may have made us touch kIdleChannelBytes, which memory.limit
// does not count: the heads of four rings, our sleep word, a control ring full of answers, and
// beside the ring the answers that wait for room and the queue pairs that have departed.
inline constexpr std::size_t kIdleChannelsMax = 64;
inline constexpr std::size_t kIdleChannelsPerPodMax = 32;
inline constexpr std::size_t kIdleChannelBytes = std::size_t{52} << 10;

// How long to wait for a channel after the broker was asked for it. After that its peer is left
// alone for kAnswerPause, which doubles with each time up to kAnswerPauseMax.
inline constexpr std::chrono::seconds kAnswerWaitMax{2};
inline constexpr std::chrono::seconds kAnswerPause{1};
inline constexpr std::chrono::seconds kAnswerPauseMax{32};
inline constexpr std::size_t kUnansweredMax = 1024;  // peers that are left alone

// What a ring may take of a processor, beyond which its pod owes the time. It pays back with one
// part in kRingDebtShare of the time that passes.
inline constexpr std::chrono::microseconds kRingTimeFree{250};
inline constexpr std::chrono::milliseconds kRingDebtMax{50};
inline constexpr int kRingDebtShare = 50;
inline constexpr std::size_t kRingDebtorsMax = 4096;

// A message ring of one direction: 64 KiB, of which only pages in use cost memory.
inline constexpr std::size_t kSlotBytes = 64;
inline constexpr std::uint64_t kRingSlots = 1024;
inline constexpr std::uint64_t kControlSlots = 256;  // of a control ring
inline constexpr std::uint8_t kChannelLayout = 2;    // version of what is in a channel's memory

// What one peer may make us remember, on one channel.
inline constexpr std::size_t kRemoteBuffersMax = 2048;
inline constexpr std::size_t kRemoteBytesMax = std::size_t{64} << 30;  // address space, not memory
inline constexpr std::size_t kRemoteQueuePairsMax = 4096;
// Of these, queue pairs whose local partner no longer exists.
inline constexpr std::size_t kDepartedQueuePairsMax = 64;
inline constexpr std::size_t kSinksMax = 4096;  // withdrawn while somebody holds a view of them

// Mappings of buffers of all peers, announced or not. A process may have 65,530 (vm.max_map_count),
// and without room malloc(3) fails, too.
inline constexpr std::size_t kMappingsPerDeviceMax = 16384;
inline constexpr std::size_t kMappingsPerProcessMax = 32768;
inline constexpr std::size_t kMappedBytesPerDeviceMax = std::size_t{1} << 40;
inline constexpr std::size_t kMappingsPerPodMax = kMappingsPerDeviceMax / 8;
inline constexpr std::size_t kMappedBytesPerPodMax = kMappedBytesPerDeviceMax / 8;
inline constexpr std::size_t kUnmapsWaitingMax = 1024;    // for the thread that unmaps, of a device
inline constexpr std::size_t kUnclaimedGrantsMax = 4096;  // granted, and not announced yet

inline constexpr std::size_t kControlQueueMax = 8192;  // messages that the ring did not take
// Of these, answers: beside them two for each queue pair that is connected over the channel.
inline constexpr std::size_t kAnswersWaitingMax = 64;
// Control messages of all channels that one poll() handles. Each channel with some has an equal
// part, but not more than kControlBatch and not less than kControlBatchMin. A channel that gets
// none is the first in the next poll().
inline constexpr int kControlPerPollMax = 512;
inline constexpr int kControlBatch = 64;
inline constexpr int kControlBatchMin = 8;
inline constexpr int kControlDrainMax = kControlSlots;  // handled when an answer depends on it
inline constexpr int kArrivalsBatch = 64;               // events of the connector taken in one go

// How long control messages wait: for the memory of an announced buffer, after which the buffer is
// not usable; and for room in the ring, after which the channel is given up.
inline constexpr std::chrono::seconds kGrantWaitMax{2};
// A grant can be lost on its way, by the broker or by a peer without descriptors. While the peer
// does not take the announcement, its buffer is granted again after this time, until it has waited
// for so long.
inline constexpr std::chrono::milliseconds kGrantAgainAfter{200};
inline constexpr std::chrono::seconds kGrantAgainMax{3};
inline constexpr std::chrono::seconds kControlStallMax{10};
inline constexpr std::chrono::milliseconds kWaitCheckInterval{100};

// Buffers of our own: how long to wait for an empty stock to be refilled, and for how long after
// that not to wait again.
inline constexpr std::chrono::milliseconds kStockWaitMax{10};
inline constexpr std::chrono::seconds kStockWaitPause{1};
// Freed buffers of a device whose pages are still to be given back to the system. If one takes
// longer than kDiscardWaitMax, those behind it are freed without giving their pages back.
inline constexpr std::size_t kDiscardsWaitingMax = 1024;
inline constexpr std::chrono::seconds kDiscardWaitMax{1};
// Views whose pages are on their way back to the system; each is a mapping beside the limits above.
inline constexpr std::size_t kPageReturnsMax = 1024;
inline constexpr std::chrono::seconds kAcceptRetry{1};  // after a listener could not be emptied
inline constexpr std::size_t kStockMax = 64;  // blanks that are kept; the broker sends fewer
inline constexpr std::size_t kConnectorEventsMax = 1024;  // read and not handled
inline constexpr std::size_t kRequestsWaitingMax = 8192;  // requests that the ring did not take

inline constexpr std::uint32_t kFaultsMax = 64;  // remembered until poll_fault()
inline constexpr unsigned kIdleArmsMax = 64;  // arms without traffic until a channel is left asleep

}  // namespace fairlead::rdma::shm
