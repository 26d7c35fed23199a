// A queue pair of the shared-memory device. What it sends goes into the ring of one channel, what
// it writes goes at once into the peer's mapped buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bounded_queue.h"
#include "rdma/device.h"
#include "rdma/shm/channel/shm_channel.h"
#include "rdma/shm/memory/shm_buffer.h"

namespace fairlead::rdma::shm {

class ShmReceiveQueue;

class ShmQueuePair final : public QueuePair {
 public:
  enum class State : std::uint8_t { kUnconnected, kReady, kError };

  ShmQueuePair(ShmDevice& device, const QueuePairOptions& options, PacketSeq first_psn);
  ~ShmQueuePair() override;
  ShmQueuePair(const ShmQueuePair&) = delete;
  ShmQueuePair& operator=(const ShmQueuePair&) = delete;

  QpNumber number() const override { return number_; }
  PacketSeq first_psn() const override { return first_psn_; }
  Result<void> connect(const PeerEndpoint& peer) override;
  Result<void> post(std::span<const WorkRequest> requests) override;
  std::uint32_t send_room() const override;
  Result<std::span<std::byte>> remote_memory(const RemoteSlice& slice,
                                             std::size_t length_bytes) override;
  void release_remote_memory(RemoteKey key) override;
  void fail() override { break_down(CompletionStatus::kFlushed, false); }

  // For the table of queue pairs, when it gives the number.
  void set_number(QpNumber number) { number_ = number; }
  State state() const { return state_; }
  PortNumber port() const { return options_.port; }
  ShmReceiveQueue& receive_queue() const;
  bool uses(const Channel& channel) const { return out_ == &channel || in_ == &channel; }

  // True if `source` of device `peer` is our other end, or may become it: we are not connected yet,
  // and wait for that peer.
  bool may_face(PeerId peer, QpNumber source) const;
  // True when messages of `source` that come in over `channel` are for us.
  bool faces(const Channel& channel, QpNumber source) const {
    return state_ == State::kReady && in_ == &channel && peer_number_ == source;
  }
  // True once the other end has said on which channel it will send. If it says so before connect(),
  // that holds until it says that it is gone, or until connect() names another queue pair.
  bool has_incoming() const { return in_ != nullptr; }
  // That channel; null before.
  Channel* incoming() const { return in_; }
  // Nothing when has_incoming(). `source` is in the table of that channel.
  void attach_incoming(Channel& channel, QpNumber source, DomainId remote_domain);
  // Not connected yet, and waits for what `source` said on that channel.
  bool expects(const Channel& channel, QpNumber source) const {
    return state_ == State::kUnconnected && in_ == &channel && announced_ == source;
  }
  bool expects_on(const Channel& channel) const {
    return state_ == State::kUnconnected && in_ == &channel;
  }
  void detach_incoming();
  // It is in error or destroyed; what it sent before is still delivered. What we sent counts as
  // arrived only if that was seen before.
  void note_peer_left(const Channel& channel) {
    if (left_on_ == nullptr) settled_ = out_->reaped_head();
    left_on_ = &channel;
  }
  bool peer_left() const { return left_on_ != nullptr; }
  bool peer_left_on(const Channel& channel) const { return left_on_ == &channel; }

  // Into the error state. `first`: status of the oldest request that did not get through, those
  // after it are flushed. `report`: raise kQueuePairFatal.
  void break_down(CompletionStatus first, bool report);

  // Makes completions of requests that are done, or of all in the error state. `more`: there was
  // not enough room for them.
  std::size_t reap(std::span<Completion> into, bool& more);

 private:
  struct Sent {
    WorkId id{};
    std::uint64_t position = 0;  // done when the channel's ring is consumed up to here
    bool signaled = false;
    CompletionStatus status = CompletionStatus::kSuccess;  // what has failed already
  };

  void check_control() const;
  void note_blocked() const;
  std::byte* target_of(const WorkRequest& request) const;
  CompletionStatus write(const WorkRequest& request);
  bool awaits_grant() const { return in_ != nullptr && in_->awaiting_grant().has_value(); }
  bool has_room(std::size_t requests, std::uint64_t slots);

  ShmDevice* device_;
  QueuePairOptions options_;
  QpNumber number_;
  PacketSeq first_psn_;
  State state_ = State::kUnconnected;
  PeerId peer_;
  QpNumber peer_number_;
  Channel* out_ = nullptr;  // we post there; both stay valid until we are destroyed
  Channel* in_ = nullptr;   // the peer posts there and announces its buffers there
  QpNumber announced_;      // its queue pair there
  DomainId remote_domain_;
  const Channel* left_on_ = nullptr;  // where the peer said so; in_ or out_
  BoundedQueue<Sent> sent_;
  std::uint32_t signaled_ = 0;  // in sent_
  std::uint64_t settled_ = 0;   // when broken or left alone: what was consumed until then
  CompletionStatus first_failure_ = CompletionStatus::kFlushed;
};

}  // namespace fairlead::rdma::shm
