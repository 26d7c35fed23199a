#include "rdma/shm/channel/shm_control_path.h"

#include <chrono>
#include <utility>

#include "rdma/shm/queue/shm_queue_pair.h"

namespace fairlead::rdma::shm {
namespace {

using Kind = ControlMessage::Kind;

}  // namespace

// One event may stand for two: the peer may have died right after it rang. The timer finds that
// out later, so that a ring costs no system call for it.
void ControlPath::handle_bell(Channel& channel) {
  const bool rung = channel.was_rung();
  parts_.scheduler.activate(channel);
  if (!rung) return check_peer(channel);
  channel.note_rung();
  parts_.timer.start();
}

// The last messages of a peer that is gone are in the rings by now.
void ControlPath::check_peer(Channel& channel) {
  channel.note_checked();
  if (channel.state() != Channel::State::kOpen || channel.peer_alive()) return;
  parts_.scheduler.activate(channel);
  handle(channel, kControlDrainMax);
  channel.close();
}

void ControlPath::take_arrivals() {
  for (int i = 0; i < kArrivalsBatch; ++i) {
    auto event = parts_.channels.connector().next();
    if (event) {
      handle_arrival(std::move(*event));
      continue;
    }
    if (event.error().code == Errc::kWouldBlock) return;
    if (event.error().code != Errc::kPeerGone) continue;
    parts_.channels.refuse_all();
    parts_.channels.for_each([&](Channel& channel) {
      if (channel.state() == Channel::State::kClosing || channel.awaiting_grant())
        parts_.scheduler.activate(channel);
    });
  }
}

void ControlPath::handle_arrival(ConnectorEvent event) {
  const PeerId peer = event.peer;
  switch (event.kind) {
    case ConnectorEvent::Kind::kGranted:
      return keep_grant(std::move(event));
    case ConnectorEvent::Kind::kRefused:
      if (Channel* const channel = parts_.channels.refuse(peer))
        parts_.scheduler.activate(*channel);
      return;
    case ConnectorEvent::Kind::kChannel:
      break;
  }
  auto channel = parts_.channels.take_in(std::move(event));
  if (channel && *channel != nullptr) parts_.scheduler.note_posted(**channel);
  if (channel) return;
  parts_.faults.note(peer, channel.error());
  parts_.channels.for_each([&](Channel& one) {
    if (one.state() == Channel::State::kClosing) parts_.scheduler.activate(one);
  });
}

// Memory of a peer without an open channel is dropped: it has no way to announce the buffer.
void ControlPath::keep_grant(ConnectorEvent event) {
  std::size_t known = 0;  // so many channels
  parts_.channels.for_each([&](Channel& channel) {
    if (channel.peer() != event.peer || channel.state() != Channel::State::kOpen) return;
    ++known;
    if (channel.awaiting_grant()) parts_.scheduler.activate(channel);
    // The peer's connector may wait until we have read, so the peer is rung.
    channel.note_consumed();
    parts_.scheduler.list_bell(channel);
  });
  // The peer repeats a grant that may be lost. Each channel needs the memory once.
  if (parts_.grants.count(event.peer, event.buffer) >= known) return;
  auto memory = parts_.channels.budget().map(event.memory.get(), event.pod);
  if (!memory) parts_.faults.note(event.peer, memory.error());
  // An empty mapping is kept, too: otherwise the announcement would wait for memory to come.
  parts_.grants.add(event.peer, event.pod, event.buffer,
                    memory ? std::move(*memory) : CountedMapping());
}

void ControlPath::drain(PeerId peer) {
  take_arrivals();
  parts_.channels.for_each([&](Channel& channel) {
    if (channel.peer() != peer || !channel.attached()) return;
    handle(channel, kControlDrainMax);
    check_peer(channel);
  });
}

int ControlPath::handle(Channel& channel, int messages_max) {
  int handled = 0;
  while (handled < messages_max && channel.state() == Channel::State::kOpen) {
    const auto message = channel.control_in().front();
    const auto applied = message ? apply(channel, *message) : message.error();
    if (!applied) {
      if (applied.error().code != Errc::kWouldBlock) parts_.kill(channel, applied.error());
      break;
    }
    channel.stop_awaiting_grant();
    channel.control_in().pop();
    ++handled;
  }
  if (handled == 0) return 0;
  channel.note_consumed();  // the peer may wait for room in the ring
  parts_.scheduler.list_bell(channel);
  return handled;
}

Result<void> ControlPath::apply(Channel& channel, const ControlMessage& message) {
  switch (message.kind) {
    case Kind::kQueuePairReady:
      return handle_ready(channel, message);
    case Kind::kQueuePairGone:
      return handle_gone(channel, message);
    case Kind::kAnnounce:
      return handle_announce(channel, message);
    case Kind::kWithdraw:
      return channel.remote().remove_buffer(message.rkey);
  }
  return Error{Errc::kMalformed, "kind of a control message"};
}

// kWouldBlock while the memory has not come.
Result<void> ControlPath::handle_announce(Channel& channel, const ControlMessage& message) {
  const bool wanted = SMC_TRY(channel.remote().check_buffer(message));
  auto memory = parts_.grants.take(channel.peer(), message.buffer);
  if (!memory && wanted) {
    take_arrivals();
    if (channel.state() != Channel::State::kOpen) return {};
    memory = parts_.grants.take(channel.peer(), message.buffer);
  }
  if (!wanted) return {};
  if (!memory) return wait_for_grant(channel, message.buffer);
  if (memory->bytes().empty()) return {};  // it could not be mapped, and the key is not valid
  return channel.remote().add_buffer(message, std::move(*memory));
}

// Without the memory the key is not valid, and the channel goes on.
Result<void> ControlPath::wait_for_grant(Channel& channel, const BufferId& buffer) {
  const TimePoint now = std::chrono::steady_clock::now();
  channel.await_grant(now);
  const bool may_come = parts_.channels.connector().may_bring(buffer) && channel.peer_alive();
  if (!may_come || now - *channel.awaiting_grant() >= parts_.wait_limits.grant) {
    parts_.faults.note(channel.peer(), Error{may_come ? Errc::kTimedOut : Errc::kPeerGone,
                                             "memory of an announced buffer"});
    return {};
  }
  parts_.timer.start();
  return Error{Errc::kWouldBlock, "memory of an announced buffer"};
}

bool ControlPath::check_waits(TimePoint now) {
  bool waits = false;
  std::vector<Channel*> stalled;
  parts_.channels.for_each([&](Channel& channel) {
    if (channel.awaiting_grant()) {
      waits = true;
      handle(channel, 1);  // poll() does the rest when that one waits no more
      parts_.scheduler.activate(channel);
    }
    if (channel.check_alive_due()) check_peer(channel);
    if (parts_.channels.give_up(channel, now)) {
      parts_.faults.note(channel.peer(), Error{Errc::kTimedOut, "a channel that was asked for"});
      parts_.scheduler.activate(channel);
    }
    if (const auto buffer = channel.grant_due(now))
      (void)parts_.channels.connector().grant(*buffer, channel.peer());
    waits |= channel.awaits_memory() || channel.announced_any();
    const auto since = channel.stalled_since();
    if (!since) return;
    waits = true;
    channel.flush_control();
    if (channel.state() == Channel::State::kClosing) parts_.scheduler.activate(channel);
    if (channel.stalled_since() && now - *since >= parts_.wait_limits.control_stall)
      stalled.push_back(&channel);
  });
  for (Channel* channel : stalled)
    parts_.kill(*channel, Error{Errc::kExhausted, "control messages that the peer does not take"});
  return waits;
}

// A peer may announce its queue pair only if a local one waits for it or is connected to it.
Result<void> ControlPath::handle_ready(Channel& channel, const ControlMessage& message) {
  ShmQueuePair* queue_pair = parts_.queue_pairs.find(message.destination);
  const bool again = channel.remote().find_queue_pair(message.source) != nullptr;
  if (queue_pair == nullptr || !queue_pair->may_face(channel.peer(), message.source) ||
      (queue_pair->has_incoming() && !again) ||
      parts_.ports.state(queue_pair->port()) != PortState::kActive) {
    parts_.answer_gone(channel, message.destination, message.source);
    return {};
  }
  SMC_TRY(channel.remote().add_queue_pair(message.source, {message.domain, message.destination}));
  queue_pair->attach_incoming(channel, message.source, message.domain);
  return {};
}

Result<void> ControlPath::handle_gone(Channel& channel, const ControlMessage& message) {
  // The peer's queue pair is removed only if it is gone for the one that it was announced for. It
  // also says "gone" to other local ones that name it.
  const RemoteQueuePair* const gone = channel.remote().find_queue_pair(message.source);
  if (gone != nullptr && gone->destination == message.destination)
    SMC_TRY(channel.remote().remove_queue_pair(message.source));
  ShmQueuePair* queue_pair = parts_.queue_pairs.find(message.destination);
  if (queue_pair != nullptr && queue_pair->expects(channel, message.source))
    queue_pair->detach_incoming();
  // A peer cannot end a queue pair that uses another channel than its own.
  if (queue_pair == nullptr || queue_pair->state() != ShmQueuePair::State::kReady ||
      !queue_pair->uses(channel) || !queue_pair->may_face(channel.peer(), message.source))
    return {};
  // What it sent before is in the ring already; the tail is looked at again.
  if (!channel.consumer().refresh()) return Error{Errc::kMalformed, "tail of the ring"};
  queue_pair->note_peer_left(channel);
  channel.note_departure();
  parts_.scheduler.activate(channel);
  return {};
}

}  // namespace fairlead::rdma::shm
