// A queue pair and a receive queue of the simulated device. Verbs semantics: a request
// occupies the send queue until the completion of a signaled one at or behind it has been polled.
// Nothing leaves before the doorbell rings. A failure flushes everything not yet acknowledged, even
// if the peer has already received it.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "sim/fabric.h"

namespace fairlead::sim {

class SimDomain;
class SimBuffer;

class SimReceiveQueue final : public rdma::SharedReceiveQueue {
 public:
  SimReceiveQueue(SimDevice& device, const SimDomain& domain, std::uint32_t requests_max,
                  bool shared);
  ~SimReceiveQueue() override;

  Result<void> post(std::span<const rdma::ReceiveRequest> requests) override;
  Result<void> arm_limit(std::uint32_t count) override;

  std::uint64_t domain() const { return domain_; }
  bool empty() const { return requests_.empty(); }
  // Called by a queue pair; false if it exclusively serves another one.
  bool take() { return shared_ || !std::exchange(taken_, true); }
  // The queue pair that it exclusively serves is in error.
  void end();
  // The sender continues when a request is posted.
  void wait(std::uint64_t sender) { waiting_.push_back(sender); }
  // REQUIRES: !empty()
  rdma::CompletionStatus receive(SimQueuePair& target, std::span<const std::byte> message);

 private:
  SimDevice& device_;
  std::uint64_t domain_;
  std::uint32_t requests_max_;
  bool shared_;
  bool taken_ = false;
  bool ended_ = false;
  std::uint32_t limit_ = 0;
  std::deque<rdma::ReceiveRequest> requests_;
  std::vector<std::uint64_t> waiting_;
};

class SimQueuePair final : public rdma::QueuePair {
 public:
  enum class State : std::uint8_t { kUnconnected, kReady, kError };
  struct Sent {
    rdma::WorkRequest::Kind kind = rdma::WorkRequest::Kind::kSend;
    bool signaled = false;
    rdma::WorkId id{};
    std::shared_ptr<Memory> from;
    std::size_t offset = 0;
    std::size_t length_bytes = 0;
    rdma::RemoteSlice to;
    std::vector<std::byte> message;
  };

  SimQueuePair(SimDevice& device, const rdma::QueuePairOptions& options, QpNumber number,
               PacketSeq first_psn);
  ~SimQueuePair() override;

  QpNumber number() const override { return number_; }
  PacketSeq first_psn() const override { return first_psn_; }
  Result<void> connect(const rdma::PeerEndpoint& peer) override;
  Result<void> post(std::span<const rdma::WorkRequest> requests) override;
  std::uint32_t send_room() const override;
  Result<std::span<std::byte>> remote_memory(const rdma::RemoteSlice& slice,
                                             std::size_t length_bytes) override;
  void release_remote_memory(RemoteKey key) override;
  // The memory that a view is of, or null.
  std::shared_ptr<Memory> memory_of(std::span<std::byte> view) const;
  void fail() override;

  // For the fabric and the device.
  std::uint64_t id() const { return id_; }
  State state() const { return state_; }
  const rdma::PeerEndpoint& peer() const { return peer_; }
  PortNumber port() const { return options_.port; }
  Gid gid() const;
  bool port_active() const;
  bool faces(const SimQueuePair& other) const;
  std::uint64_t domain() const;
  SimReceiveQueue& receive_queue() const;
  SimDevice& device() const { return device_; }
  void ring() { rung_ = first_ + sent_.size(); }
  bool has_work() const { return state_ == State::kReady && executed_ < rung_; }
  std::uint64_t executed() const { return executed_; }
  const Sent& head() const { return sent_[executed_ - first_]; }
  void executed_one() { ++executed_; }
  void acknowledged_one();
  void completion_polled(std::uint64_t sequence);
  rdma::CompletionStatus execute_write(const Sent& request, const SimQueuePair& target) const;
  // `first` is the status of the oldest request that was not acknowledged; the rest is flushed.
  void break_down(rdma::CompletionStatus first, bool report);

  bool moving = false;  // the fabric has a packet of this side on its way
  std::uint64_t wake_when_connected = 0;

 private:
  std::shared_ptr<Memory> find_remote(const SimQueuePair& target, const rdma::RemoteSlice& slice,
                                      std::size_t length_bytes) const;

  SimDevice& device_;
  const std::uint64_t id_;
  rdma::QueuePairOptions options_;
  QpNumber number_;
  PacketSeq first_psn_;
  State state_ = State::kUnconnected;
  rdma::PeerEndpoint peer_;
  // Sequences of requests: first_ <= acknowledged_ <= executed_ <= rung_ <= first_ + sent_.size().
  std::deque<Sent> sent_;
  std::uint64_t first_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t rung_ = 0;
  std::vector<std::shared_ptr<Memory>> views_;
};

}  // namespace fairlead::sim
