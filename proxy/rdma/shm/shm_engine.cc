#include "rdma/shm/shm_engine.h"

#include <chrono>

#include "base/assert.h"
#include "rdma/shm/queue/shm_queue_pair.h"
#include "rdma/shm/queue/shm_receive_queue.h"

namespace fairlead::rdma::shm {

void ShmEngine::set_port_state(PortNumber port, PortState state) {
  if (!parts_.ports.set_state(port, state)) return;
  parts_.events.port_changed(port, state);
  if (state == PortState::kActive) return;
  parts_.queue_pairs.for_each([&](ShmQueuePair& queue_pair) {
    if (queue_pair.port() == port && queue_pair.state() == ShmQueuePair::State::kReady)
      queue_pair.break_down(CompletionStatus::kRetryExceeded, true);
  });
}

Result<void> ShmEngine::add(ShmQueuePair& queue_pair) {
  queue_pair.set_number(SMC_TRY(parts_.queue_pairs.add(queue_pair)));
  return {};
}

void ShmEngine::remove(ShmQueuePair& queue_pair) {
  messages_.forget(queue_pair);
  parts_.events.forget(queue_pair.number());
  parts_.queue_pairs.remove(queue_pair.number());
}

void ShmEngine::queue_pair_broken(ShmQueuePair& queue_pair, bool report, bool has_requests) {
  parts_.resume(queue_pair);
  if (has_requests) messages_.flush_later(queue_pair);
  if (report) parts_.events.queue_pair_fatal(queue_pair.number());
}

void ShmEngine::receive_queue_refilled(const ShmReceiveQueue& queue) {
  parts_.scheduler.resume(
      [&](const ShmQueuePair& stalled_on) { return &stalled_on.receive_queue() == &queue; });
}

Result<Channel*> ShmEngine::channel_to(PeerId peer) {
  control_.drain(peer);
  Channel* channel = parts_.channels.find_open(peer);
  if (channel == nullptr) {
    channel = SMC_TRY(parts_.channels.request(peer, std::chrono::steady_clock::now()));
    control_.take_arrivals();  // a directory has it at once
    if (channel->awaits_memory()) parts_.timer.start();
  }
  return channel;
}

void ShmEngine::release(Channel& channel, QpNumber queue_pair) {
  SMC_ASSERT(channel.demand.users != 0);
  channel.remote.forget_views(queue_pair);
  if (--channel.demand.users != 0) return;
  // A channel without an answer stays, and the next queue pair that needs one waits for the same
  // answer. A second request would give the peer a channel that nobody uses.
  channel.demand.abandoned = channel.awaits_memory();
  parts_.channels.note_unused(channel);
}

void ShmEngine::discard_buffer(Mapping memory, const BufferId& buffer) {
  discards_.add(std::move(memory), buffer);
  parts_.timer.start();
}

void ShmEngine::free_discarded() {
  if (!discards_.any()) return;
  for (const BufferId& buffer : discards_.take_done(std::chrono::steady_clock::now()))
    parts_.channels.connector().free_buffer(buffer);
}

void ShmEngine::announce(Channel& channel, const ControlMessage& announcement) {
  // Without the memory the peer could not map the buffer. So the key stays unknown to it, and it
  // refuses the RMB.
  if (!parts_.channels.connector().grant(announcement.buffer, channel.peer())) return;
  parts_.send(channel, announcement);
  parts_.timer.start();  // for grants that are lost
}

bool ShmEngine::pending() const noexcept {
  return messages_.pending() || !parts_.events.empty() ||
         parts_.channels.connector().has_events() || parts_.scheduler.has_work();
}

bool ShmEngine::arm() {
  ring_doorbells();
  return !pending() && parts_.scheduler.fall_asleep(parts_.channels.connector().backlog());
}

void ShmEngine::ring_doorbells() {
  std::vector<Channel*> slow;
  parts_.scheduler.check_bells([&](Channel& channel) {
    channel.flush_control();
    if (channel.state() == Channel::State::kClosing) parts_.scheduler.activate(channel);
    const Duration spent = channel.ring_if_due();
    if (spent != Duration::zero() &&
        !parts_.channels.note_ring(channel, spent, std::chrono::steady_clock::now()))
      slow.push_back(&channel);
    return channel.control_flushed();
  });
  for (Channel* channel : slow)
    parts_.kill(*channel, Error{Errc::kExhausted, "a bell that takes too long to ring"});
  free_discarded();
  parts_.channels.connector().flush();
}

void ShmEngine::handle_readable(int fd) {
  if (fd == parts_.timer.descriptor()) return handle_timer();
  Connector& connector = parts_.channels.connector();
  if (connector.owns(fd)) {
    connector.handle_readable(fd);
    return control_.take_arrivals();
  }
  // Nothing if it was closed since the descriptor was seen to be readable.
  if (Channel* const channel = parts_.channels.find(fd)) control_.handle_bell(*channel);
}

void ShmEngine::handle_timer() {
  if (!parts_.timer.take_expiry()) return;
  free_discarded();
  const bool discarding = discards_.any();
  if (!control_.check_waits(std::chrono::steady_clock::now()) && !discarding) parts_.timer.stop();
}

}  // namespace fairlead::rdma::shm
