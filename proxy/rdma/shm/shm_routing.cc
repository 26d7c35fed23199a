// The part of the backplane that reads descriptors: new channels and control messages.
#include <utility>

#include "rdma/shm/shm_backplane.h"
#include "rdma/shm/shm_queue_pair.h"

namespace fairlead::rdma::shm {

using Kind = ControlMessage::Kind;

void Backplane::handle_readable(int fd) {
  if (channels_.is_listener(fd)) return accept_waiting();
  if (channels_.is_stranger(fd)) return greet(fd);
  Channel* channel = channels_.find(fd);
  if (channel == nullptr) return;  // closed since the descriptor was seen to be readable
  activate(*channel);
  if (fd == channel->socket()) handle_control(*channel, kControlBatch);
}

void Backplane::reconnect() {
  channels_.reconnect();
  accept_waiting();
}

void Backplane::accept_waiting() {
  // A refused or lost connection is not the last one; an empty or failing listener is.
  for (std::size_t i = 0; i < kStrangersMax; ++i) {
    const auto arrived = channels_.accept();
    if (arrived && arrived->stranger >= 0) greet(arrived->stranger);
    if (arrived && arrived->channel != nullptr) {
      activate(*arrived->channel);
      list_bell(*arrived->channel);
    }
    if (arrived || arrived.error().code == Errc::kPermission ||
        arrived.error().code == Errc::kExhausted)
      continue;
    if (arrived.error().code == Errc::kPeerGone)
      channels_.for_each([&](Channel& channel) {
        if (channel.state() == Channel::State::kClosing) activate(channel);
      });
    return;
  }
}

void Backplane::greet(int stranger) {
  auto channel = channels_.greet(stranger);
  if (channel && *channel != nullptr) activate(**channel);
  if (channel || channel.error().code == Errc::kPeerGone) return;
  if (faults_.full()) (void)faults_.pop();
  faults_.push({PeerId{}, channel.error()});
}

void Backplane::drain_control(PeerId peer) {
  accept_waiting();
  for (int stranger : channels_.strangers()) greet(stranger);
  channels_.for_each([&](Channel& channel) {
    if (channel.peer() == peer) handle_control(channel, kControlDrainMax);
  });
}

void Backplane::handle_control(Channel& channel, int messages_max) {
  for (int i = 0; i < messages_max && channel.state() == Channel::State::kOpen; ++i) {
    auto received = channel.receive();
    if (!received && received.error().code == Errc::kWouldBlock) break;
    if (!received && received.error().code == Errc::kPeerGone) {
      // Its last messages are in the ring by now.
      channel.close();
      activate(channel);
      break;
    }
    auto applied = received ? apply(channel, *received) : received.error();
    if (!applied) return kill(channel, applied.error());
    list_bell(channel);  // the peer may wait for room in the socket
  }
}

Result<void> Backplane::apply(Channel& channel, ReceivedControl& received) {
  const ControlMessage& message = received.message;
  switch (message.kind) {
    case Kind::kHello:
      return Error{Errc::kMalformed, "second hello on a channel"};
    case Kind::kDoorbell:
      activate(channel);
      return channels_.set_doorbell(channel, std::move(received.fd));
    case Kind::kWake:
      activate(channel);
      return {};
    case Kind::kQueuePairReady:
      return handle_ready(channel, message);
    case Kind::kQueuePairGone:
      return handle_gone(channel, message);
    case Kind::kAnnounce:
      return channel.remote.add_buffer(message, received.fd.get());
    case Kind::kWithdraw:
      return channel.remote.remove_buffer(message.rkey);
  }
  return Error{Errc::kMalformed, "kind of a control message"};
}

// Only those whom one of our queue pairs waits for, or faces, may tell us about themselves.
Result<void> Backplane::handle_ready(Channel& channel, const ControlMessage& message) {
  ShmQueuePair* queue_pair = queue_pairs_.find(message.destination);
  if (queue_pair == nullptr || !queue_pair->may_face(channel.peer(), message.source) ||
      port_state(queue_pair->port()) != PortState::kActive) {
    send(channel, ControlMessage{.kind = Kind::kQueuePairGone,
                                 .source = message.destination,
                                 .destination = message.source});
    return {};
  }
  SMC_TRY(channel.remote.add_queue_pair(message.source, {message.domain, message.destination}));
  if (queue_pair->state() == ShmQueuePair::State::kReady)
    queue_pair->attach_incoming(channel, message.domain);
  return {};
}

Result<void> Backplane::handle_gone(Channel& channel, const ControlMessage& message) {
  SMC_TRY(channel.remote.remove_queue_pair(message.source));
  ShmQueuePair* queue_pair = queue_pairs_.find(message.destination);
  // Nobody ends what goes over channels that are not his.
  if (queue_pair == nullptr || queue_pair->state() != ShmQueuePair::State::kReady ||
      !queue_pair->uses(channel) || !queue_pair->may_face(channel.peer(), message.source))
    return {};
  queue_pair->note_peer_left();
  // What it sent before is in the ring already; the tail is looked at anew.
  channel.failures_due = true;
  channel.failure_at = channel.consumer.peek_tail();
  activate(channel);
  return {};
}

}  // namespace fairlead::rdma::shm
