#include "rdma/shm/shm_device_parts.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/queue/shm_queue_pair.h"

namespace fairlead::rdma::shm {

void WaitTimer::start() {
  if (!std::exchange(runs_, true)) set(kWaitCheckInterval);
}

void WaitTimer::stop() {
  if (std::exchange(runs_, false)) set(Duration::zero());
}

void WaitTimer::set(Duration interval) {
  itimerspec spec{};
  spec.it_value.tv_nsec = spec.it_interval.tv_nsec = std::chrono::nanoseconds(interval).count();
  (void)::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

bool WaitTimer::take_expiry() {
  std::uint64_t expirations = 0;
  return ::read(timer_.get(), &expirations, sizeof expirations) >= 0;
}

PortState Ports::state(PortNumber port) const {
  return port.value >= 1 && port.value <= ports_.size() ? ports_[port.value - 1u].state
                                                        : PortState::kDown;
}

bool Ports::set_state(PortNumber port, PortState state) {
  SMC_ASSERT(port.value >= 1 && port.value <= ports_.size(), port.value, ports_.size());
  return std::exchange(ports_[port.value - 1u].state, state) != state;
}

void PeerFaults::note(PeerId peer, const Error& error) {
  if (faults_.full()) (void)faults_.pop();
  faults_.push({peer, error});
}

std::optional<PeerFault> PeerFaults::poll() {
  if (faults_.empty()) return std::nullopt;
  return faults_.pop();
}

DeviceParts::DeviceParts(std::unique_ptr<Connector> connector, FileDescriptor timer_descriptor,
                         std::uint32_t random, std::vector<Port> own_ports, bool is_addressable)
    : addressable(is_addressable),
      ports(std::move(own_ports)),
      timer(std::move(timer_descriptor)),
      channels(std::move(connector)),
      queue_pairs(random) {
  (void)channels.watch_timer(timer.descriptor());  // nobody watches yet
}

void DeviceParts::send(Channel& channel, const ControlMessage& message) {
  channel.send(message);
  note_posted(channel);
}

void DeviceParts::answer_gone(Channel& channel, QpNumber ours, QpNumber theirs) {
  const bool taken = channel.answer(
      {.kind = ControlMessage::Kind::kQueuePairGone, .source = ours, .destination = theirs});
  if (!taken)
    faults.note(channel.peer(), Error{Errc::kExhausted, "answers that wait for the peer"});
  note_posted(channel);
}

void DeviceParts::note_posted(Channel& channel) {
  scheduler.note_posted(channel);
  if (!channel.control_flushed() && channel.attached()) timer.start();
}

void DeviceParts::kill(Channel& channel, const Error& error) {
  if (channel.state() == Channel::State::kDead) return;
  faults.note(channel.peer(), error);
  end(channel);
}

void DeviceParts::end(Channel& channel) {
  channels.terminate(channel);
  bool another = false;
  channels.for_each([&](const Channel& other) {
    another |= other.peer() == channel.peer() && other.state() != Channel::State::kDead;
  });
  if (!another) grants.forget(channel.peer());
  queue_pairs.for_each([&](ShmQueuePair& queue_pair) {
    if (queue_pair.expects_on(channel)) queue_pair.detach_incoming();
    if (queue_pair.uses(channel) && !fails_later(queue_pair, channel))
      queue_pair.break_down(CompletionStatus::kRetryExceeded, true);
  });
}

bool DeviceParts::fails_later(ShmQueuePair& queue_pair, const Channel& ended) {
  Channel* const incoming = queue_pair.incoming();
  if (queue_pair.state() != ShmQueuePair::State::kReady || incoming == nullptr ||
      incoming == &ended || incoming->state() == Channel::State::kDead)
    return false;
  // A channel that is closing has its last tail already.
  if (incoming->state() == Channel::State::kOpen && !incoming->consumer().refresh()) return false;
  queue_pair.note_peer_left(*incoming);
  incoming->note_departure();
  scheduler.activate(*incoming);
  return true;
}

void DeviceParts::resume(const ShmQueuePair& queue_pair) {
  scheduler.resume([&](const ShmQueuePair& stalled_on) { return &stalled_on == &queue_pair; });
}

}  // namespace fairlead::rdma::shm
