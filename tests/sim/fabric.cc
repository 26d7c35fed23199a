#include "sim/fabric.h"

#include <sys/mman.h>

#include "sim/sim_device.h"
#include "sim/sim_queue_pair.h"

namespace fairlead::sim {

using rdma::CompletionStatus;

Memory::Memory(std::size_t size_bytes) {
  // Fresh pages: most of a slab is never touched in a run.
  void* at =
      ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) bytes = {static_cast<std::byte*>(at), size_bytes};
}

Memory::Memory(std::shared_ptr<Memory> other) : bytes(other->bytes), owner_(std::move(other)) {}

Memory::~Memory() {
  if (owner_ == nullptr && !bytes.empty()) (void)::munmap(bytes.data(), bytes.size());
}

bool Fabric::knows(const Gid& gid) const {
  const std::lock_guard lock(mutex_);
  return devices_.contains(gid);
}

const SimQueuePair* Fabric::opposite(const SimQueuePair& queue_pair) const {
  const std::lock_guard lock(mutex_);
  const Target target = target_of(queue_pair);
  return target.route == Route::kOpen ? target.queue_pair : nullptr;
}

SimQueuePair* Fabric::find(std::uint64_t id) const {
  const auto found = queue_pairs_.find(id);
  return found == queue_pairs_.end() ? nullptr : found->second;
}

Fabric::Target Fabric::target_of(const SimQueuePair& sender) const {
  const auto device = devices_.find(sender.peer().gid);
  if (device == devices_.end()) return {};
  SimQueuePair* target = device->second->find(sender.peer().queue_pair);
  if (target == nullptr || target->gid() != sender.peer().gid) return {};
  if (!sender.port_active() || !target->port_active()) return {};
  if (target->state() == SimQueuePair::State::kUnconnected) return {Route::kNotYet, target};
  if (target->state() != SimQueuePair::State::kReady || !target->faces(sender)) return {};
  return {Route::kOpen, target};
}

void Fabric::start(SimQueuePair& sender) {
  if (sender.moving || !sender.has_work()) return;
  sender.moving = true;
  pace_.soon([this, id = sender.id()] {
    if (SimQueuePair* again = find(id)) {
      again->moving = false;
      move(id);
    }
  });
}

void Fabric::move(std::uint64_t id) {
  SimQueuePair* sender = find(id);
  if (sender == nullptr || sender->moving || !sender->has_work()) return;
  const Target target = target_of(*sender);
  switch (target.route) {
    case Route::kGone:
      if (pace_.announced()) return sender->break_down(CompletionStatus::kRetryExceeded, true);
      return wait_for_retries(*sender);
    case Route::kNotYet:
      target.queue_pair->wake_when_connected = id;
      return wait_for_retries(*sender);
    case Route::kOpen:
      break;
  }
  if (deliver(*sender, *target.queue_pair)) start(*sender);
}

void Fabric::wait_for_retries(SimQueuePair& sender) {
  pace_.after_retries([this, id = sender.id(), head = sender.executed()] {
    SimQueuePair* again = find(id);
    if (again == nullptr || again->executed() != head || !again->has_work()) return;
    if (target_of(*again).route == Route::kOpen) return start(*again);
    again->break_down(CompletionStatus::kRetryExceeded, true);
  });
}

// False if the sender has to wait, or has failed.
bool Fabric::deliver(SimQueuePair& sender, SimQueuePair& target) {
  const SimQueuePair::Sent& request = sender.head();
  CompletionStatus status = CompletionStatus::kSuccess;
  if (request.kind == rdma::WorkRequest::Kind::kWrite) {
    status = sender.execute_write(request, target);
    if (status == CompletionStatus::kLocalError) {
      sender.break_down(status, true);
      return false;
    }
  } else {
    SimReceiveQueue& queue = target.receive_queue();
    if (queue.empty()) {
      queue.wait(sender.id());
      return false;
    }
    std::vector<std::byte> message = request.message;
    if (alter) alter(sender, message);
    status = queue.receive(target, message);
    if (status == CompletionStatus::kSuccess && on_message) on_message(sender, message);
    if (status == CompletionStatus::kSuccess && events != nullptr)
      events->deliver(sender.id(), target.id());
  }
  if (status != CompletionStatus::kSuccess) {
    target.break_down(CompletionStatus::kFlushed, true);
    sender.break_down(CompletionStatus::kRemoteAccessError, true);
    return false;
  }
  sender.executed_one();
  pace_.soon([this, id = sender.id()] {
    if (SimQueuePair* again = find(id)) again->acknowledged_one();
  });
  return true;
}

void Fabric::peer_died(const Gid& gid, QpNumber peer, QpNumber dead) {
  if (!pace_.announced()) return;
  pace_.soon([this, gid, peer, dead] {
    const auto device = devices_.find(gid);
    if (device == devices_.end()) return;
    SimQueuePair* left = device->second->find(peer);
    if (left != nullptr && left->state() == SimQueuePair::State::kReady &&
        left->peer().queue_pair == dead)
      left->break_down(CompletionStatus::kFlushed, true);
  });
}

}  // namespace fairlead::sim
