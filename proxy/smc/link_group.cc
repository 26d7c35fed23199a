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
                     const GroupTimes& times, TimePoint now, std::uint8_t links_max)
    : role_(role),
      peer_(peer),
      terms_(terms),
      times_(times),
      links_max_(std::min({links_max, terms.max_links, kLinksPerGroupMax})),
      idle_since_(now) {}

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

LinkIndex LinkGroup::start_first_contact(const LinkIdentity& local, const LinkIdentity& peer,
                                         TimePoint now) {
  SMC_ASSERT(state_ == State::kForming && !links_[0], state_);
  // The server numbers its links from 1; a client learns the number from CONFIRM_LINK.
  links_[0].emplace(role_ == GroupRole::kServer ? next_number() : LinkNumber{0}, local, now);
  links_[0]->set_peer(peer);
  if (role_ == GroupRole::kServer) {
    send(0, confirm_link(*links_[0], wire::LlcKind::kRequest));
    confirm_repeat_ = now + kConfirmLinkRepeat;
    confirm_on_ = 0;
  }
  return 0;
}

void LinkGroup::send(LinkIndex link, const wire::LlcBody& body) {
  // A peer that asks without taking the answers fills the queue; it loses answers, we lose nothing.
  if (llc_.full()) return;
  std::array<std::byte, wire::kLlcBytesMax> bytes;
  const std::size_t count = wire::encode(wire::LlcMessage{llc_version(terms_), body}, bytes);
  llc_.push({link, std::vector<std::byte>(bytes.begin(),
                                          bytes.begin() + static_cast<std::ptrdiff_t>(count))});
}

void LinkGroup::emit(const GroupEvent& event) {
  // Repeatable news may be dropped under a flood; the end of the group may not.
  if (events_.room() <= 1 && event.kind != GroupEvent::Kind::kTerminated) return;
  events_.push(event);
}

void LinkGroup::emit(GroupEvent::Kind kind, LinkIndex link, const char* why) {
  GroupEvent event{kind};
  event.link = link;
  if (links_[link]) event.number = links_[link]->number();
  event.why = why;
  emit(event);
}

void LinkGroup::handle_received(LinkIndex link, TimePoint now) {
  if (links_[link]) links_[link]->handle_received(now);
}

void LinkGroup::doubt(LinkIndex link, Doubt why, TimePoint now) {
  if (links_[link]) links_[link]->doubt(why, now);
}

void LinkGroup::handle_llc(LinkIndex link, const wire::LlcMessage& message, TimePoint now,
                           const char* unwritable) {
  if (!links_[link]) return;
  const bool same_version = message.version == llc_version(terms_);
  if (state_ == State::kTerminated) return same_version ? take_farewell(message) : void();
  if (!same_version)
    return terminate(wire::DeleteLinkReason::kProtocolViolation, false,
                     "the peer sent an LLC message of another version than the group's");
  if (unwritable != nullptr) return refuse_memory(link, message.body, unwritable, now);
  std::visit([&](const auto& body) { take(link, body, now); }, message.body);
}

void LinkGroup::refuse_link(LinkIndex link, FallbackReason reason, const char* why) {
  GroupEvent event{GroupEvent::Kind::kLinkRefused};
  event.link = link;
  event.reason = reason;
  event.why = why;
  emit(event);
}

void LinkGroup::refuse_memory(LinkIndex link, const wire::LlcBody& message, const char* why,
                              TimePoint now) {
  if (const auto* announced = std::get_if<wire::ConfirmRkey>(&message)) {
    wire::ConfirmRkey answer = *announced;
    answer.kind = wire::LlcKind::kResponse;
    answer.refused = true;
    answer.retry = false;
    continued_[link].reset();
    return send(link, answer);
  }
  if (state_ == State::kForming) return refuse_link(link, FallbackReason::kMemoryRegistration, why);
  if (adding(AddStep::kAwaitingConfirm) && link == flow_link_) add_failed(why, now);
}

void LinkGroup::take(LinkIndex link, const wire::ConfirmLink& message, TimePoint now) {
  Link& own = *links_[link];
  const bool expected = message.kind == (role_ == GroupRole::kServer ? wire::LlcKind::kResponse
                                                                     : wire::LlcKind::kRequest);
  if (!expected || own.state() == LinkState::kDown) return;
  if ((message.eyecatcher_flags & kNoEyecatcher) == 0)
    return refuse_link(link, FallbackReason::kRmbeEyecatcher,
                       "CONFIRM_LINK: peer keeps eyecatchers in its buffers");
  const bool first = state_ == State::kForming;
  if (role_ == GroupRole::kClient) {
    if (first) own.set_number(message.link);
    if (message.link != own.number()) return;
    // The server cannot know our keys before version 1 has told them.
    if (adding(AddStep::kExchangingKeys) && link == flow_link_) return;
    send(link, confirm_link(own, wire::LlcKind::kResponse));
  } else if (message.link != own.number()) {
    return;
  }
  if (own.state() != LinkState::kActivating) return;  // a repetition
  if (!first && !(adding(AddStep::kAwaitingConfirm) && link == flow_link_)) return;
  own.set_state(LinkState::kActive);
  confirm_repeat_.reset();
  if (!first) return link_added(link, now);
  state_ = State::kUsable;
  emit(GroupEvent::Kind::kLinkConfirmed, link, "");
  if (role_ != GroupRole::kServer) return;
  // Linux as a client waits for this and delays its application by three seconds without.
  request_add(true);
  start_next_flow(now);
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

void LinkGroup::handle_deadline(TimePoint now) {
  if (state_ == State::kTerminated) return;
  if (confirm_repeat_ && now >= *confirm_repeat_) {
    confirm_repeat_.reset();
    send(confirm_on_, confirm_link(*links_[confirm_on_], wire::LlcKind::kRequest));
  }
  if (lost_until_ && now >= *lost_until_) {
    lost_until_.reset();
    start_next_flow(now);
  }
  if (flow_deadline_ && now >= *flow_deadline_) flow_overdue(now);
  if (add_again_ && now >= *add_again_) {
    add_again_.reset();
    add_wanted_ = true;
    start_next_flow(now);
  }
  if (telling_.again && now >= *telling_.again) {
    telling_.again.reset();
    start_next_flow(now);
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
        emit(GroupEvent::Kind::kLinkDead, i, "");
        // Where a peer is silent on one link it may be gone altogether.
        for (LinkIndex other = 0; other < kLinksMax; ++other)
          if (other != i && active(other)) links_[other]->doubt(Doubt::kPeerGone, now);
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
  keep_earliest(earliest, lost_until_);
  keep_earliest(earliest, flow_deadline_);
  keep_earliest(earliest, add_again_);
  keep_earliest(earliest, telling_.again);
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
  const std::optional<LinkIndex> carrier = any_link();
  if (carrier)
    send(*carrier, message);
  else
    peer_parted_ = true;
  end(carrier.value_or(0), why);
}

// Not orderly, as Linux says it when it has aborted everything. It says so without being asked and
// needs no such word itself; a peer of our kind waits for it.
void LinkGroup::answer_farewell() {
  wire::DeleteLink message;
  message.all = true;
  message.reason = wire::DeleteLinkReason::kProgram;
  if (const std::optional<LinkIndex> carrier = any_link()) send(*carrier, message);
}

// Where something can be said, if only before the first link is confirmed: one that is just being
// added may not have been connected yet.
std::optional<LinkIndex> LinkGroup::any_link() const {
  if (const std::optional<LinkIndex> active = survivor_of(kLinksMax)) return active;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (links_[i] && links_[i]->state() != LinkState::kDown) return i;
  return std::nullopt;
}

// The group is over, and all that counts is the peer's last word.
void LinkGroup::take_farewell(const wire::LlcMessage& message) {
  const auto* last = std::get_if<wire::DeleteLink>(&message.body);
  if (last == nullptr || !last->all || peer_parted_) return;
  if (last->orderly) {
    // A Linux server repeats our request like this, before it aborts its connections.
    if (role_ == GroupRole::kClient) return;
    // From a client it is its own request, which has crossed ours: it waits as well.
    answer_farewell();
  }
  peer_parted_ = true;
}

void LinkGroup::end(LinkIndex link, const char* why) {
  state_ = State::kTerminated;
  confirm_repeat_.reset();
  end_flow();
  emit(GroupEvent::Kind::kTerminated, link, why);
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
