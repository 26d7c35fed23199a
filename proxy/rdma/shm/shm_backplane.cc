#include "rdma/shm/shm_backplane.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/shm_queue_pair.h"
#include "rdma/shm/shm_receive_queue.h"

namespace fairlead::rdma::shm {

Backplane::Backplane(std::unique_ptr<Connector> connector, FileDescriptor timer,
                     std::uint32_t random, std::vector<Port> ports, bool addressable)
    : addressable_(addressable),
      ports_(std::move(ports)),
      timer_(std::move(timer)),
      channels_(std::move(connector)),
      queue_pairs_(random),
      faults_(kFaultsMax) {
  (void)channels_.watch_timer(timer_.get());  // nobody watches yet
}

PortState Backplane::port_state(PortNumber port) const {
  return port.value >= 1 && port.value <= ports_.size() ? ports_[port.value - 1u].state
                                                        : PortState::kDown;
}

void Backplane::set_port_state(PortNumber port, PortState state) {
  SMC_ASSERT(port.value >= 1 && port.value <= ports_.size(), port.value, ports_.size());
  if (std::exchange(ports_[port.value - 1u].state, state) == state) return;
  events.port_changed(port, state);
  if (state == PortState::kActive) return;
  queue_pairs_.for_each([&](ShmQueuePair& queue_pair) {
    if (queue_pair.port() == port && queue_pair.state() == ShmQueuePair::State::kReady)
      queue_pair.break_down(CompletionStatus::kRetryExceeded, true);
  });
}

std::optional<PeerFault> Backplane::poll_fault() {
  if (faults_.empty()) return std::nullopt;
  return faults_.pop();
}

Result<void> Backplane::add(ShmQueuePair& queue_pair) {
  queue_pair.set_number(SMC_TRY(queue_pairs_.add(queue_pair)));
  return {};
}

void Backplane::remove(ShmQueuePair& queue_pair) {
  std::erase(broken_, &queue_pair);
  unstall(queue_pair);
  events.forget(queue_pair.number());
  queue_pairs_.remove(queue_pair.number());
}

Result<Channel*> Backplane::channel_to(PeerId peer) {
  drain_control(peer);
  Channel* channel = channels_.find_open(peer);
  if (channel == nullptr) {
    channel = SMC_TRY(channels_.request(peer, std::chrono::steady_clock::now()));
    take_arrivals();  // a directory has it at once
    if (channel->awaits_memory()) start_timer();
  }
  activate(*channel);
  return channel;
}

void Backplane::discard_buffer(Mapping memory, const BufferId& buffer) {
  discards_.add(std::move(memory), buffer);
  start_timer();
}

void Backplane::free_discarded() {
  if (!discards_.any()) return;
  for (const BufferId& buffer : discards_.take_done(std::chrono::steady_clock::now()))
    channels_.connector().free_buffer(buffer);
}

void Backplane::release(Channel& channel, QpNumber queue_pair) {
  SMC_ASSERT(channel.users != 0);
  channel.remote.forget_views(queue_pair);
  if (--channel.users != 0) return;
  // The answer is still to come, and the next to want a channel waits for it: a second request
  // would bring the peer a channel that nobody uses.
  channel.abandoned = channel.awaits_memory();
  channels_.note_unused(channel);
}

void Backplane::send(Channel& channel, const ControlMessage& message) {
  channel.send(message);
  note_posted(channel);
  if (!channel.control_flushed() && channel.attached()) start_timer();
}

void Backplane::answer_gone(Channel& channel, QpNumber ours, QpNumber theirs) {
  const bool taken = channel.answer(
      {.kind = ControlMessage::Kind::kQueuePairGone, .source = ours, .destination = theirs});
  if (!taken) note_fault(channel.peer(), Error{Errc::kExhausted, "answers that wait for the peer"});
  note_posted(channel);
  if (!channel.control_flushed() && channel.attached()) start_timer();
}

void Backplane::announce(Channel& channel, const ControlMessage& announcement) {
  // Nobody could map it. The peer knows nothing of the key then, and says so.
  if (!channels_.connector().grant(announcement.buffer, channel.peer())) return;
  send(channel, announcement);
}

void Backplane::note_posted(Channel& channel) {
  activate(channel);
  list_bell(channel);
}

void Backplane::activate(Channel& channel) {
  channel.idle_arms = 0;
  if (channel.active || channel.state() == Channel::State::kDead) return;
  channel.active = true;
  channel.stay_awake();
  active_.push_back(&channel);
}

void Backplane::list_bell(Channel& channel) {
  if (channel.bell_listed || channel.state() == Channel::State::kDead) return;
  channel.bell_listed = true;
  bells_.push_back(&channel);
}

void Backplane::unstall(const ShmQueuePair& queue_pair) {
  std::erase_if(stalled_, [&](Channel* channel) {
    if (channel->stalled_on != &queue_pair) return false;
    channel->stalled_on = nullptr;
    activate(*channel);
    return true;
  });
}

void Backplane::receive_queue_refilled(const ShmReceiveQueue& queue) {
  std::erase_if(stalled_, [&](Channel* channel) {
    if (&channel->stalled_on->receive_queue() != &queue) return false;
    channel->stalled_on = nullptr;
    activate(*channel);
    return true;
  });
}

void Backplane::queue_pair_broken(ShmQueuePair& queue_pair, bool report, bool has_requests) {
  unstall(queue_pair);
  if (has_requests) broken_.push_back(&queue_pair);
  if (report) events.queue_pair_fatal(queue_pair.number());
}

void Backplane::kill(Channel& channel, const Error& error) {
  if (channel.state() == Channel::State::kDead) return;
  note_fault(channel.peer(), error);
  end(channel);
}

void Backplane::note_fault(PeerId peer, const Error& error) {
  if (faults_.full()) (void)faults_.pop();
  faults_.push({peer, error});
}

// All queue pairs that depend on the channel die with it.
void Backplane::end(Channel& channel) {
  channels_.terminate(channel);
  bool another = false;
  channels_.for_each([&](const Channel& other) {
    another |= other.peer() == channel.peer() && other.state() != Channel::State::kDead;
  });
  if (!another) {
    grants_.forget(channel.peer());
    channels_.connector().forget(channel.peer());
  }
  queue_pairs_.for_each([&](ShmQueuePair& queue_pair) {
    if (queue_pair.expects_on(channel)) queue_pair.detach_incoming();
    if (queue_pair.uses(channel)) queue_pair.break_down(CompletionStatus::kRetryExceeded, true);
  });
}

void Backplane::forget_dead() {
  auto is_dead = [](const Channel* channel) { return channel->state() == Channel::State::kDead; };
  for (auto* list : {&active_, &asleep_, &bells_, &stalled_}) std::erase_if(*list, is_dead);
  channels_.erase_dead();
}

bool Backplane::pending() const noexcept {
  if (!broken_.empty() || !events.empty() || connector().has_events()) return true;
  return std::any_of(active_.begin(), active_.end(),
                     [](const Channel* channel) { return channel->has_work(false); });
}

bool Backplane::arm() {
  ring_doorbells();
  if (pending()) return false;
  const bool backlog = connector().backlog();
  for (Channel* channel : active_) channel->fall_asleep(backlog);
  asleep_.clear();
  std::erase_if(active_, [&](Channel* channel) {
    if (channel->has_work(true)) {
      channel->stay_awake();
      return false;
    }
    channel->active = false;
    ++channel->idle_arms;
    asleep_.push_back(channel);
    return true;
  });
  return active_.empty();
}

// Channels with recent traffic are looked at again before the next sleep anyway, so their peers
// need not ring until then.
void Backplane::disarm() {
  for (Channel* channel : asleep_) {
    if (channel->active || channel->idle_arms >= kIdleArmsMax) continue;
    channel->active = true;
    channel->stay_awake();
    active_.push_back(channel);
  }
  asleep_.clear();
}

void Backplane::ring_doorbells() {
  std::vector<Channel*> slow;
  std::erase_if(bells_, [&](Channel* channel) {
    channel->flush_control();
    if (channel->state() == Channel::State::kClosing) activate(*channel);
    const Duration spent = channel->ring_if_due();
    if (spent != Duration::zero() &&
        !channels_.note_ring(*channel, spent, std::chrono::steady_clock::now()))
      slow.push_back(channel);
    if (!channel->control_flushed()) return false;
    channel->bell_listed = false;
    return true;
  });
  for (Channel* channel : slow)
    kill(*channel, Error{Errc::kExhausted, "a bell that takes too long to ring"});
  free_discarded();
  channels_.connector().flush();
}

}  // namespace fairlead::rdma::shm
