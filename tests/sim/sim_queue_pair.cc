#include "sim/sim_queue_pair.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "sim/sim_device.h"

namespace fairlead::sim {

using rdma::CompletionStatus;

SimReceiveQueue::SimReceiveQueue(SimDevice& device, const SimDomain& domain,
                                 std::uint32_t requests_max, bool shared)
    : device_(device), domain_(domain.id()), requests_max_(requests_max), shared_(shared) {
  ++device_.fabric().counts_.receive_queues;
}

SimReceiveQueue::~SimReceiveQueue() {
  const Fabric::Access access(device_.fabric());
  --device_.fabric().counts_.receive_queues;
}

Result<void> SimReceiveQueue::post(std::span<const rdma::ReceiveRequest> requests) {
  const Fabric::Access access(device_.fabric());
  if (requests.size() > requests_max_ - requests_.size())
    return Error{Errc::kExhausted, "receive queue"};
  if (ended_) return {};
  requests_.insert(requests_.end(), requests.begin(), requests.end());
  std::vector<std::uint64_t> waiting;
  waiting.swap(waiting_);
  for (const std::uint64_t sender : waiting)
    if (SimQueuePair* again = device_.fabric().find(sender)) device_.fabric().start(*again);
  return {};
}

void SimReceiveQueue::end() {
  if (shared_) return;
  ended_ = true;
  requests_.clear();
}

Result<void> SimReceiveQueue::arm_limit(std::uint32_t count) {
  const Fabric::Access access(device_.fabric());
  limit_ = count;
  return {};
}

CompletionStatus SimReceiveQueue::receive(SimQueuePair& target,
                                          std::span<const std::byte> message) {
  const rdma::ReceiveRequest request = requests_.front();
  requests_.pop_front();
  if (requests_.size() < limit_) {
    limit_ = 0;
    device_.raise({.kind = rdma::AsyncEvent::Kind::kReceiveLimit});
  }
  rdma::Completion completion{
      .kind = rdma::Completion::Kind::kReceive, .id = request.id, .queue_pair = target.number()};
  if (message.size() > request.length_bytes) {
    completion.status = CompletionStatus::kLocalError;
  } else {
    std::memcpy(request.buffer->bytes().data() + request.offset, message.data(), message.size());
    completion.length_bytes = static_cast<std::uint32_t>(message.size());
  }
  device_.complete(completion, 0);
  return completion.status;
}

SimQueuePair::SimQueuePair(SimDevice& device, const rdma::QueuePairOptions& options,
                           QpNumber number, PacketSeq first_psn)
    : device_(device),
      id_(device.fabric().next_id_++),
      options_(options),
      number_(number),
      first_psn_(first_psn) {
  device_.fabric().queue_pairs_.emplace(id_, this);
  ++device_.fabric().counts_.queue_pairs;
}

SimQueuePair::~SimQueuePair() {
  Fabric& fabric = device_.fabric();
  const Fabric::Access access(fabric);
  receive_queue().end();
  if (fabric.events != nullptr) fabric.events->gone(id_);
  if (state_ == State::kReady) fabric.peer_died(peer_.gid, peer_.queue_pair, number_);
  fabric.queue_pairs_.erase(id_);
  --fabric.counts_.queue_pairs;
  device_.forget(*this);
}

Gid SimQueuePair::gid() const { return device_.ports()[options_.port.value - 1U].gid; }

bool SimQueuePair::port_active() const {
  return device_.ports()[options_.port.value - 1U].state == rdma::PortState::kActive;
}

bool SimQueuePair::faces(const SimQueuePair& other) const {
  return peer_.gid == other.gid() && peer_.queue_pair == other.number();
}

std::uint64_t SimQueuePair::domain() const {
  return static_cast<const SimDomain*>(options_.domain)->id();
}

SimReceiveQueue& SimQueuePair::receive_queue() const {
  return static_cast<SimReceiveQueue&>(*options_.receive_queue);
}

Result<void> SimQueuePair::connect(const rdma::PeerEndpoint& peer) {
  Fabric& fabric = device_.fabric();
  const Fabric::Access access(fabric);
  if (state_ != State::kUnconnected) return Error{Errc::kWrongState, "queue pair is connected"};
  if (!port_active()) return Error{Errc::kPeerGone, "own port is down"};
  if (!fabric.devices_.contains(peer.gid) ||
      fabric.pace_.chance(device_.faults.refuse_connect_per_mille))
    return Error{Errc::kPeerGone, "nobody answers for that GID"};
  peer_ = peer;
  state_ = State::kReady;
  if (fabric.events != nullptr) fabric.events->connect(*this);
  if (SimQueuePair* waiting = fabric.find(wake_when_connected)) fabric.start(*waiting);
  return {};
}

Result<void> SimQueuePair::post(std::span<const rdma::WorkRequest> requests) {
  const Fabric::Access access(device_.fabric());
  if (EventFile* events = device_.fabric().events)
    for (const rdma::WorkRequest& request : requests) events->post(*this, request);
  if (state_ != State::kReady) return Error{Errc::kWrongState, "queue pair is not connected"};
  for (const rdma::WorkRequest& request : requests)
    if (request.kind == rdma::WorkRequest::Kind::kSend &&
        (request.message.empty() || request.message.size() > rdma::kMessageBytesMax))
      return Error{Errc::kMalformed, "length of a message to send"};
  if (requests.size() > send_room()) return Error{Errc::kExhausted, "send queue"};
  for (const rdma::WorkRequest& request : requests) {
    if (device_.fabric().on_post) device_.fabric().on_post(*this, request);
    Sent sent{.kind = request.kind, .signaled = request.signaled, .id = request.id};
    if (request.kind == rdma::WorkRequest::Kind::kWrite) {
      const auto* buffer = static_cast<const SimBuffer*>(request.from.buffer);
      SMC_ASSERT(buffer != nullptr);
      sent.from = buffer->memory();
      sent.offset = request.from.offset;
      sent.length_bytes = request.from.length_bytes;
      sent.to = request.to;
    } else {
      sent.message.assign(request.message.begin(), request.message.end());
    }
    sent_.push_back(std::move(sent));
  }
  return {};
}

std::uint32_t SimQueuePair::send_room() const {
  const Fabric::Access access(device_.fabric());
  if (state_ != State::kReady) return 0;
  return options_.send_requests - static_cast<std::uint32_t>(sent_.size());
}

void SimQueuePair::acknowledged_one() {
  if (state_ != State::kReady) return;
  const Sent& request = sent_[acknowledged_ - first_];
  const std::uint64_t sequence = acknowledged_++;
  if (request.signaled)
    device_.complete(
        {.kind = rdma::Completion::Kind::kSend, .id = request.id, .queue_pair = number_}, sequence);
}

void SimQueuePair::completion_polled(std::uint64_t sequence) {
  while (!sent_.empty() && first_ <= sequence) {
    sent_.pop_front();
    ++first_;
  }
}

std::shared_ptr<Memory> SimQueuePair::find_remote(const SimQueuePair& target,
                                                  const rdma::RemoteSlice& slice,
                                                  std::size_t length_bytes) const {
  std::shared_ptr<Memory> memory = target.device_.registered(slice.rkey);
  if (memory == nullptr || !memory->granted || !memory->peer_may_write ||
      memory->domain != target.domain())
    return nullptr;
  const std::uint64_t offset = slice.address.value - memory->address.value;
  if (slice.address < memory->address || offset > memory->bytes.size() ||
      length_bytes > memory->bytes.size() - offset)
    return nullptr;
  return memory;
}

CompletionStatus SimQueuePair::execute_write(const Sent& request,
                                             const SimQueuePair& target) const {
  const Memory& from = *request.from;
  if (!from.granted || from.domain != domain() || request.offset > from.bytes.size() ||
      request.length_bytes > from.bytes.size() - request.offset)
    return CompletionStatus::kLocalError;
  const std::shared_ptr<Memory> to = find_remote(target, request.to, request.length_bytes);
  if (to == nullptr) return CompletionStatus::kRemoteAccessError;
  std::memcpy(to->bytes.data() + (request.to.address.value - to->address.value),
              from.bytes.data() + request.offset, request.length_bytes);
  return CompletionStatus::kSuccess;
}

Result<std::span<std::byte>> SimQueuePair::remote_memory(const rdma::RemoteSlice& slice,
                                                         std::size_t length_bytes) {
  Fabric& fabric = device_.fabric();
  const Fabric::Access access(fabric);
  if (!device_.capabilities().remote_memory_addressable)
    return Error{Errc::kUnsupported, "remote memory"};
  if (state_ != State::kReady) return Error{Errc::kWrongState, "queue pair is not connected"};
  const Fabric::Target target = fabric.target_of(*this);
  // The peer's memory is accessible once both queue pairs are connected.
  if (target.route != Fabric::Route::kOpen) return Error{Errc::kWouldBlock, "memory of the peer"};
  std::shared_ptr<Memory> memory = find_remote(*target.queue_pair, slice, length_bytes);
  if (memory == nullptr || !device_.can_map(slice.rkey))
    return Error{Errc::kNotFound, "remote key or range"};
  if (fabric.pace_.chance(device_.faults.refuse_remote_per_mille))
    return Error{Errc::kExhausted, "mapping of remote memory"};
  const std::uint64_t offset = slice.address.value - memory->address.value;
  const std::span<std::byte> view = memory->bytes.subspan(offset, length_bytes);
  if (std::find(views_.begin(), views_.end(), memory) == views_.end())
    views_.push_back(std::move(memory));
  return view;
}

// AddressSanitizer detects later writes there.
void SimQueuePair::release_remote_memory(RemoteKey key) {
  const Fabric::Access access(device_.fabric());
  std::erase_if(views_, [&](const auto& memory) { return memory->rkey == key; });
}

std::shared_ptr<Memory> SimQueuePair::memory_of(std::span<std::byte> view) const {
  const auto held = std::find_if(views_.begin(), views_.end(), [&](const auto& memory) {
    return view.data() >= memory->bytes.data() &&
           view.data() + view.size() <= memory->bytes.data() + memory->bytes.size();
  });
  return held == views_.end() ? nullptr : *held;
}

void SimQueuePair::fail() {
  const Fabric::Access access(device_.fabric());
  if (EventFile* events = device_.fabric().events) events->fail(id_);
  break_down(CompletionStatus::kFlushed, false);
}

void SimQueuePair::break_down(CompletionStatus first, bool report) {
  if (state_ == State::kError) return;
  const bool connected = state_ == State::kReady;
  state_ = State::kError;
  if (EventFile* events = device_.fabric().events) events->broken(id_);
  receive_queue().end();
  CompletionStatus status = first;
  for (std::uint64_t at = acknowledged_; at < first_ + sent_.size(); ++at) {
    // The failed request is the one that the peer or the device could not handle. Earlier requests
    // were received, but not acknowledged.
    const bool choked = first == CompletionStatus::kFlushed || at >= executed_;
    device_.complete({.kind = rdma::Completion::Kind::kSend,
                      .status = choked ? status : CompletionStatus::kFlushed,
                      .id = sent_[at - first_].id,
                      .queue_pair = number_},
                     at);
    if (choked) status = CompletionStatus::kFlushed;
  }
  acknowledged_ = executed_ = rung_ = first_ + sent_.size();
  if (report)
    device_.raise({.kind = rdma::AsyncEvent::Kind::kQueuePairFatal, .queue_pair = number_});
  if (connected) device_.fabric().peer_died(peer_.gid, peer_.queue_pair, number_);
}

}  // namespace fairlead::sim
