// A peer that writes the shared-memory protocol by hand, to send messages that no device sends. It
// creates channels and grants itself, as a device of the same directory does. It never answers by
// itself.
#pragma once

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/linux/handle.h"
#include "base/linux/record_socket.h"
#include "broker/message.h"
#include "broker/shared_objects.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/channel/shm_bell.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/connect/shm_fabric.h"
#include "rdma/shm/memory/shm_segment.h"

namespace fairlead::rdma::shm {

class FakePeer {
 public:
  using Kind = ControlMessage::Kind;
  using Record = broker::Message;

  FakePeer(const FabricDirectory& directory, std::uint8_t number)
      : fabric_(std::move(Fabric::open(directory.path(), peer_id(number)).value())),
        self_(peer_id(number)) {}

  Gid gid() const { return gid_of(fabric_.id(), PortNumber(1), self_); }
  FabricId fabric() const { return fabric_.id(); }

  // Connects and sends nothing.
  void dial(PeerId device) { socket = std::move(fabric_.dial(device, closer_).value()); }
  Record channel_record() const {
    return {.kind = Record::Kind::kChannel,
            .side = 1,
            .layout = kChannelLayout,
            .peer = self_,
            .fabric = fabric_.id()};
  }
  // Opens a channel as a device would, under any name.
  void open_channel(PeerId device) { open_channel_as(device, self_); }
  void open_channel_as(PeerId device, PeerId name) {
    dial(device);
    auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    Record record = channel_record();
    record.peer = name;
    (void)broker::send(socket.get(), record, ends[1].descriptors());
    mapping = std::move(Mapping::map(ends[0].memory.get(), sizeof(ChannelMemory)).value());
    ring = std::move(ends[0].ring);
    watch = std::move(ends[0].watch);
    tail = control_tail = control_head = 0;
  }
  void close_channel() {
    ring.reset();
    watch.reset();
    mapping = Mapping();
  }
  ChannelMemory& memory() { return *reinterpret_cast<ChannelMemory*>(mapping.bytes().data()); }
  RingMemory& out() { return memory().rings[0]; }
  RingMemory& in() { return memory().rings[1]; }
  ControlRingMemory& control_out() { return memory().controls[0]; }
  ControlRingMemory& control_in() { return memory().controls[1]; }

  void ring_bell() const { (void)::shutdown(ring.get(), SHUT_RDWR); }

  // Puts a message into the control ring, whether there is room or not.
  void say(const ControlMessage& message) { say_raw(encode(message)); }
  void say_raw(const ControlBytes& bytes) {
    std::memcpy(static_cast<void*>(&control_out().slots[control_tail % kControlSlots]),
                bytes.data(), bytes.size());
    control_out().tail = ++control_tail;
    ring_bell();
  }
  // Gives the device memory of the test, of any kind.
  bool grant(std::uint64_t number, int fd) {
    return broker::send(socket.get(),
                        {.kind = Record::Kind::kGranted,
                         .peer = self_,
                         .fabric = fabric_.id(),
                         .buffer = buffer(number)},
                        std::span(&fd, 1))
        .has_value();
  }
  static BufferId buffer(std::uint64_t number) { return {0xfa4e, number}; }
  // Sends any bytes with any descriptors over the socket.
  bool send_raw(const std::vector<std::byte>& bytes, const std::vector<int>& fds) {
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
  // The next control message of the device.
  std::optional<ControlMessage> hear() {
    if (control_in().tail == control_head) return std::nullopt;
    ControlBytes bytes;
    std::memcpy(bytes.data(),
                static_cast<const void*>(&control_in().slots[control_head % kControlSlots]),
                bytes.size());
    control_in().head = ++control_head;
    return decode_control(bytes).value();
  }
  // True if the device has closed the channel.
  bool is_shut_out() const {
    int unread = 0;
    return ::ioctl(watch.get(), SIOCOUTQ, &unread) != 0 || unread == 0;
  }
  // The same, soon: a thread of the device closes.
  bool becomes_shut_out() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_shut_out() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return is_shut_out();
  }
  // True if the device has closed the connection of this peer.
  bool is_hung_up_on() const {
    pollfd state{socket.get(), POLLIN, 0};
    return ::poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0;
  }

  // Puts a message of one slot into the ring, unchanged.
  void put(QpNumber destination, QpNumber source, std::uint64_t length_word) {
    Slot& slot = out().slots[tail % kRingSlots];
    slot.words[0] = static_cast<std::uint64_t>(source.value) << 32 | destination.value;
    slot.words[1] = length_word;
    out().tail = ++tail;
    ring_bell();
  }

  FileDescriptor socket;  // to the device's connector
  ForeignDescriptor ring, watch;
  Mapping mapping;
  std::uint64_t tail = 0;
  std::uint64_t control_tail = 0, control_head = 0;

 private:
  DescriptorCloser closer_;
  Fabric fabric_;
  PeerId self_;
};

}  // namespace fairlead::rdma::shm
