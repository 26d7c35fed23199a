// A peer that speaks the control protocol of the shared-memory fabric by hand, to say what no
// device would say. Its channels are those it dials; it never answers by itself.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/handle.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_channel.h"
#include "rdma/shm/shm_control.h"
#include "rdma/shm/shm_fabric.h"
#include "rdma/shm/shm_segment.h"

namespace fairlead::rdma::shm {

class FakePeer {
 public:
  using Kind = ControlMessage::Kind;

  FakePeer(const FabricDirectory& directory, std::uint8_t number)
      : fabric_(std::move(Fabric::open(directory.path(), peer_id(number)).value())),
        self_(peer_id(number)) {}

  Gid gid() const { return gid_of(fabric_.id(), PortNumber(1), self_); }
  FabricId fabric() const { return fabric_.id(); }

  // Connects without a word.
  void dial(PeerId device) { socket = std::move(fabric_.dial(device).value()); }
  // Opens a channel as a device would.
  void open_channel(PeerId device) {
    dial(device);
    segment = std::move(create_segment("fake", sizeof(ChannelMemory)).value());
    say({.kind = Kind::kHello, .peer = self_, .fabric = fabric_.id()}, segment.fd.get());
  }
  ChannelMemory& memory() {
    return *reinterpret_cast<ChannelMemory*>(segment.mapping.bytes().data());
  }
  RingMemory& out() { return memory().rings[0]; }
  RingMemory& in() { return memory().rings[1]; }

  bool say(const ControlMessage& message, int fd = -1) {
    const bool sent = send_control(socket.get(), message, fd).has_value();
    if (segment.fd && message.kind != Kind::kHello) out().control_sent.fetch_add(1);
    return sent;
  }
  // Any bytes with any descriptors.
  bool say_raw(const std::vector<std::byte>& bytes, const std::vector<int>& fds) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    std::vector<std::uint64_t> ancillary(CMSG_SPACE(fds.size() * sizeof(int)) / 8 + 1);
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
      header.msg_control = ancillary.data();
      header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
    }
    return ::sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  }
  std::optional<ReceivedControl> hear() {
    auto received = receive_control(socket.get());
    if (!received) return std::nullopt;
    return std::move(*received);
  }
  // True when the device has hung up on us.
  bool is_shut_out() {
    for (;;) {
      auto received = receive_control(socket.get());
      if (!received) return received.error().code == Errc::kPeerGone;
    }
  }

  // Puts a message of one slot into the ring, as it stands there.
  void put(QpNumber destination, QpNumber source, std::uint64_t length_word) {
    Slot& slot = out().slots[tail % kRingSlots];
    slot.words[0] = static_cast<std::uint64_t>(source.value) << 32 | destination.value;
    slot.words[1] = length_word;
    out().tail = ++tail;
  }

  FileDescriptor socket;
  Segment segment;
  std::uint64_t tail = 0;

 private:
  Fabric fabric_;
  PeerId self_;
};

}  // namespace fairlead::rdma::shm
