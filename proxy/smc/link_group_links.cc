// The links of a group: which there are, which are lost, how one is deleted, and the order of
// flows.

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "smc/link_group.h"

namespace fairlead::smc {

unsigned LinkGroup::active_links() const {
  unsigned count = 0;
  for (LinkIndex i = 0; i < kLinksMax; ++i) count += active(i) ? 1U : 0U;
  return count;
}

bool LinkGroup::redundant(LinkIndex index) const {
  if (!active(index)) return false;
  const Link& link = *links_[index];
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (i == index || !active(i) || links_[i]->number() >= link.number()) continue;
    const bool shared =
        links_[i]->local().gid == link.local().gid || links_[i]->peer().gid == link.peer().gid;
    if (shared && !redundant(i)) return true;
  }
  return false;
}

GroupType LinkGroup::type() const {
  if (!usable() || active_links() == 0) return GroupType::kNone;
  if (active_links() == 1) return GroupType::kSingle;
  unsigned distinct = 0;
  std::optional<LinkIndex> first;
  std::optional<LinkIndex> spare;
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!active(i)) continue;
    if (redundant(i)) {
      spare = i;
    } else {
      ++distinct;
      first = i;
    }
  }
  if (distinct >= 2) return GroupType::kSymmetric;
  SMC_ASSERT(first && spare, distinct);
  return links_[*first]->local().gid == links_[*spare]->local().gid ? GroupType::kAsymmetricLocal
                                                                    : GroupType::kAsymmetricPeer;
}

bool LinkGroup::has_room() const {
  if (!usable() || connection_count_ >= terms_.max_connections) return false;
  return !links_[choose_link()]->disowned();
}

LinkIndex LinkGroup::choose_link() const {
  SMC_ASSERT(usable(), state_);
  std::optional<LinkIndex> best;
  const auto cost = [&](LinkIndex i) {
    return std::pair(links_[i]->disowned(), link_connections_[i]);
  };
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!active(i) || redundant(i)) continue;
    if (!best || cost(i) < cost(*best)) best = i;
  }
  SMC_ASSERT(best.has_value(), connection_count_);
  return *best;
}

std::optional<LinkIndex> LinkGroup::find_number(LinkNumber number) const {
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (links_[i] && links_[i]->state() != LinkState::kDown && links_[i]->number() == number)
      return i;
  return std::nullopt;
}

std::optional<LinkIndex> LinkGroup::survivor_of(LinkIndex link) const {
  std::optional<LinkIndex> best;
  // The oldest, so that both sides choose the same.
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (i != link && active(i) && (!best || links_[i]->number() < links_[*best]->number()))
      best = i;
  return best;
}

// The one that has been free for longest.
std::optional<LinkIndex> LinkGroup::free_slot() const {
  std::optional<LinkIndex> best;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (!links_[i] && (!best || released_[i] < released_[*best])) best = i;
  return best;
}

// Keys of a link that has gone stay known until here: an Accept may still be on its way that names
// it.
void LinkGroup::reuse_slot(LinkIndex slot) {
  flow_link_ = slot;
  own_rmbs_.remove_link(slot);
  peer_rmbs_.remove_link(slot);
  for (std::uint8_t& links : told_on_) links = static_cast<std::uint8_t>(links & ~(1U << slot));
}

LinkNumber LinkGroup::next_number() {
  do {
    if (++last_number_.value == 0) ++last_number_.value;
  } while (find_number(last_number_));
  return last_number_;
}

// After it nothing may refer to the link: its slot is empty once the driver has done the task.
void LinkGroup::release(LinkIndex link) {
  links_[link]->set_state(LinkState::kDown);
  if (confirm_on_ == link) confirm_repeat_.reset();
  tasks_.push({LinkTask::Kind::kRelease, link, 0, {}});
}

// Its connections go to another one, and what was to be done with it is forgotten.
void LinkGroup::take_down(LinkIndex link) {
  const bool was_active = active(link);
  links_[link]->set_state(LinkState::kDown);
  delete_wanted_[link] = wire::DeleteLinkReason::kOk;
  continued_[link].reset();
  const std::optional<LinkIndex> to = survivor_of(link);
  if (was_active && to) {
    tasks_.push({LinkTask::Kind::kMove, link, *to, {}});
    link_connections_[*to] += link_connections_[link];
    link_connections_[link] = 0;
  }
  release(link);
  ask_again_elsewhere(link);
  if (flow_ == Flow::kNone) return;
  const bool of_link = flow_ == Flow::kAddLink || flow_ == Flow::kDeleteLink;
  if (of_link && link == flow_link_) return end_flow();
  if (link != flow_carrier_ || !to) return;
  // The answer was lost with the link. Keys are told or taken back again, and a peer that may have
  // received the DELETE_LINK is asked again. A new link has to start from the beginning.
  if (flow_ == Flow::kDeleteLink) delete_wanted_[flow_link_] = delete_reason_;
  if (flow_ == Flow::kAddLink && links_[flow_link_] &&
      links_[flow_link_]->state() == LinkState::kActivating) {
    release(flow_link_);
    request_add(role_ == GroupRole::kServer);
  }
  end_flow();
}

void LinkGroup::lose(LinkIndex link, GroupEvent::Kind kind, const char* why, TimePoint now) {
  const LinkNumber number = links_[link]->number();
  const bool was_active = active(link);
  const std::optional<LinkIndex> to = survivor_of(link);
  if (!to) {
    links_[link]->set_state(LinkState::kDown);
    return end(link, why);
  }
  take_down(link);
  GroupEvent event{was_active ? kind : GroupEvent::Kind::kLinkNotAdded};
  event.link = link;
  event.number = number;
  event.why = why;
  emit(event);
  // Told at once, whatever flow is under way: the peer must not write over the old link any more.
  if (kind == GroupEvent::Kind::kLinkLost) {
    wire::DeleteLink message;
    message.orderly = true;
    message.link = number;
    message.reason = wire::DeleteLinkReason::kPathLost;
    send(*to, message);
  }
  if (role_ == GroupRole::kServer && was_active) {
    lost_number_ = number;
    lost_until_ = now + kLlcAnswerWait;
    request_add(true);
  }
  start_next_flow(now);
}

void LinkGroup::handle_link_down(LinkIndex link, TimePoint now, const char* why) {
  if (state_ == State::kTerminated) return;
  if (!links_[link]) {
    // A first contact may fail before there is a link; the group has failed with it.
    if (state_ == State::kForming) end(link, why);
    return;
  }
  if (flow_ == Flow::kAddLink && flow_link_ == link) return add_failed(why, now);
  if (links_[link]->state() != LinkState::kDown) lose(link, GroupEvent::Kind::kLinkLost, why, now);
}

void LinkGroup::take(LinkIndex link, const wire::DeleteLink& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kResponse) {
    if (flow_ == Flow::kDeleteLink && links_[flow_link_] &&
        links_[flow_link_]->number() == message.link) {
      flow_deadline_ = now;
      return flow_overdue(now);
    }
    if (lost_until_ && lost_number_ == message.link) {
      lost_until_.reset();
      start_next_flow(now);
    }
    return;
  }
  if (message.all) {
    if (message.orderly) answer_farewell();
    peer_parted_ = true;
    return end(link, message.reason == wire::DeleteLinkReason::kProtocolViolation
                         ? "the peer deleted the link group: it saw a protocol violation"
                         : "the peer deleted the link group");
  }
  wire::DeleteLink answer;
  answer.kind = wire::LlcKind::kResponse;
  answer.orderly = message.orderly;
  answer.link = message.link;
  const std::optional<LinkIndex> named = find_number(message.link);
  if (!named) {
    // Both ends have noticed the loss, and the server's word counts: its request is under way.
    if (role_ == GroupRole::kServer && lost_until_ && lost_number_ == message.link) return;
    answer.reason = wire::DeleteLinkReason::kUnknownLink;
    return send(link, answer);
  }
  const std::optional<LinkIndex> to = survivor_of(*named);
  if (!to) {
    send(link, answer);
    peer_parted_ = true;
    return end(link, "the peer deleted the last link");
  }
  if (role_ == GroupRole::kServer) {
    // The server deletes; a client's request is sent back to it as ours.
    answer.kind = wire::LlcKind::kRequest;
    answer.reason = message.reason;
  }
  send(*to, answer);
  lose(*named, GroupEvent::Kind::kLinkDeleted,
       message.reason == wire::DeleteLinkReason::kPathLost ? "the peer lost it"
                                                           : "the peer does not need it",
       now);
}

void LinkGroup::delete_link(LinkIndex link, wire::DeleteLinkReason reason, TimePoint now) {
  if (!usable() || !active(link) || !survivor_of(link)) return;
  delete_wanted_[link] = reason;
  start_next_flow(now);
}

void LinkGroup::start_next_flow(TimePoint now) {
  // A slot is free again when the owner has let go of the link that was lost.
  if (state_ != State::kUsable || flow_ != Flow::kNone || lost_until_ || !tasks_.empty()) return;
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (delete_wanted_[i] == wire::DeleteLinkReason::kOk) continue;
    const wire::DeleteLinkReason reason =
        std::exchange(delete_wanted_[i], wire::DeleteLinkReason::kOk);
    const std::optional<LinkIndex> to = survivor_of(i);
    if (!active(i) || !to) continue;
    wire::DeleteLink message;
    message.orderly = true;
    message.link = links_[i]->number();
    message.reason = reason;
    send(*to, message);
    flow_ = Flow::kDeleteLink;
    delete_reason_ = reason;
    flow_link_ = i;
    flow_carrier_ = *to;
    flow_deadline_ = now + kLlcAnswerWait;
    return;
  }
  if (parked_) {
    const std::unique_ptr<wire::AddLink> request = std::move(parked_);
    if (links_[parked_link_] && active(parked_link_))
      return answer_add(parked_link_, *request, now);
  }
  if (start_add(now)) return;
  if (start_telling(now)) return;
  (void)start_deleting(now);
}

void LinkGroup::end_flow() {
  flow_ = Flow::kNone;
  flow_deadline_.reset();
  add_request_.reset();
}

// What was awaited has not come in time, or has come: a link that is deleted goes either way.
void LinkGroup::flow_overdue(TimePoint now) {
  switch (flow_) {
    case Flow::kNone:
      flow_deadline_.reset();
      return;
    case Flow::kAddLink:
      retry_add_later(now);
      return add_failed("the peer did not answer in time", now);
    case Flow::kDeleteLink: {
      const LinkIndex link = flow_link_;
      GroupEvent event{GroupEvent::Kind::kLinkDeleted};
      event.link = link;
      event.number = links_[link]->number();
      event.why = "it is not needed any more";
      take_down(link);
      emit(event);
      return start_next_flow(now);
    }
    case Flow::kConfirmRkey:
      return told(false, now);
    case Flow::kDeleteRkey:
      // The memory stays where it is. The answer may still come.
      end_flow();
      return start_next_flow(now);
  }
}

std::optional<LinkTask> LinkGroup::poll_task(TimePoint now) {
  if (tasks_.empty()) return std::nullopt;
  const LinkTask task = tasks_.pop();
  if (task.kind == LinkTask::Kind::kRelease) {
    // Behind the move, which still had to know the keys of both links.
    links_[task.link].reset();
    released_[task.link] = ++releases_;
  }
  if (tasks_.empty()) start_next_flow(now);
  return task;
}

}  // namespace fairlead::smc
