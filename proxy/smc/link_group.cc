#include "smc/link_group.h"

#include <algorithm>
#include <type_traits>

#include "base/assert.h"

namespace fairlead::smc {
namespace {

constexpr std::uint8_t kNoEyecatcher = 0x03;

wire::LlcVersion llc_version(const Terms& terms) {
  return terms.version == 1 ? wire::LlcVersion::k1 : wire::LlcVersion::k2;
}

void keep_earliest(std::optional<TimePoint>& earliest, std::optional<TimePoint> candidate) {
  if (candidate && (!earliest || *candidate < *earliest)) earliest = candidate;
}

}  // namespace

LinkGroup::LinkGroup(GroupRole role, const PeerId& peer, const Terms& terms,
                     const GroupTimes& times, TimePoint now)
    : role_(role), peer_(peer), terms_(terms), times_(times), idle_since_(now) {}

LinkIndex LinkGroup::choose_link() const {
  SMC_ASSERT(usable(), state_);
  std::optional<LinkIndex> best;
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!links_[i] || links_[i]->state() != LinkState::kActive) continue;
    if (!best || link_connections_[i] < link_connections_[*best]) best = i;
  }
  SMC_ASSERT(best.has_value(), connection_count_);
  return *best;
}

wire::ConfirmLink LinkGroup::confirm_link(const Link& link, wire::LlcKind kind) const {
  wire::ConfirmLink message;
  message.kind = kind;
  message.eyecatcher_flags = kNoEyecatcher;
  message.mac = link.local().mac;
  message.gid = link.local().gid;
  message.queue_pair = link.local().queue_pair;
  message.link = link.number();
  message.link_user_id = link.number().value;
  message.max_links = terms_.max_links;
  message.max_connections = terms_.release >= 1 ? terms_.max_connections : std::uint8_t{0};
  return message;
}

LinkIndex LinkGroup::start_first_contact(const LinkIdentity& local, TimePoint now) {
  SMC_ASSERT(state_ == State::kForming && !links_[0], state_);
  // The server numbers its links from 1; a client learns the number from CONFIRM_LINK.
  links_[0].emplace(LinkNumber{role_ == GroupRole::kServer ? std::uint8_t{1} : std::uint8_t{0}},
                    local, now);
  if (role_ == GroupRole::kServer) {
    send(0, confirm_link(*links_[0], wire::LlcKind::kRequest));
    confirm_repeat_ = now + kConfirmLinkRepeat;
  }
  return 0;
}

void LinkGroup::send(LinkIndex link, const wire::LlcBody& body) {
  // A peer that asks without taking the answers fills the queue; it loses answers, we lose nothing.
  if (llc_.full()) {
    ++dropped_answers_;
    return;
  }
  std::array<std::byte, wire::kLlcBytesMax> bytes;
  const std::size_t count = wire::encode(wire::LlcMessage{llc_version(terms_), body}, bytes);
  SMC_ASSERT(count == wire::kLlcBytes, count);
  LlcToSend out;
  out.link = link;
  std::copy_n(bytes.begin(), wire::kLlcBytes, out.bytes.begin());
  llc_.push(out);
}

void LinkGroup::emit(const GroupEvent& event) {
  // Repeatable news may be dropped under a flood; the end of the group may not.
  if (events_.room() <= 1 && event.kind != GroupEvent::Kind::kTerminated) return;
  events_.push(event);
}

void LinkGroup::handle_received(LinkIndex link, TimePoint now) {
  if (links_[link]) links_[link]->handle_received(now);
}

void LinkGroup::handle_llc(LinkIndex link, const wire::LlcMessage& message, TimePoint now) {
  if (state_ == State::kTerminated || !links_[link]) return;
  if (message.version != llc_version(terms_)) return;  // as Linux: dropped without an answer
  std::visit([&](const auto& body) { take(link, body, now); }, message.body);
}

void LinkGroup::take(LinkIndex link, const wire::ConfirmLink& message, TimePoint) {
  Link& own = *links_[link];
  const bool expected = message.kind == (role_ == GroupRole::kServer ? wire::LlcKind::kResponse
                                                                     : wire::LlcKind::kRequest);
  if (!expected) return;
  if ((message.eyecatcher_flags & kNoEyecatcher) == 0) {
    GroupEvent event{GroupEvent::Kind::kLinkRefused};
    event.link = link;
    event.reason = FallbackReason::kRmbeEyecatcher;
    event.why = "CONFIRM_LINK: peer keeps eyecatchers in its buffers";
    return emit(event);
  }
  if (role_ == GroupRole::kClient) {
    if (own.state() == LinkState::kActivating) own.set_number(message.link);
    send(link, confirm_link(own, wire::LlcKind::kResponse));
  } else if (message.link != own.number()) {
    return;
  }
  if (own.state() != LinkState::kActivating) return;  // a repetition
  own.set_state(LinkState::kActive);
  confirm_repeat_.reset();
  state_ = State::kUsable;
  GroupEvent event{GroupEvent::Kind::kLinkConfirmed};
  event.link = link;
  emit(event);
}

void LinkGroup::take(LinkIndex link, const wire::AddLink& message, TimePoint) {
  if (message.kind != wire::LlcKind::kRequest) return;
  // Answered within the server's two seconds, so that its accept() is not held up.
  wire::AddLink reject = message;
  reject.kind = wire::LlcKind::kResponse;
  reject.rejected = true;
  reject.reject_reason = 1;
  reject.rkeys.count = 0;
  send(link, reject);
}

void LinkGroup::take(LinkIndex, const wire::AddLinkCont&, TimePoint) {}

void LinkGroup::take(LinkIndex link, const wire::ReqAddLink& message, TimePoint) {
  if (message.rejected) return;
  // Unanswered, a Linux client blocks all its later rkey flows.
  wire::ReqAddLink refusal;
  refusal.rejected = true;
  send(link, refusal);
}

void LinkGroup::take(LinkIndex link, const wire::DeleteLink& message, TimePoint) {
  if (message.kind != wire::LlcKind::kRequest) return;
  if (message.all) return end(link, "the peer deleted the link group");
  wire::DeleteLink answer;
  answer.kind = wire::LlcKind::kResponse;
  answer.orderly = message.orderly;
  answer.link = message.link;
  if (message.link != links_[link]->number()) {
    answer.reason = wire::DeleteLinkReason::kUnknownLink;
    return send(link, answer);
  }
  send(link, answer);
  end(link, "the peer deleted the last link");
}

void LinkGroup::take(LinkIndex link, const wire::ConfirmRkey& message, TimePoint) {
  if (message.kind != wire::LlcKind::kRequest) return;
  // The keys that we use come in Accept and Confirm; a positive answer is all the peer waits for.
  wire::ConfirmRkey answer = message;
  answer.kind = wire::LlcKind::kResponse;
  answer.refused = answer.retry = false;
  send(link, answer);
}

void LinkGroup::take(LinkIndex link, const wire::DeleteRkey& message, TimePoint) {
  if (message.kind != wire::LlcKind::kRequest) return;
  for (const RemoteKey& rkey : message.rkeys.view()) {
    GroupEvent event{GroupEvent::Kind::kRkeyDeleted};
    event.link = link;
    event.rkey = rkey;
    emit(event);
  }
  wire::DeleteRkey answer;
  answer.kind = wire::LlcKind::kResponse;
  if (!message.rkeys.view().empty()) answer.rkeys.push(message.rkeys.items[0]);
  send(link, answer);
}

void LinkGroup::take(LinkIndex link, const wire::TestLink& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kRequest) {
    wire::TestLink answer = message;
    answer.kind = wire::LlcKind::kResponse;
    return send(link, answer);
  }
  const std::optional<Duration> round_trip =
      links_[link]->handle_test_response(message.user_data, now);
  if (!round_trip) return;
  GroupEvent event{GroupEvent::Kind::kLinkTested};
  event.link = link;
  event.round_trip = *round_trip;
  emit(event);
}

void LinkGroup::handle_link_down(LinkIndex link, TimePoint, const char* why) {
  if (state_ == State::kTerminated) return;
  if (!links_[link]) {
    // A first contact may fail before there is a link; the group has failed with it.
    if (state_ == State::kForming) end(link, why);
    return;
  }
  links_[link]->set_state(LinkState::kDown);
  for (const std::optional<Link>& other : links_)
    if (other && other->state() == LinkState::kActive) return;
  end(link, why);
}

void LinkGroup::handle_deadline(TimePoint now) {
  if (state_ == State::kTerminated) return;
  if (confirm_repeat_ && now >= *confirm_repeat_) {
    confirm_repeat_.reset();
    send(0, confirm_link(*links_[0], wire::LlcKind::kRequest));
  }
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!links_[i]) continue;
    switch (links_[i]->handle_test_deadline(now, times_.test_link_interval)) {
      case Link::TestStep::kNothing:
        break;
      case Link::TestStep::kSend:
        send(i, wire::TestLink{wire::LlcKind::kRequest, links_[i]->test_data()});
        break;
      case Link::TestStep::kDead: {
        GroupEvent event{GroupEvent::Kind::kLinkDead};
        event.link = i;
        emit(event);
        handle_link_down(i, now, "TEST_LINK stayed unanswered");
        break;
      }
    }
  }
  const std::optional<TimePoint> linger = linger_deadline();
  if (linger && now >= *linger)
    terminate(wire::DeleteLinkReason::kProgram, true, "idle for the linger time");
}

std::optional<TimePoint> LinkGroup::linger_deadline() const {
  if (state_ != State::kUsable || connection_count_ != 0 || !idle_since_) return std::nullopt;
  return *idle_since_ + times_.linger +
         (role_ == GroupRole::kClient ? kClientLingerExtra : Duration::zero());
}

std::optional<TimePoint> LinkGroup::next_deadline() const {
  std::optional<TimePoint> earliest;
  if (state_ == State::kTerminated) return earliest;
  keep_earliest(earliest, confirm_repeat_);
  keep_earliest(earliest, linger_deadline());
  for (const std::optional<Link>& link : links_)
    if (link) keep_earliest(earliest, link->test_deadline(times_.test_link_interval));
  return earliest;
}

void LinkGroup::connection_added(LinkIndex link) {
  ++connection_count_;
  ++link_connections_[link];
  idle_since_.reset();
}

void LinkGroup::connection_removed(LinkIndex link, TimePoint now) {
  SMC_ASSERT(connection_count_ != 0 && link_connections_[link] != 0, connection_count_);
  --link_connections_[link];
  if (--connection_count_ == 0) idle_since_ = now;
}

void LinkGroup::terminate(wire::DeleteLinkReason reason, bool orderly, const char* why) {
  if (state_ == State::kTerminated) return;
  wire::DeleteLink message;
  message.all = true;
  message.orderly = orderly;
  message.reason = reason;
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!links_[i] || links_[i]->state() == LinkState::kDown) continue;
    send(i, message);
    return end(i, why);
  }
  end(0, why);
}

void LinkGroup::end(LinkIndex link, const char* why) {
  state_ = State::kTerminated;
  confirm_repeat_.reset();
  GroupEvent event{GroupEvent::Kind::kTerminated};
  event.link = link;
  event.why = why;
  emit(event);
}

std::optional<LlcToSend> LinkGroup::poll_llc() {
  if (llc_.empty()) return std::nullopt;
  return llc_.pop();
}

std::optional<GroupEvent> LinkGroup::poll_event() {
  if (events_.empty()) return std::nullopt;
  return events_.pop();
}

}  // namespace fairlead::smc
