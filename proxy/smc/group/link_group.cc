#include "smc/group/link_group.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace fairlead::smc {
namespace {

constexpr std::uint8_t kNoEyecatcher = 0x03;

// A link that is being added, for which the peer has listed its keys.
template <class Flow>
std::optional<LinkIndex> listed_link(const Flow& running) {
  const auto* flow = std::get_if<AddLinkFlow>(&running);
  if (flow == nullptr || !flow->awaits_confirm()) return std::nullopt;
  return flow->link();
}

template <class Flow>
std::optional<TimePoint> deadline_of(const Flow& running) {
  return std::visit(
      [](const auto& flow) -> std::optional<TimePoint> {
        if constexpr (std::is_same_v<std::decay_t<decltype(flow)>, std::monostate>)
          return std::nullopt;
        else
          return flow.deadline();
      },
      running);
}

std::optional<TimePoint> linger_deadline(const LinkGroupParts& parts, const GroupTimes& times) {
  if (!parts.links.idle_since()) return std::nullopt;
  return *parts.links.idle_since() + times.linger +
         (parts.server() ? Duration::zero() : kClientLingerExtra);
}

}  // namespace

LinkGroup::LinkGroup(GroupRole role, const Terms& terms, const GroupTimes& times, TimePoint now,
                     std::uint8_t links_max)
    : parts_(role, terms, std::min({links_max, terms.max_links, kLinksPerGroupMax}), now),
      times_(times) {}

LinkIndex LinkGroup::start_first_contact(const LinkIdentity& local, const LinkIdentity& peer,
                                         TimePoint now) {
  SMC_ASSERT(state_ == State::kForming && !links()[0], state_);
  // The server numbers its links from 1; a client learns the number from CONFIRM_LINK.
  Link& link = parts_.links[0].emplace(parts_.server() ? parts_.links.next_number() : LinkNumber{0},
                                       local, now);
  link.set_peer(peer);
  if (parts_.server()) {
    parts_.send_confirm_link(0, wire::LlcKind::kRequest);
    link.set_confirm_sent(now);
  }
  return 0;
}

void LinkGroup::handle_received(LinkIndex link, TimePoint now) {
  if (parts_.links[link]) parts_.links[link]->handle_received(now);
}

void LinkGroup::doubt(LinkIndex link, Doubt why, TimePoint now) {
  if (parts_.links[link]) parts_.links[link]->doubt(why, now);
}

void LinkGroup::handle_llc(LinkIndex link, const wire::LlcMessage& message, TimePoint now,
                           const char* unwritable) {
  if (!links()[link]) return;
  const bool same_version = message.version == parts_.out.version();
  if (terminated()) {
    if (same_version) termination_.take_later(parts_, message);
    return;
  }
  if (!same_version)
    return terminate(wire::DeleteLinkReason::kProtocolViolation, false,
                     "the peer sent an LLC message of another version than the group's");
  if (unwritable != nullptr) return refuse_memory(link, message.body, unwritable, now);
  std::visit([&](const auto& body) { take(link, body, now); }, message.body);
}

// Flows: which runs, its deadline, what follows it.

AddLinkFlow* LinkGroup::adding(LinkIndex link) {
  auto* flow = running<AddLinkFlow>();
  return flow != nullptr && flow->link() == link ? flow : nullptr;
}

void LinkGroup::start_next_flow(TimePoint now) {
  // An index is free again when the owner has released the link that was lost.
  if (!usable() || !idle() || loss_.waits() || parts_.out.tasks_pending()) return;
  if (start_delete_link(now)) return;
  if (const auto request = pending_.take_request();
      request && links().active(pending_.request_on()))
    return answer_add_link(pending_.request_on(), *request, now);
  if (start_add_link(now)) return;
  if (!pending_.announce_again()) {
    if (const auto rmb = parts_.local_rmbs.next_to_announce(links())) {
      flow_ = ConfirmRkeyFlow::begin(parts_, *rmb, now);
      return;
    }
  }
  if (parts_.out.full()) return;  // a request that is dropped has no answer
  if (const auto what = parts_.local_rmbs.next_to_delete(links()))
    flow_ = DeleteRkeyFlow::begin(parts_, *what, now);
}

bool LinkGroup::start_delete_link(TimePoint now) {
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!links()[i] || !links()[i]->deletion()) continue;
    const std::optional<LinkIndex> to = links().oldest_active(i);
    if (!to) parts_.links[i]->keep();
    if (!to || !links().active(i)) continue;
    flow_ = DeleteLinkFlow::begin(parts_, i, *to, now);
    return true;
  }
  return false;
}

bool LinkGroup::start_add_link(TimePoint now) {
  if (!parts_.server() || !pending_.link_wanted()) return false;
  const std::optional<LinkIndex> carrier = links().oldest_active();
  if (!carrier) return false;
  pending_.link_begun();
  if (!links().has_room()) {
    reject_req_add_link();
    return false;
  }
  flow_ = AddLinkFlow::begin(parts_, *carrier, now);
  return true;
}

// What was awaited has not come in time.
void LinkGroup::handle_flow_deadline(TimePoint now) {
  if (running<AddLinkFlow>() != nullptr) {
    if (parts_.server()) pending_.retry_link_later(now);
    return link_not_added("the peer did not answer in time", now);
  }
  // The link is taken down with or without the answer.
  if (running<DeleteLinkFlow>() != nullptr) return finish_deletion();
  if (running<ConfirmRkeyFlow>() != nullptr) return finish_announcement(FlowStep::kDone, now);
  // DELETE_RKEY: the memory stays where it is. The answer may still come.
  flow_ = std::monostate();
  start_next_flow(now);
}

void LinkGroup::handle_deadline(TimePoint now) {
  if (terminated()) return;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (auto& link = parts_.links[i]; link && is_due(link->confirm_again(), now)) {
      link->set_confirm_repeated();
      parts_.send_confirm_link(i, wire::LlcKind::kRequest);
    }
  if (is_due(loss_.deadline(), now)) {
    loss_.end();
    start_next_flow(now);
  }
  if (is_due(deadline_of(flow_), now)) handle_flow_deadline(now);
  if (is_due(pending_.link_again(), now)) {
    pending_.link_is_due();
    start_next_flow(now);
  }
  if (is_due(pending_.announce_again(), now)) {
    pending_.announcement_is_due();
    start_next_flow(now);
  }
  handle_test_deadlines(now);
  if (usable() && is_due(linger_deadline(parts_, times_), now))
    terminate(wire::DeleteLinkReason::kProgram, true, "idle for the linger time");
}

void LinkGroup::handle_test_deadlines(TimePoint now) {
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    std::optional<Link>& link = parts_.links[i];
    if (!link) continue;
    const Link::TestStep step = link->handle_test_deadline(now, times_.test_link_interval);
    if (step == Link::TestStep::kSend)
      parts_.out.send(i, wire::TestLink{wire::LlcKind::kRequest, link->test_data()});
    if (step != Link::TestStep::kDead) continue;
    parts_.emit(GroupEvent::Kind::kLinkDead, i, "");
    // Where a peer is silent on one link it may be gone altogether.
    for (LinkIndex other = 0; other < kLinksMax; ++other)
      if (other != i && links().active(other)) doubt(other, Doubt::kPeerGone, now);
    handle_link_down(i, now, "TEST_LINK stayed unanswered");
  }
}

Deadline LinkGroup::next_deadline() const {
  if (terminated()) return std::nullopt;
  Deadline next = earliest(loss_.deadline(), deadline_of(flow_));
  next = earliest(next, earliest(pending_.link_again(), pending_.announce_again()));
  if (usable()) next = earliest(next, linger_deadline(parts_, times_));
  for (const std::optional<Link>& link : links().all()) {
    if (!link) continue;
    next = earliest(next, link->confirm_again());
    next = earliest(next, link->test_deadline(times_.test_link_interval));
  }
  return next;
}

std::optional<LinkTask> LinkGroup::poll_task(TimePoint now) {
  const std::optional<LinkTask> task = parts_.out.poll_task();
  if (!task) return task;
  // Only now, because the move of its connections before needed the keys of both links.
  if (task->kind == LinkTask::Kind::kRelease) parts_.links.remove(task->link);
  if (!parts_.out.tasks_pending()) start_next_flow(now);
  return task;
}

// Links: confirmed, tested, added.

void LinkGroup::take(LinkIndex link, const wire::ConfirmLink& message, TimePoint now) {
  Link& own = *parts_.links[link];
  const bool expected =
      message.kind == (parts_.server() ? wire::LlcKind::kResponse : wire::LlcKind::kRequest);
  if (!expected || own.state() == LinkState::kDown) return;
  if ((message.eyecatcher_flags & kNoEyecatcher) == 0)
    return refuse_link(link, FallbackReason::kRmbeEyecatcher,
                       "CONFIRM_LINK: peer keeps eyecatchers in its buffers");
  const bool first = state_ == State::kForming;
  const AddLinkFlow* flow = adding(link);
  if (first && !parts_.server()) own.set_number(message.link);
  if (message.link != own.number()) return;
  if (!parts_.server()) {
    // The server cannot know our keys before version 1 has told them.
    if (flow != nullptr && flow->exchanges_keys()) return;
    parts_.send_confirm_link(link, wire::LlcKind::kResponse);
  }
  if (own.state() != LinkState::kActivating) return;  // a repetition
  if (!first && (flow == nullptr || !flow->awaits_confirm())) return;
  own.set_state(LinkState::kActive);
  if (!first) return link_added(link, now);
  state_ = State::kUsable;
  parts_.local_rmbs.end_first_contact();
  parts_.emit(GroupEvent::Kind::kLinkConfirmed, link, "");
  if (!parts_.server()) return;
  // Linux as a client waits for this and delays its application by three seconds without.
  pending_.want_link(true);
  start_next_flow(now);
}

void LinkGroup::refuse_link(LinkIndex link, FallbackReason reason, const char* why) {
  GroupEvent event{GroupEvent::Kind::kLinkRefused};
  event.link = link;
  event.reason = reason;
  event.why = why;
  parts_.out.emit(event);
}

void LinkGroup::refuse_memory(LinkIndex link, const wire::LlcBody& message, const char* why,
                              TimePoint now) {
  if (const auto* announced = std::get_if<wire::ConfirmRkey>(&message))
    return parts_.out.send(link, parts_.peer_rmbs.refuse(link, *announced));
  if (state_ == State::kForming) return refuse_link(link, FallbackReason::kMemoryRegistration, why);
  const AddLinkFlow* flow = adding(link);
  if (flow != nullptr && flow->awaits_confirm()) link_not_added(why, now);
}

void LinkGroup::take(LinkIndex link, const wire::TestLink& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kRequest) {
    wire::TestLink answer = message;
    answer.kind = wire::LlcKind::kResponse;
    return parts_.out.send(link, answer);
  }
  const std::optional<Duration> round_trip =
      parts_.links[link]->handle_test_response(message.user_data, now);
  if (!round_trip) return;
  GroupEvent event{GroupEvent::Kind::kLinkTested};
  event.link = link;
  event.round_trip = *round_trip;
  parts_.out.emit(event);
}

void LinkGroup::take(LinkIndex link, const wire::ReqAddLink& message, TimePoint now) {
  if (message.rejected) return;
  req_add_link_from_ = link;
  if (!parts_.server() || !usable() || links().max() <= 1) return reject_req_add_link();
  // The flow under way may change whether there is room for a link, so that is decided behind it.
  pending_.want_link(true);
  start_next_flow(now);
}

// Without an answer, a Linux client blocks all its later rkey flows.
void LinkGroup::reject_req_add_link() {
  if (!req_add_link_from_) return;
  const LinkIndex link = *std::exchange(req_add_link_from_, std::nullopt);
  wire::ReqAddLink refusal;
  refusal.rejected = true;
  const std::optional<LinkIndex> carrier = links().active(link) ? link : links().any();
  if (carrier) parts_.out.send(*carrier, refusal);
}

void LinkGroup::handle_ports_changed(std::span<const Gid> gids, TimePoint now) {
  if (!usable() || links().max() <= 1 || gids.empty()) return;
  const std::optional<LinkIndex> carrier = links().oldest_active();
  if (!carrier) return;
  if (parts_.server()) {
    pending_.want_link(true);
    return start_next_flow(now);
  }
  if (parts_.version_1()) {
    wire::AddLink wish;  // without a queue pair it asks for a request of the server
    wish.gid = gids.back();
    wish.mac = links()[*carrier]->local().mac;
    return parts_.out.send(*carrier, wish);
  }
  wire::ReqAddLink wish;
  for (const Gid& gid : gids)
    if (wish.gids.count < wire::kConfirmGidsMax) wish.gids.push(gid);
  parts_.out.send(*carrier, wish);
}

void LinkGroup::take(LinkIndex link, const wire::AddLink& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kResponse) {
    if (auto* flow = running<AddLinkFlow>()) apply(flow->take(parts_, link, message), now);
    return;
  }
  if (parts_.server()) {
    if (!parts_.version_1() || links().max() <= 1)
      return reject_add_link(link, message, parts_.out);
    pending_.want_link(usable());
    return start_next_flow(now);
  }
  if (usable() && idle() && !parts_.out.tasks_pending()) return answer_add_link(link, message, now);
  const bool waits = usable() && is_acceptable(message, parts_) && !pending_.has_request() &&
                     running<AddLinkFlow>() == nullptr;
  if (!waits) return reject_add_link(link, message, parts_.out);
  pending_.set_request(link, message);
}

void LinkGroup::answer_add_link(LinkIndex link, const wire::AddLink& request, TimePoint now) {
  if (!is_acceptable(request, parts_)) return reject_add_link(link, request, parts_.out);
  flow_ = AddLinkFlow::begin(parts_, link, request, now);
}

void LinkGroup::take(LinkIndex link, const wire::AddLinkCont& message, TimePoint now) {
  // One that comes too late belongs to a link that was given up.
  if (!parts_.described[message.link.value])
    return terminate(wire::DeleteLinkReason::kProtocolViolation, false,
                     "the peer continued an ADD_LINK that it had not begun");
  if (auto* flow = running<AddLinkFlow>()) apply(flow->take(parts_, link, message, now), now);
}

void LinkGroup::link_prepared(LinkIndex link, const std::optional<LinkOffer>& offer,
                              TimePoint now) {
  AddLinkFlow* flow = adding(link);
  if (flow == nullptr || !flow->prepares()) return;
  if (!offer) {
    reject_req_add_link();
    return link_not_added("no local port for another link", now);
  }
  if (parts_.server()) req_add_link_from_.reset();  // ADD_LINK is the answer
  flow->handle_prepared(parts_, *offer, now);
}

void LinkGroup::task_done(const LinkTask& task, TimePoint now,
                          const std::optional<LinkOffer>& offer) {
  if (task.kind == LinkTask::Kind::kPrepare) return link_prepared(task.link, offer, now);
  AddLinkFlow* flow = adding(task.link);
  if (task.kind == LinkTask::Kind::kConnect && flow != nullptr) flow->handle_connected(parts_, now);
}

void LinkGroup::apply(const AddLinkFlow::Outcome& outcome, TimePoint now) {
  if (outcome.step == FlowStep::kFailed) link_not_added(outcome.why, now);
}

void LinkGroup::link_added(LinkIndex link, TimePoint now) {
  flow_ = std::monostate();
  parts_.emit(GroupEvent::Kind::kLinkAdded, link, "");
  if (parts_.server()) {
    if (links().is_symmetric())
      for (LinkIndex i = 0; i < kLinksMax; ++i)
        if (links().is_asymmetric(i))
          parts_.links[i]->want_deletion(wire::DeleteLinkReason::kAsymmetricNotNeeded);
    // A wish that came meanwhile is not forgotten.
    if (links().active_count() < links().max()) pending_.want_link(true);
  }
  start_next_flow(now);
}

// REQUIRES: AddLinkFlow runs
void LinkGroup::link_not_added(const char* why, TimePoint now) {
  std::get<AddLinkFlow>(flow_).fail(parts_, why);
  flow_ = std::monostate();
  start_next_flow(now);
}

// Links: lost, deleted.

void LinkGroup::delete_link(LinkIndex link, wire::DeleteLinkReason reason, TimePoint now) {
  if (!usable() || !links().active(link) || !links().oldest_active(link)) return;
  parts_.links[link]->want_deletion(reason);
  start_next_flow(now);
}

void LinkGroup::finish_deletion() {
  const LinkIndex link = std::get<DeleteLinkFlow>(flow_).link();
  const LinkNumber number = links()[link]->number();
  take_down(link);
  parts_.emit(GroupEvent::Kind::kLinkDeleted, link, number, "it is not needed any more");
}

// Its connections go to another link, and what was to be done with it is forgotten. The next flow
// starts when the owner has released it.
void LinkGroup::take_down(LinkIndex link) {
  const bool was_active = links().active(link);
  parts_.peer_rmbs.handle_link_gone(link);
  const std::optional<LinkIndex> to = links().oldest_active(link);
  if (was_active && to) {
    parts_.out.add_task({LinkTask::Kind::kMove, link, *to, {}});
    parts_.links.move_connections(link, *to);
  }
  parts_.release(link);
  parts_.local_rmbs.handle_link_gone(link);
  end_flow_of(link);
}

void LinkGroup::end_flow_of(LinkIndex gone) {
  const auto carried = [&](const auto& flow) { return flow.carrier() == gone; };
  // The answer is lost with the link. Keys are announced or deleted again, and a peer that may have
  // received the DELETE_LINK is asked again. A new link has to start from the beginning.
  bool ends = false;
  if (const auto* adds = running<AddLinkFlow>()) {
    ends = adds->link() == gone || carried(*adds);
    const std::optional<Link>& added = links()[adds->link()];
    if (adds->link() != gone && ends && added && added->state() == LinkState::kActivating)
      parts_.release(adds->link());
  } else if (const auto* deletes = running<DeleteLinkFlow>()) {
    ends = deletes->link() == gone || carried(*deletes);
  } else if (const auto* confirms = running<ConfirmRkeyFlow>()) {
    ends = carried(*confirms);
  } else if (const auto* forgets = running<DeleteRkeyFlow>()) {
    ends = carried(*forgets);
  }
  if (ends) flow_ = std::monostate();
}

void LinkGroup::lose(LinkIndex link, GroupEvent::Kind kind, const char* why, TimePoint now) {
  const LinkNumber number = links()[link]->number();
  const bool was_active = links().active(link);
  const std::optional<LinkIndex> to = links().oldest_active(link);
  if (!to) {
    parts_.links[link]->set_state(LinkState::kDown);
    return end(link, why);
  }
  take_down(link);
  parts_.emit(was_active ? kind : GroupEvent::Kind::kLinkNotAdded, link, number, why);
  // Told at once, whatever flow is under way: the peer must not write over the old link any more.
  if (kind == GroupEvent::Kind::kLinkLost) {
    wire::DeleteLink message;
    message.orderly = true;
    message.link = number;
    message.reason = wire::DeleteLinkReason::kPathLost;
    parts_.out.send(*to, message);
  }
  if (parts_.server() && was_active) {
    loss_.begin(number, now + kLlcAnswerWait);
    pending_.want_link(true);
  }
}

void LinkGroup::handle_link_down(LinkIndex link, TimePoint now, const char* why) {
  if (terminated()) return;
  if (!links()[link]) {
    // A first contact may fail before there is a link; the group has failed with it.
    if (state_ == State::kForming) end(link, why);
    return;
  }
  if (adding(link) != nullptr) return link_not_added(why, now);
  if (links()[link]->state() != LinkState::kDown) lose(link, GroupEvent::Kind::kLinkLost, why, now);
}

void LinkGroup::take(LinkIndex link, const wire::DeleteLink& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kResponse) {
    const auto* flow = running<DeleteLinkFlow>();
    if (flow != nullptr && flow->take(parts_, message) == FlowStep::kDone) return finish_deletion();
    if (loss_.waits_for(message.link)) {
      loss_.end(message.link);
      start_next_flow(now);
    }
    return;
  }
  if (message.all) {
    termination_.take_first(parts_, message);
    return end(link, message.reason == wire::DeleteLinkReason::kProtocolViolation
                         ? "the peer deleted the link group: it saw a protocol violation"
                         : "the peer deleted the link group");
  }
  wire::DeleteLink answer;
  answer.kind = wire::LlcKind::kResponse;
  answer.orderly = message.orderly;
  answer.link = message.link;
  const std::optional<LinkIndex> named = links().find(message.link);
  if (!named) {
    // Both sides report the same loss. Ours as the server counts, and the client will answer it.
    if (parts_.server() && loss_.waits_for(message.link)) return;
    pending_.withdraw_request(message.link);
    answer.reason = wire::DeleteLinkReason::kUnknownLink;
    return parts_.out.send(link, answer);
  }
  const std::optional<LinkIndex> to = links().oldest_active(*named);
  if (!to) {
    parts_.out.send(link, answer);
    termination_.set_peer_terminated();
    return end(link, "the peer deleted the last link");
  }
  if (parts_.server()) {
    // Only a server deletes links: it answers a client's request with the same request of its own.
    answer.kind = wire::LlcKind::kRequest;
    answer.reason = message.reason;
  }
  parts_.out.send(*to, answer);
  lose(*named, GroupEvent::Kind::kLinkDeleted,
       message.reason == wire::DeleteLinkReason::kPathLost ? "the peer lost it"
                                                           : "the peer does not need it",
       now);
}

// Keys of RMBs.

void LinkGroup::take(LinkIndex link, const wire::ConfirmRkey& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kRequest)
    return parts_.out.send(link,
                           parts_.peer_rmbs.answer(link, message, links(), listed_link(flow_)));
  if (auto* flow = running<ConfirmRkeyFlow>())
    finish_announcement(flow->take(parts_, link, message, now), now);
}

void LinkGroup::take(LinkIndex link, const wire::ConfirmRkeyCont& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kResponse) {
    if (auto* flow = running<ConfirmRkeyFlow>())
      finish_announcement(flow->take(parts_, link, message, now), now);
    return;
  }
  // A request on a link that is down is void: the answer would be lost.
  if (!links().active(link)) return;
  const auto answer = parts_.peer_rmbs.answer(link, message, links(), listed_link(flow_));
  if (!answer)
    return terminate(wire::DeleteLinkReason::kProtocolViolation, true, answer.error().what);
  parts_.out.send(link, *answer);
}

void LinkGroup::finish_announcement(FlowStep step, TimePoint now) {
  if (step == FlowStep::kRuns) return;
  if (step == FlowStep::kDone || !pending_.retry_announcement_later(now)) {
    pending_.announcement_finished();
    std::get<ConfirmRkeyFlow>(flow_).finish(parts_);
  }
  flow_ = std::monostate();
  start_next_flow(now);
}

void LinkGroup::take(LinkIndex link, const wire::DeleteRkey& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kRequest)
    return parts_.out.send(link,
                           parts_.peer_rmbs.answer(link, message, parts_.version_1(), parts_.out));
  if (!parts_.local_rmbs.take_answer(link, message)) return;
  const auto* flow = running<DeleteRkeyFlow>();
  if (flow != nullptr && flow->carrier() == link) flow_ = std::monostate();
  start_next_flow(now);
}

// The end of the group.

void LinkGroup::terminate(wire::DeleteLinkReason reason, bool orderly, const char* why) {
  if (terminated()) return;
  end(termination_.begin(parts_, reason, orderly).value_or(0), why);
}

void LinkGroup::end(LinkIndex link, const char* why) {
  state_ = State::kTerminated;
  flow_ = std::monostate();
  parts_.links.close();
  parts_.emit(GroupEvent::Kind::kTerminated, link, why);
}

}  // namespace fairlead::smc
