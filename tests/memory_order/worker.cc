#include "worker.h"

#include <algorithm>
#include <utility>

namespace explore {
namespace {

using fairlead::QpNumber;
using shm::Channel;

constexpr std::size_t kMessageRoom = 112;

Explorer& explorer() { return Explorer::get(); }

}  // namespace

std::byte pattern(unsigned message, std::size_t at) {
  return static_cast<std::byte>(message * 37 + at * 5 + 1);
}

void PlacedChannel::place(Explorer& to, const std::string& name) {
  auto& memory = to.place<shm::ChannelMemory>();
  mapping = shm::Mapping({reinterpret_cast<std::byte*>(&memory), sizeof memory});
  for (int side = 0; side < 2; ++side) {
    const std::string of = name + std::to_string(side) + ".";
    to.share(&memory.sides[side].sleeping, Role::kSleeping, of + "sleeping");
    to.share(&memory.controls[side].tail, Role::kControlTail, of + "control.tail");
    to.share(&memory.controls[side].head, Role::kControlHead, of + "control.head");
    to.share(&memory.rings[side].tail, Role::kTail, of + "ring.tail");
    to.share(&memory.rings[side].head, Role::kHead, of + "ring.head");
  }
}

void Worker::add(const PlacedChannel& placed, Channel::Side side, unsigned bell,
                 unsigned peer_bell) {
  End end;
  end.bell = bell;
  end.channel = std::make_unique<Channel>(fairlead::PeerId(), placed.mapping, budget_);
  end.channel->add_user();
  if (!end.channel->attach(side, {.memory = {&placed.mapping},
                                  .ring = static_cast<int>(peer_bell),
                                  .watch = static_cast<int>(bell)}))
    explorer().fail("a channel is not attached");
  scheduler_.activate(*end.channel);
  ends_.push_back(std::move(end));
  hear(bell);
}

Worker::End& Worker::end_of(const Channel& channel) {
  return *std::find_if(ends_.begin(), ends_.end(),
                       [&](const End& end) { return end.channel.get() == &channel; });
}

bool Worker::has_room(Channel& channel, std::uint64_t slots) {
  if (!channel.control_flushed()) return false;
  if (slots <= channel.producer().free_slots()) return true;
  if (!channel.producer().refresh()) explorer().fail("head of the ring");
  return slots <= channel.producer().free_slots();
}

bool Worker::post(std::size_t index, std::size_t bytes, bool signaled) {
  End& end = ends_[index];
  Channel& channel = *end.channel;
  if (!has_room(channel, shm::slots_for(bytes))) {
    channel.note_blocked();
    scheduler_.note_posted(channel);
    return false;
  }
  std::array<std::byte, kMessageRoom> message{};
  for (std::size_t i = 0; i < bytes; ++i) message[i] = pattern(end.posted, i);
  channel.producer().push({QpNumber(1), QpNumber(2), static_cast<std::uint32_t>(bytes)},
                          std::span(message).first(bytes));
  ++end.posted;
  if (signaled) {
    end.sent.push_back(channel.producer().tail());
    channel.note_signaled();
    if (channel.producer().tail() == channel.producer().head()) channel.set_completions_due(true);
  }
  channel.producer().publish();
  channel.note_posted();
  scheduler_.note_posted(channel);
  return true;
}

void Worker::tell(std::size_t index) {
  End& end = ends_[index];
  end.channel->send({.kind = shm::ControlMessage::Kind::kWithdraw, .size_bytes = end.said++});
  scheduler_.note_posted(*end.channel);
}

void Worker::poll() {
  const shm::ChannelScheduler::Round round = scheduler_.begin_round();
  for (std::size_t i = 0; i < round.count; ++i) serve(end_of(scheduler_.channel(round, i)));
}

void Worker::serve(End& end) {
  Channel& channel = *end.channel;
  const bool early = explorer().has(Step::kControlBeforeTail);
  if (early && channel.control_waiting()) handle_control(end);
  if (!channel.consumer().refresh() || !channel.producer().refresh())
    explorer().fail("index of a ring");
  if (!early && channel.control_waiting()) handle_control(end);
  if (!early && channel.control_waiting()) return;
  complete_sends(end);
  receive(end);
}

void Worker::handle_control(End& end) {
  Channel& channel = *end.channel;
  int handled = 0;
  while (true) {
    const auto message = channel.control_in().front();
    if (!message && message.error().code == fairlead::Errc::kWouldBlock) break;
    if (!message) explorer().fail("a control message is malformed");
    if (message->kind != shm::ControlMessage::Kind::kWithdraw || message->size_bytes != end.told)
      explorer().fail("a control message is not the next one");
    ++end.told;
    channel.control_in().pop();
    ++handled;
  }
  if (handled == 0) return;
  channel.note_consumed();
  scheduler_.list_bell(channel);
}

void Worker::complete_sends(End& end) {
  Channel& channel = *end.channel;
  if (!channel.take_progress()) return;
  channel.set_completions_due(false);
  scheduler_.note_traffic(channel);
  const std::uint64_t head = channel.producer().head();
  while (!end.sent.empty() && end.sent.front() <= head) {
    end.sent.pop_front();
    channel.note_completed();
    ++end.completed;
  }
}

void Worker::receive(End& end) {
  Channel& channel = *end.channel;
  const std::uint64_t before = channel.consumer().head();
  while (!channel.consumer().empty()) {
    const auto header = channel.consumer().front();
    if (!header) explorer().fail("a message is malformed");
    take(end, *header);
    channel.consumer().pop(*header);
  }
  if (channel.consumer().head() == before) return;
  channel.consumer().publish();
  channel.note_consumed();
  scheduler_.note_traffic(channel);
  scheduler_.list_bell(channel);
}

void Worker::take(End& end, const shm::MessageHeader& header) {
  std::array<std::byte, kMessageRoom> message{};
  end.channel->consumer().copy_front(std::span(message).first(header.length_bytes));
  for (std::size_t i = 0; i < header.length_bytes; ++i)
    if (message[i] != pattern(end.received, i)) explorer().fail("a message is not the next one");
  ++end.received;
  if (told_first_ && end.told < end.received)
    explorer().fail("a message overtakes a control message");
}

void Worker::ring_doorbells() {
  scheduler_.check_bells([](Channel& channel) {
    channel.flush_control();
    (void)channel.ring_if_due();
    return channel.control_flushed();
  });
}

// ShmDevice::arm()
bool Worker::arm() {
  ring_doorbells();
  if (scheduler_.has_work()) return false;
  if (!explorer().has(Step::kLookBeforeWish)) return scheduler_.fall_asleep(false);
  const bool work = std::any_of(ends_.begin(), ends_.end(),
                                [](const End& end) { return end.channel->has_work(true); });
  for (End& end : ends_) end.channel->fall_asleep(false);
  return !work;
}

// Then ControlPath::handle_bell() for each bell that was rung, and ShmDevice::disarm().
void Worker::rest() {
  if (arm()) {
    const unsigned heard = explorer().wait(bells_);
    for (End& end : ends_) {
      if ((heard >> end.bell & 1U) == 0) continue;
      (void)end.channel->was_rung();
      scheduler_.activate(*end.channel);
    }
  }
  scheduler_.wake_up();
}

}  // namespace explore
