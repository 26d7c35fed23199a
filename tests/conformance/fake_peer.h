// A peer that writes the shared-memory protocol by hand, to send messages that no device sends. It
// creates channels and grants itself. It never answers by itself.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "base/linux/handle.h"
#include "broker/shared_objects.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/channel/shm_bell.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/memory/shm_segment.h"
#include "rdma/shm/shm_gid.h"

namespace fairlead::rdma::shm {

class FakePeer {
 public:
  using Kind = ControlMessage::Kind;

  FakePeer(TestFabric& fabric, std::uint8_t number)
      : self_(peer_id(number)), seat_(fabric, self_) {}
  // With an open channel.
  FakePeer(TestFabric& fabric, std::uint8_t number, PeerId device) : FakePeer(fabric, number) {
    open_channel(device);
  }

  Gid gid() const { return gid_of(fabric_.id(), PortNumber(1), self_); }

  // Opens a channel as a device would, under any name.
  void open_channel(PeerId device) { open_channel_as(device, self_); }
  void open_channel_as(PeerId device, PeerId name) {
    auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    mapping = std::move(Mapping::map(ends[0].memory.get(), sizeof(ChannelMemory)).value());
    ring = std::move(ends[0].ring);
    watch = std::move(ends[0].watch);
    tail = control_tail = control_head = 0;
    give_end(device, name, std::move(ends[1]));
  }
  // Gives the device an end of a channel, of any descriptors.
  void give_end(PeerId device, PeerId name, broker::ChannelEnd end) {
    EXPECT_TRUE(fabric_.push(
        device,
        {.kind = ConnectorEvent::Kind::kChannel, .peer = name, .side = 1, .end = std::move(end)}));
    device_ = device;
  }
  void close_channel() {
    ring.reset();
    watch.reset();
    mapping = Mapping();
    (void)seat_.take();
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
    return fabric_.push(device_, {.kind = ConnectorEvent::Kind::kGranted,
                                  .peer = self_,
                                  .buffer = buffer(number),
                                  .memory = FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0))});
  }
  static BufferId buffer(std::uint64_t number) { return {0xfa4e, number}; }
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
  // Puts a message of one slot into the ring, unchanged.
  void put(QpNumber destination, QpNumber source, std::uint64_t length_word) {
    Slot& slot = out().slots[tail % kRingSlots];
    slot.words[0] = static_cast<std::uint64_t>(source.value) << 32 | destination.value;
    slot.words[1] = length_word;
    out().tail = ++tail;
    ring_bell();
  }

  ForeignDescriptor ring, watch;
  Mapping mapping;
  std::uint64_t tail = 0;
  std::uint64_t control_tail = 0, control_head = 0;

 private:
  PeerId self_;
  TestFabric::Seat seat_;
  TestFabric& fabric_ = seat_.fabric();
  PeerId device_;  // the last one that was given something
};

}  // namespace fairlead::rdma::shm
