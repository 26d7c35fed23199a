// What two devices tell each other besides messages: fixed records of 64 bytes on the channel's
// SOCK_SEQPACKET socket, some with one descriptor. docs/shm.md says who sends which when.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/handle.h"
#include "base/ids.h"
#include "base/result.h"
#include "rdma/shm/shm_fabric.h"

namespace fairlead::rdma::shm {

using DomainId = StrongId<struct DomainIdTag, std::uint32_t>;

struct ControlMessage {
  enum class Kind : std::uint8_t {
    kHello = 1,       // opens a channel: peer, fabric; descriptor: channel memory
    kDoorbell,        // descriptor: read end of the pipe that the sender rings from now on
    kWake,            // a ring for want of a doorbell
    kQueuePairReady,  // source may send to destination; its buffers are those of domain
    kQueuePairGone,   // source is in error or destroyed, or never was
    kAnnounce,        // rkey, address, size, domain of a buffer; descriptor: its memory
    kWithdraw,        // rkey is no longer valid
  };
  Kind kind = Kind::kWake;
  QpNumber source, destination;
  PortNumber source_port, destination_port;
  DomainId domain;
  RemoteKey rkey;
  RemoteAddress address;
  std::uint64_t size_bytes = 0;
  PeerId peer;
  FabricId fabric;

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

inline constexpr std::size_t kControlBytes = 64;
using ControlBytes = std::array<std::byte, kControlBytes>;

constexpr bool carries_descriptor(ControlMessage::Kind kind) {
  return kind == ControlMessage::Kind::kHello || kind == ControlMessage::Kind::kDoorbell ||
         kind == ControlMessage::Kind::kAnnounce;
}

ControlBytes encode(const ControlMessage& message);
// Errors: kTruncated, kMalformed (length, magic, kind), kUnsupported (another version of the
// layout).
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

// `fd` is sent along when it is not -1 and stays ours. Errors: kWouldBlock when the socket, or what
// the kernel lets us have in flight, is full; kPeerGone; others.
Result<void> send_control(int socket, const ControlMessage& message, int fd);

struct ReceivedControl {
  ControlMessage message;
  FileDescriptor fd;  // there exactly if carries_descriptor(message.kind)
};
// Never blocks. Errors: kWouldBlock, kPeerGone at the end, kExhausted when a descriptor was lost
// for want of room in our table, kMalformed and kUnsupported for what we cannot read.
Result<ReceivedControl> receive_control(int socket);

}  // namespace fairlead::rdma::shm
