// A device at the node's broker: its connection, the ring of its requests, its buffers, and records
// for which its socket has no room yet.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/linux/handle.h"
#include "base/result.h"
#include "broker/message.h"
#include "broker/request_ring.h"
#include "broker/shared_objects.h"
#include "cni/node/broker/broker_pod.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kOutboxMax = 1024;  // records that wait for one device
inline constexpr std::size_t kBlanksPerDevice = 16;
inline constexpr std::size_t kBuffersPerDeviceMax = 1024;

// What both devices of a channel must have in common.
struct ChannelForm {
  std::uint8_t layout = 0;
  std::uint32_t bytes = 0;
  friend bool operator==(const ChannelForm&, const ChannelForm&) = default;
};

class BrokerMember {
 public:
  // Creates the request ring and sends it to the device. `pod` outlives the member, counts what
  // waits here, and gets the socket at the end. `instance`: of all buffers of this connection.
  // Errors: those of the creation, kWouldBlock.
  static Result<std::unique_ptr<BrokerMember>> create(FileDescriptor socket, BrokerPod& pod,
                                                      unsigned index, std::uint64_t instance);
  ~BrokerMember() { pod_.unread().end(std::move(socket_)); }

  unsigned index() const { return index_; }  // of the device in its pod
  broker::RequestReader& requests() { return *requests_; }
  const ChannelForm& channel_form() const { return channel_form_; }
  void set_channel_form(const ChannelForm& form) { channel_form_ = form; }

  // Sends a record, or keeps it until there is room and its pod has read. kExhausted at kOutboxMax,
  // kPeerGone and others when the device is lost.
  Result<void> send(const broker::Message& message, std::span<const int> fds = {});
  // Sends waiting records, as far as possible. Errors: those for a lost device.
  Result<void> flush();
  bool has_waiting() const { return !outbox_.empty(); }
  std::size_t waiting() const { return outbox_.size(); }
  // True if records wait because this device, or its pod, has not read others.
  bool wants_room() const;
  // If the broker's epoll watches for room, which its owner sets.
  bool watched_for_room() const { return watched_for_room_; }
  void set_watched_for_room(bool watched) { watched_for_room_ = watched; }

  // Its buffers. Blank ones are its stock, from which it takes.
  bool wants_blank() const { return blanks_ < kBlanksPerDevice && outbox_.empty(); }
  bool may_have_buffer() const;
  broker::BufferId add_blank(std::uint64_t number, FileDescriptor memory);
  // The descriptor remains the member's; nothing if the buffer is not one of this connection.
  std::optional<int> memory_of(const broker::BufferId& buffer) const;
  // False if it is no blank of this connection.
  bool take(const broker::BufferId& buffer);
  // Its memory; none if it is no buffer of this connection.
  FileDescriptor remove(const broker::BufferId& buffer);

  // Before its destruction: descriptors of its buffers and of waiting records, which the pod's
  // share does not count any more.
  std::vector<FileDescriptor> take_descriptors();

 private:
  struct Buffer {
    FileDescriptor memory;
    bool blank = true;
  };
  struct Waiting {
    broker::Message message;
    std::vector<FileDescriptor> fds;
  };
  BrokerMember(FileDescriptor socket, BrokerPod& pod, unsigned index, std::uint64_t instance)
      : socket_(std::move(socket)), pod_(pod), index_(index), instance_(instance) {}
  // kWouldBlock: it has to wait.
  Result<void> send_now(const broker::Message& message, std::span<const int> fds);

  FileDescriptor socket_;
  BrokerPod& pod_;
  unsigned index_;
  std::uint64_t instance_;
  broker::RequestRingMapping ring_;
  std::unique_ptr<broker::RequestReader> requests_;
  std::deque<Waiting> outbox_;
  std::unordered_map<std::uint64_t, Buffer> buffers_;  // by number
  std::size_t blanks_ = 0;
  ChannelForm channel_form_;
  bool watched_for_room_ = false;
};

}  // namespace fairlead::cni::node
