#include "rdma/shm/channel/shm_message_path.h"

#include <algorithm>
#include <utility>

#include "rdma/shm/queue/shm_queue_pair.h"
#include "rdma/shm/queue/shm_receive_queue.h"

namespace fairlead::rdma::shm {

std::size_t MessagePath::poll(std::span<Completion> completions) {
  if (parts_.channels.connector().has_events()) control_.take_arrivals();
  std::size_t count = flush_broken(completions);
  ChannelScheduler& scheduler = parts_.scheduler;
  const ChannelScheduler::Round round = scheduler.begin_round();
  const int share =
      std::clamp(kControlPerPollMax / static_cast<int>(std::max<std::size_t>(round.count, 1)),
                 kControlBatchMin, kControlBatch);
  int left = kControlPerPollMax;
  for (std::size_t i = 0; i < round.count && count < completions.size(); ++i) {
    const bool any_left = left > 0;
    count += serve(scheduler.channel(round, i), completions.subspan(count), share, left);
    if (any_left && left <= 0) scheduler.continue_behind(round, i);
  }
  if (parts_.channels.has_dead()) {
    scheduler.forget_dead();
    parts_.channels.erase_dead();
  }
  return count;
}

std::size_t MessagePath::flush_broken(std::span<Completion> into) {
  std::size_t count = 0;
  std::erase_if(broken_, [&](ShmQueuePair* queue_pair) {
    bool more = false;
    count += queue_pair->reap(into.subspan(count), more);
    return !more;
  });
  return count;
}

std::size_t MessagePath::serve(Channel& channel, std::span<Completion> into, int control_share,
                               int& control_left) {
  if (channel.state() == Channel::State::kDead) return 0;
  const bool was_closing = channel.state() == Channel::State::kClosing;
  // The indices are looked at before the control messages: a message never overtakes what its
  // sender had told before, and a message that was refused does not seem to have arrived.
  if ((!was_closing && !channel.consumer().refresh()) || !channel.producer().refresh()) {
    parts_.kill(channel, Error{Errc::kMalformed, "index of a ring"});
    return 0;
  }
  if (channel.control_waiting())
    control_left -= control_.handle(channel, std::min(control_share, control_left));
  const bool all_handled = channel.state() != Channel::State::kOpen || !channel.control_waiting();
  if (!all_handled) return 0;
  std::size_t count = complete_sends(channel, into);
  count += receive(channel, into.subspan(count));
  if (channel.state() == Channel::State::kDead) return count;
  // Queue pairs whose peer has left fail behind its last messages, or at once if nothing takes
  // these.
  const bool stalled = channel.stalled_on() != nullptr;
  if (channel.take_departure()) fail_departed(channel);
  if (was_closing && (stalled || channel.consumer().empty())) {
    // The peer may have sent on another channel, of which nothing has been read yet.
    if (channel.users() != 0) control_.drain(channel.peer());
    parts_.end(channel);
  }
  return count;
}

std::size_t MessagePath::complete_sends(Channel& channel, std::span<Completion> into) {
  if (channel.state() == Channel::State::kDead) return 0;
  if (channel.senders().empty()) {
    channel.stop_waiting_for_room();
    return 0;
  }
  if (!channel.take_progress()) return 0;
  parts_.scheduler.note_traffic(channel);
  std::size_t count = 0;
  bool more = false;
  for (ShmQueuePair* const queue_pair : channel.senders())
    count += queue_pair->reap(into.subspan(count), more);
  channel.set_completions_due(more);
  return count;
}

std::size_t MessagePath::receive(Channel& channel, std::span<Completion> into) {
  if (channel.state() == Channel::State::kDead || channel.stalled_on() != nullptr) return 0;
  const std::uint64_t before = channel.consumer().head();
  std::size_t count = 0;
  while (count < into.size() && !channel.consumer().empty()) {
    auto header = channel.consumer().front();
    if (!header) {
      parts_.kill(channel, header.error());
      return count;
    }
    const Delivery delivery = deliver(channel, *header, into[count]);
    if (delivery == Delivery::kStalled) {
      parts_.scheduler.stall(channel);
      break;
    }
    if (delivery == Delivery::kDone) ++count;
    channel.consumer().pop(*header);
    if (channel.state() == Channel::State::kDead) return count;
  }
  if (channel.consumer().head() != before) {
    channel.consumer().publish();
    channel.note_consumed();
    parts_.scheduler.note_traffic(channel);
    parts_.scheduler.list_bell(channel);
  }
  return count;
}

MessagePath::Delivery MessagePath::deliver(Channel& channel, const MessageHeader& header,
                                           Completion& into) {
  ShmQueuePair* queue_pair = parts_.queue_pairs.find(header.destination);
  if (queue_pair == nullptr) return refuse(channel, header);
  switch (queue_pair->state()) {
    case ShmQueuePair::State::kError:
      return Delivery::kDropped;
    case ShmQueuePair::State::kUnconnected: {
      // The other end was faster than our handshake: the message waits as for a receive request.
      const RemoteQueuePair* remote = channel.remote().find_queue_pair(header.source);
      if (remote == nullptr || remote->destination != header.destination)
        return refuse(channel, header);
      channel.stall_on(queue_pair);
      return Delivery::kStalled;
    }
    case ShmQueuePair::State::kReady:
      break;
  }
  if (!queue_pair->faces(channel, header.source)) return refuse(channel, header);
  const auto request = queue_pair->receive_queue().take();
  if (!request) {
    channel.stall_on(queue_pair);
    return Delivery::kStalled;
  }
  into = {.kind = Completion::Kind::kReceive,
          .status = CompletionStatus::kSuccess,
          .id = request->id,
          .queue_pair = header.destination,
          .length_bytes = header.length_bytes};
  if (header.length_bytes <= request->length_bytes) {
    channel.consumer().copy_front(
        request->buffer->bytes().subspan(request->offset, header.length_bytes));
  } else {
    into.status = CompletionStatus::kLocalError;
    into.length_bytes = 0;
    queue_pair->break_down(CompletionStatus::kFlushed, true);
  }
  return Delivery::kDone;
}

// No such pair of queue pairs: the sender learns that its own is of no use. It may be late, not
// evil, so the channel lives on.
MessagePath::Delivery MessagePath::refuse(Channel& channel, const MessageHeader& header) {
  parts_.answer_gone(channel, header.destination, header.source);
  return Delivery::kDropped;
}

void MessagePath::fail_departed(Channel& channel) {
  parts_.queue_pairs.for_each([&](ShmQueuePair& queue_pair) {
    // Not those whose peer left on another channel: its ring may not have been read yet.
    if (queue_pair.peer_left_on(channel))
      queue_pair.break_down(CompletionStatus::kRetryExceeded, true);
  });
}

}  // namespace fairlead::rdma::shm
