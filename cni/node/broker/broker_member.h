// A device at the node's broker: its connection, the ring of its requests, its buffers, and records
// for which its socket has no room yet.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/linux/handle.h"
#include "base/result.h"
#include "broker/message.h"
#include "broker/request_ring.h"
#include "broker/shared_objects.h"
#include "cni/node/broker/broker_unread.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kOutboxMax = 1024;  // records that wait for one device
inline constexpr std::size_t kBlanksPerDevice = 16;
inline constexpr std::size_t kBuffersPerDeviceMax = 1024;

class BrokerMember {
 public:
  struct Buffer {
    FileDescriptor memory;
    bool blank = true;
  };
  // Creates the request ring and sends it to the device. `unread` outlives the member and takes
  // over its socket at the end. Errors: those of the creation, kWouldBlock.
  static Result<std::unique_ptr<BrokerMember>> create(FileDescriptor socket, std::string pod,
                                                      BrokerUnread& unread, unsigned index,
                                                      std::uint64_t instance);
  ~BrokerMember() { unread_.end(pod_, std::move(socket_)); }

  unsigned index() const { return index_; }             // of the device in its pod
  std::uint64_t instance() const { return instance_; }  // of all buffers of this connection
  broker::RequestReader& requests() { return *requests_; }

  // Sends a record, or keeps it until there is room and the pod has read others. Errors: kExhausted
  // at kOutboxMax; kPeerGone and others if the device is lost.
  Result<void> send(const broker::Message& message, std::span<const int> fds = {});
  // Sends waiting records, as far as possible. Errors: those for a lost device.
  Result<void> flush();
  bool has_waiting() const { return !outbox_.empty(); }
  std::size_t waiting() const { return outbox_.size(); }
  std::size_t waiting_descriptors() const { return waiting_descriptors_; }

  // Descriptors of its buffers and of waiting records, before its destruction.
  std::vector<FileDescriptor> take_descriptors();

  // Keyed with the buffer's number.
  std::unordered_map<std::uint64_t, Buffer> buffers;
  std::size_t blanks = 0;
  std::uint8_t layout = 0;
  std::uint32_t channel_bytes = 0;
  bool watched_for_room = false;  // the state in the broker's epoll

 private:
  struct Waiting {
    broker::Message message;
    std::vector<FileDescriptor> fds;
  };
  BrokerMember(FileDescriptor socket, std::string pod, BrokerUnread& unread, unsigned index,
               std::uint64_t instance)
      : socket_(std::move(socket)),
        pod_(std::move(pod)),
        unread_(unread),
        index_(index),
        instance_(instance) {}
  // kWouldBlock: the record must wait.
  Result<void> send_now(const broker::Message& message, std::span<const int> fds);

  FileDescriptor socket_;
  std::string pod_;
  BrokerUnread& unread_;
  unsigned index_;
  std::uint64_t instance_;
  broker::RequestRingMapping ring_;
  std::unique_ptr<broker::RequestReader> requests_;
  std::deque<Waiting> outbox_;
  std::size_t waiting_descriptors_ = 0;
};

}  // namespace fairlead::cni::node
