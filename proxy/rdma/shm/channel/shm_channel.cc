#include "rdma/shm/channel/shm_channel.h"

#include <chrono>
#include <utility>

#include "base/assert.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

std::uint64_t pair_of(const ControlMessage& message) {
  return std::uint64_t{message.source.value} << 32 | message.destination.value;
}

ChannelMemory& as_channel(const Mapping& mapping) {
  return *reinterpret_cast<ChannelMemory*>(mapping.bytes().data());
}

}  // namespace

Channel::Channel(PeerId peer, Mapping scratch, MapBudget& budget)
    : peer_(peer),
      mapping_(std::move(scratch)),
      control_out_(as_channel(mapping_).controls[0]),
      producer_(as_channel(mapping_).rings[0]),
      consumer_(as_channel(mapping_).rings[1]),
      control_in_(as_channel(mapping_).controls[1]),
      remote_(budget) {}

Result<void> Channel::attach(Side side, broker::ChannelEnd end) {
  SMC_ASSERT(awaits_memory(), state_);
  Mapping memory = SMC_TRY(adopt_segment(end.memory.get(), sizeof(ChannelMemory)));
  bell_ = SMC_TRY(ChannelBell::adopt(std::move(end.ring), std::move(end.watch)));
  end.memory.close_here();  // it is mapped
  mapping_ = std::move(memory);
  side_ = side;
  attached_ = true;
  start_rings();
  flush_control();
  return {};
}

void Channel::start_rings() {
  const int own = static_cast<int>(side_);
  producer_ = RingProducer(memory().rings[own]);
  consumer_ = RingConsumer(memory().rings[1 - own]);
  control_out_ = ControlProducer(memory().controls[own]);
  control_in_ = ControlConsumer(memory().controls[1 - own]);
}

ChannelMemory& Channel::memory() const { return as_channel(mapping_); }

bool Channel::push(const ControlMessage& message) {
  if (!attached_) return false;
  const auto pushed = control_out_.push(message);
  if (pushed) {
    wakes_.posted = true;
    if (message.kind == ControlMessage::Kind::kAnnounce)
      sending_.announced.add(control_out_.tail() - 1, message.buffer,
                             std::chrono::steady_clock::now());
    return true;
  }
  if (pushed.error().code == Errc::kWouldBlock) return false;
  close();  // the peer claims the impossible
  return true;
}

void Channel::send(const ControlMessage& message) {
  if (state_ != State::kOpen) return;
  if (backlog_.messages.empty() && push(message)) return;
  if (backlog_.messages.size() >= kControlQueueMax) return close();
  wait({message});
}

bool Channel::answer(const ControlMessage& gone) {
  if (state_ != State::kOpen || backlog_.answers.contains(pair_of(gone))) return true;
  if (backlog_.messages.empty() && push(gone)) return true;
  if (backlog_.answers.size() >= kAnswersWaitingMax + demand_.users ||
      backlog_.messages.size() >= kControlQueueMax) {
    close();
    return false;
  }
  backlog_.answers.insert(pair_of(gone));
  wait({gone, true});
  return true;
}

void Channel::wait(const Waiting& waiting) {
  if (attached_ && !backlog_.stalled_since)
    backlog_.stalled_since = std::chrono::steady_clock::now();
  backlog_.messages.push_back(waiting);
}

void Channel::flush_control() {
  bool any = false;
  while (!backlog_.messages.empty() && state_ == State::kOpen &&
         push(backlog_.messages.front().message)) {
    if (state_ != State::kOpen) break;  // and nothing waits any more
    const Waiting& said = backlog_.messages.front();
    if (said.answer) backlog_.answers.erase(pair_of(said.message));
    backlog_.messages.pop_front();
    any = true;
  }
  if (backlog_.messages.empty())
    backlog_.stalled_since.reset();
  else if (attached_ && (any || !backlog_.stalled_since))
    backlog_.stalled_since = std::chrono::steady_clock::now();
}

void Channel::close() {
  if (state_ != State::kOpen) return;
  state_ = State::kClosing;
  (void)consumer_.refresh();  // what the peer puts there from now on is not looked at
  backlog_ = {};
  sending_.announced.clear();
  receiving_.awaiting_grant.reset();
}

void Channel::terminate() {
  close();
  state_ = State::kDead;
  bell_.close();
}

bool Channel::take_progress() {
  const std::uint64_t head = producer_.head();
  if (std::exchange(sending_.reaped_head, head) == head && !sending_.completions_due) return false;
  sending_.blocked = false;
  return true;
}

bool Channel::take_departure() {
  if (!receiving_.failure_at) return false;
  if (receiving_.stalled_on == nullptr && consumer_.head() < *receiving_.failure_at) return false;
  receiving_.failure_at.reset();
  return true;
}

Duration Channel::ring_if_due() {
  std::uint64_t due = 0;
  // The exchanges order our index before the look at `sleeping`, as fall_asleep() orders `sleeping`
  // before its look at the index: one of the two sides sees the other.
  if (std::exchange(wakes_.posted, false)) {
    producer_.publish_ordered();
    due |= kWakeOnMessage;
  }
  if (std::exchange(wakes_.consumed, false)) {
    consumer_.publish_ordered();
    due |= kWakeOnProgress;
  }
  if (due == 0 || state_ != State::kOpen || !attached_) return {};
  SharedWord& sleeping = peer_side().sleeping;
  if ((sleeping.load(std::memory_order_seq_cst) & due) == 0) return {};
  // Meanwhile the peer may have found what is due, and gone to sleep again with another wish. This
  // exchange takes that wish, so it must ring for it: later events would find no wish to ring for.
  if (sleeping.exchange(0, std::memory_order_seq_cst) == 0) return {};
  return bell_.ring();
}

void Channel::fall_asleep(bool backlog) {
  std::uint64_t wish = kWakeOnMessage;
  if (sending_.signaled_outstanding != 0 || sending_.blocked || backlog ||
      !backlog_.messages.empty())
    wish |= kWakeOnProgress;
  wakes_.asleep = true;
  own_side().sleeping.exchange(wish, std::memory_order_seq_cst);
  if (backlog_.messages.empty()) return;
  // Room that the peer made before it could see our wish is found here: it stores the heads of both
  // rings before it looks at the wish, that of the message ring in the total order.
  (void)producer_.peek_head_ordered();
  flush_control();
}

bool Channel::has_work(bool ordered) const {
  if (state_ != State::kOpen) return demand_.users != 0 || state_ == State::kClosing;
  // Until the memory of an announced buffer has come nothing is taken; the connector's descriptor
  // or the timer ends that.
  if (receiving_.awaiting_grant) return false;
  if (ordered && wakes_.posted) return true;  // said while falling asleep, and not rung for
  if (sending_.completions_due || receiving_.failure_at.has_value()) return true;
  if (receiving_.stalled_on == nullptr) {
    if (!consumer_.empty()) return true;
    if ((ordered ? consumer_.peek_tail_ordered() : consumer_.peek_tail()) != consumer_.tail())
      return true;
  } else if (ordered) {
    (void)consumer_.peek_tail_ordered();
  }
  // Behind the look at the message ring: a peer stores the tail of its control ring before that of
  // its message ring.
  if (control_waiting()) return true;
  if (sending_.signaled_outstanding == 0 && !sending_.blocked) return false;
  return (ordered ? producer_.peek_head_ordered() : producer_.peek_head()) != sending_.reaped_head;
}

}  // namespace fairlead::rdma::shm
