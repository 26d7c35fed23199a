// The part of the backplane that reacts to descriptors: what the connector brings, bells, and
// control messages.
#include <sys/timerfd.h>

#include <chrono>
#include <utility>

#include "rdma/shm/shm_backplane.h"
#include "rdma/shm/shm_queue_pair.h"

namespace fairlead::rdma::shm {
namespace {

using Kind = ControlMessage::Kind;

TimePoint now_() { return std::chrono::steady_clock::now(); }

}  // namespace

void Backplane::handle_readable(int fd) {
  if (fd == timer_.get()) return handle_timer();
  if (channels_.connector().owns(fd)) {
    channels_.connector().handle_readable(fd);
    return take_arrivals();
  }
  Channel* channel = channels_.find(fd);
  if (channel == nullptr) return;  // closed since the descriptor was seen to be readable
  handle_bell(*channel);
}

// Rung, or closed by the peer. One event may stand for both: who rang may have died since. The
// timer finds that out, so that not each ring costs a system call.
void Backplane::handle_bell(Channel& channel) {
  const bool rung = channel.was_rung();
  activate(channel);
  if (!rung) return check_peer(channel);
  channel.check_alive = true;
  start_timer();
}

// The last messages of a peer that is gone are in the rings by now.
void Backplane::check_peer(Channel& channel) {
  channel.check_alive = false;
  if (channel.state() != Channel::State::kOpen || channel.peer_alive()) return;
  activate(channel);
  handle_control(channel, kControlDrainMax);
  channel.close();
}

void Backplane::take_arrivals() {
  for (int i = 0; i < kArrivalsBatch; ++i) {
    auto event = channels_.connector().next();
    if (event) {
      handle_arrival(std::move(*event));
      continue;
    }
    if (event.error().code == Errc::kWouldBlock) return;
    if (event.error().code != Errc::kPeerGone) continue;
    channels_.refuse_all();
    channels_.for_each([&](Channel& channel) {
      if (channel.state() == Channel::State::kClosing || channel.awaiting_grant) activate(channel);
    });
  }
}

void Backplane::handle_arrival(ConnectorEvent event) {
  const PeerId peer = event.peer;
  switch (event.kind) {
    case ConnectorEvent::Kind::kGranted:
      return keep_grant(std::move(event));
    case ConnectorEvent::Kind::kRefused:
      if (Channel* const channel = channels_.refuse(peer)) activate(*channel);
      return;
    case ConnectorEvent::Kind::kChannel:
      break;
  }
  auto channel = channels_.take_in(std::move(event));
  if (channel && *channel != nullptr) note_posted(**channel);
  if (channel) return;
  note_fault(peer, channel.error());
  channels_.for_each([&](Channel& one) {
    if (one.state() == Channel::State::kClosing) activate(one);
  });
}

// Nobody grants who has no channel: its announcement could not follow.
void Backplane::keep_grant(ConnectorEvent event) {
  bool known = false;
  channels_.for_each([&](Channel& channel) {
    if (channel.peer() != event.peer || channel.state() != Channel::State::kOpen) return;
    known = true;
    if (channel.awaiting_grant) activate(channel);
    // Its connector may have waited until we read.
    channel.note_consumed();
    list_bell(channel);
  });
  if (!known) return;
  auto memory = channels_.budget().map(event.memory.get(), event.pod);
  if (!memory) note_fault(event.peer, memory.error());
  // Without memory, so that the announcement of the buffer does not wait for what has come.
  grants_.add(event.peer, event.pod, event.buffer, memory ? std::move(*memory) : CountedMapping());
}

void Backplane::drain_control(PeerId peer) {
  take_arrivals();
  channels_.for_each([&](Channel& channel) {
    if (channel.peer() != peer || !channel.attached()) return;
    handle_control(channel, kControlDrainMax);
    check_peer(channel);
  });
}

int Backplane::handle_control(Channel& channel, int messages_max) {
  int handled = 0;
  while (handled < messages_max && channel.state() == Channel::State::kOpen) {
    const auto message = channel.control_in.front();
    if (!message && message.error().code == Errc::kWouldBlock) break;
    const auto applied = message ? apply(channel, *message) : message.error();
    if (!applied && applied.error().code == Errc::kWouldBlock) break;
    if (!applied) {
      kill(channel, applied.error());
      return handled + 1;
    }
    channel.awaiting_grant.reset();
    channel.control_in.pop();
    ++handled;
  }
  if (handled == 0) return 0;
  channel.note_consumed();  // the peer may wait for room in the ring
  list_bell(channel);
  return handled;
}

Result<void> Backplane::apply(Channel& channel, const ControlMessage& message) {
  switch (message.kind) {
    case Kind::kQueuePairReady:
      return handle_ready(channel, message);
    case Kind::kQueuePairGone:
      return handle_gone(channel, message);
    case Kind::kAnnounce:
      return handle_announce(channel, message);
    case Kind::kWithdraw:
      return channel.remote.remove_buffer(message.rkey);
  }
  return Error{Errc::kMalformed, "kind of a control message"};
}

// kWouldBlock while the memory has not come.
Result<void> Backplane::handle_announce(Channel& channel, const ControlMessage& message) {
  const bool wanted = SMC_TRY(channel.remote.check_buffer(message));
  auto memory = grants_.take(channel.peer(), message.buffer);
  if (!memory && wanted) {
    take_arrivals();
    if (channel.state() != Channel::State::kOpen) return {};
    memory = grants_.take(channel.peer(), message.buffer);
  }
  if (!wanted) return {};
  if (!memory) return wait_for_grant(channel, message.buffer);
  if (memory->bytes().empty()) return {};  // it could not be mapped, and the key is not valid
  return channel.remote.add_buffer(message, std::move(*memory));
}

// Without the memory the key is not valid, and the channel goes on.
Result<void> Backplane::wait_for_grant(Channel& channel, const BufferId& buffer) {
  const TimePoint now = now_();
  if (!channel.awaiting_grant) channel.awaiting_grant = now;
  const bool may_come = connector().may_bring(buffer) && channel.peer_alive();
  if (!may_come || now - *channel.awaiting_grant >= grant_wait_) {
    note_fault(channel.peer(), Error{Errc::kNotFound, "memory of an announced buffer"});
    return {};
  }
  start_timer();
  return Error{Errc::kWouldBlock, "memory of an announced buffer"};
}

void Backplane::start_timer() {
  if (std::exchange(timer_runs_, true)) return;
  itimerspec spec{};
  spec.it_value.tv_nsec = spec.it_interval.tv_nsec =
      std::chrono::nanoseconds(kWaitCheckInterval).count();
  (void)::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void Backplane::handle_timer() {
  std::uint64_t expirations = 0;
  if (::read(timer_.get(), &expirations, sizeof expirations) < 0) return;
  check_waits();
}

void Backplane::check_waits() {
  const TimePoint now = now_();
  free_discarded();
  bool waits = discards_.any();
  std::vector<Channel*> stalled;
  channels_.for_each([&](Channel& channel) {
    if (channel.awaiting_grant) {
      waits = true;
      handle_control(channel, 1);  // poll() does the rest when that one waits no more
      activate(channel);
    }
    if (channel.check_alive) check_peer(channel);
    if (channels_.give_up(channel, now)) {
      note_fault(channel.peer(), Error{Errc::kTimedOut, "a channel that was asked for"});
      activate(channel);
    }
    waits |= channel.awaits_memory();
    const auto since = channel.stalled_since();
    if (!since) return;
    waits = true;
    channel.flush_control();
    if (channel.state() == Channel::State::kClosing) activate(channel);
    if (channel.stalled_since() && now - *since >= control_stall_) stalled.push_back(&channel);
  });
  for (Channel* channel : stalled)
    kill(*channel, Error{Errc::kExhausted, "control messages that the peer does not take"});
  if (waits) return;
  timer_runs_ = false;
  const itimerspec never{};
  (void)::timerfd_settime(timer_.get(), 0, &never, nullptr);
}

// Only those whom one of our queue pairs waits for, or faces, may tell us about themselves.
Result<void> Backplane::handle_ready(Channel& channel, const ControlMessage& message) {
  ShmQueuePair* queue_pair = queue_pairs_.find(message.destination);
  const bool again = channel.remote.find_queue_pair(message.source) != nullptr;
  if (queue_pair == nullptr || !queue_pair->may_face(channel.peer(), message.source) ||
      (queue_pair->has_incoming() && !again) ||
      port_state(queue_pair->port()) != PortState::kActive) {
    answer_gone(channel, message.destination, message.source);
    return {};
  }
  SMC_TRY(channel.remote.add_queue_pair(message.source, {message.domain, message.destination}));
  queue_pair->attach_incoming(channel, message.source, message.domain);
  return {};
}

Result<void> Backplane::handle_gone(Channel& channel, const ControlMessage& message) {
  // A queue pair that has a counterpart here answers so to any other that names it.
  const RemoteQueuePair* const gone = channel.remote.find_queue_pair(message.source);
  if (gone != nullptr && gone->destination == message.destination)
    SMC_TRY(channel.remote.remove_queue_pair(message.source));
  ShmQueuePair* queue_pair = queue_pairs_.find(message.destination);
  if (queue_pair != nullptr && queue_pair->expects(channel, message.source))
    queue_pair->detach_incoming();
  // Nobody ends what goes over channels that are not his.
  if (queue_pair == nullptr || queue_pair->state() != ShmQueuePair::State::kReady ||
      !queue_pair->uses(channel) || !queue_pair->may_face(channel.peer(), message.source))
    return {};
  // What it sent before is in the ring already; the tail is looked at again.
  if (!channel.consumer.refresh()) return Error{Errc::kMalformed, "tail of the ring"};
  queue_pair->note_peer_left(channel);
  channel.failures_due = true;
  channel.failure_at = channel.consumer.tail();
  activate(channel);
  return {};
}

}  // namespace fairlead::rdma::shm
