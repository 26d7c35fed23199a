// Adding a link to a group, in both roles (docs/wire.md, "Adding links").

#include <algorithm>

#include "base/assert.h"
#include "smc/link_group.h"

namespace fairlead::smc {
namespace {

constexpr std::uint8_t kMtuCodeMax = static_cast<std::uint8_t>(Mtu::k4096);
constexpr std::uint8_t kRejectReason = 1;  // version 1: no other port

LinkIdentity identity_of(const wire::AddLink& message) {
  return {message.gid, message.mac, message.queue_pair};
}

}  // namespace

bool LinkGroup::room_for_link() const {
  unsigned links = 0;
  bool spare = false;
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    links += links_[i] ? 1U : 0U;
    spare = spare || redundant(i);
  }
  // One that shares a port is replaced by a better one, and goes only when that stands.
  return links < kLinksMax && links < links_max_ + (spare ? 1U : 0U);
}

void LinkGroup::request_add(bool wanted) {
  add_wanted_ = wanted && links_max_ > 1;
  add_retries_left_ = kAddLinkRetriesMax;
}

bool LinkGroup::start_add(TimePoint now) {
  if (role_ != GroupRole::kServer || !add_wanted_) return false;
  const std::optional<LinkIndex> carrier = survivor_of(kLinksMax);
  if (!carrier) return false;
  add_wanted_ = false;
  add_again_.reset();
  if (!room_for_link()) {
    refuse_wish();
    return false;
  }
  flow_ = Flow::kAddLink;
  reuse_slot(*free_slot());
  flow_carrier_ = *carrier;
  add_step_ = AddStep::kPreparing;
  tasks_.push({LinkTask::Kind::kPrepare, flow_link_, 0, {}});
  flow_deadline_ = now + kLlcAnswerWait;
  return true;
}

void LinkGroup::retry_add_later(TimePoint now) {
  if (role_ != GroupRole::kServer || add_retries_left_ == 0) return;
  --add_retries_left_;
  add_again_ = now + kAddLinkRetryWait;
}

// Unanswered, a Linux client blocks all its later rkey flows.
void LinkGroup::refuse_wish() {
  if (!wish_on_) return;
  wire::ReqAddLink refusal;
  refusal.rejected = true;
  const LinkIndex link = active(*wish_on_) ? *wish_on_ : flow_carrier_;
  wish_on_.reset();
  send(link, refusal);
}

void LinkGroup::take(LinkIndex link, const wire::ReqAddLink& message, TimePoint now) {
  if (message.rejected) return;
  wish_on_ = link;
  if (role_ != GroupRole::kServer || !usable() || links_max_ <= 1) return refuse_wish();
  // Whether there is room is known when the flow under way is over.
  request_add(true);
  start_next_flow(now);
}

void LinkGroup::handle_ports_changed(std::span<const Gid> gids, TimePoint now) {
  if (!usable() || links_max_ <= 1 || gids.empty()) return;
  const std::optional<LinkIndex> carrier = survivor_of(kLinksMax);
  if (!carrier) return;
  if (role_ == GroupRole::kServer) {
    request_add(true);
    return start_next_flow(now);
  }
  if (terms_.version == 1) {
    wire::AddLink wish;  // without a queue pair it asks for a request of the server
    wish.gid = gids.back();
    wish.mac = links_[*carrier]->local().mac;
    return send(*carrier, wish);
  }
  wire::ReqAddLink wish;
  for (const Gid& gid : gids)
    if (wish.gids.count < wire::kConfirmGidsMax) wish.gids.push(gid);
  send(*carrier, wish);
}

wire::AddLink LinkGroup::describe_new_link(wire::LlcKind kind) {
  const Link& link = *links_[flow_link_];
  keys_.described[link.number().value] = true;
  wire::AddLink message;
  message.kind = kind;
  message.mac = link.local().mac;
  message.gid = message.second_gid = link.local().gid;
  message.queue_pair = link.local().queue_pair;
  message.link = link.number();
  message.mtu_code = static_cast<std::uint8_t>(add_offer_.mtu);
  message.first_psn = add_offer_.first_psn;
  if (terms_.version == 1) return message;
  for (std::size_t row = 0; row < own_rmbs_.rows(); ++row) {
    const std::optional<RmbKey>& known = own_rmbs_.key(static_cast<RmbRow>(row), flow_carrier_);
    const std::optional<RmbKey>& now = own_rmbs_.key(static_cast<RmbRow>(row), flow_link_);
    if (!known || !now || !may_list(row, flow_carrier_)) continue;
    message.rkeys.push({known->rkey, now->rkey, now->address});
    told_on_[row] = static_cast<std::uint8_t>(told_on_[row] | 1U << flow_link_);
  }
  return message;
}

void LinkGroup::link_prepared(LinkIndex link, const LinkOffer& offer, TimePoint now) {
  if (!adding(AddStep::kPreparing) || link != flow_link_) return;
  add_offer_ = offer;
  const bool server = role_ == GroupRole::kServer;
  links_[link].emplace(server ? next_number() : add_request_->link, offer.local, now);
  if (server) {
    wish_on_.reset();  // this is the answer
    add_step_ = AddStep::kAwaitingAnswer;
    flow_deadline_ = now + kLlcAnswerWait;
    return send(flow_carrier_, describe_new_link(wire::LlcKind::kRequest));
  }
  const wire::AddLink& request = *add_request_;
  links_[link]->set_peer(identity_of(request));
  add_offer_.mtu = std::min(offer.mtu, static_cast<Mtu>(request.mtu_code));
  add_step_ = AddStep::kConnecting;
  tasks_.push({LinkTask::Kind::kConnect,
               link,
               0,
               {identity_of(request), request.first_psn, add_offer_.mtu}});
}

void LinkGroup::link_unavailable(LinkIndex link, TimePoint now) {
  if (!adding(AddStep::kPreparing) || link != flow_link_) return;
  refuse_wish();
  add_failed("no local port for another link", now);
}

bool LinkGroup::acceptable(const wire::AddLink& request) const {
  return usable() && links_max_ > 1 && request.mtu_code >= 1 && request.mtu_code <= kMtuCodeMax &&
         request.link.value != 0 && !find_number(request.link) && room_for_link();
}

void LinkGroup::reject(LinkIndex link, const wire::AddLink& request) {
  // Answered within the server's two seconds, so that its accept() is not held up.
  wire::AddLink answer = request;
  answer.kind = wire::LlcKind::kResponse;
  answer.rejected = true;
  answer.reject_reason = kRejectReason;
  answer.rkeys.count = 0;
  send(link, answer);
}

void LinkGroup::take(LinkIndex link, const wire::AddLink& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kResponse) return take_add_answer(link, message, now);
  if (role_ == GroupRole::kServer) {
    if (terms_.version != 1 || links_max_ <= 1) return reject(link, message);
    request_add(usable());
    return start_next_flow(now);
  }
  if (!acceptable(message)) return reject(link, message);
  if (flow_ == Flow::kNone && tasks_.empty()) return answer_add(link, message, now);
  // One may wait until the flow under way is over; more would be a server that does not.
  if (parked_ || flow_ == Flow::kAddLink) return reject(link, message);
  parked_ = std::make_unique<wire::AddLink>(message);
  parked_link_ = link;
}

void LinkGroup::answer_add(LinkIndex link, const wire::AddLink& request, TimePoint now) {
  if (!acceptable(request)) return reject(link, request);
  add_request_ = std::make_unique<wire::AddLink>(request);
  flow_ = Flow::kAddLink;
  reuse_slot(*free_slot());
  flow_carrier_ = link;
  add_step_ = AddStep::kPreparing;
  flow_deadline_ = now + kAddedLinkWait;
  LinkTask task{LinkTask::Kind::kPrepare, flow_link_, 0, {}};
  task.peer.identity = identity_of(request);
  tasks_.push(task);
}

void LinkGroup::take_add_answer(LinkIndex link, const wire::AddLink& answer, TimePoint now) {
  if (!adding(AddStep::kAwaitingAnswer) || link != flow_carrier_ ||
      answer.link != links_[flow_link_]->number())
    return;
  if (answer.rejected) {
    add_step_ = AddStep::kPreparing;  // the client waits for nothing any more
    return add_failed("the peer rejects another link", now);
  }
  if (answer.mtu_code < 1 || answer.mtu_code > static_cast<std::uint8_t>(add_offer_.mtu))
    return add_failed("the peer's MTU is out of range", now);
  links_[flow_link_]->set_peer(identity_of(answer));
  learn_keys(flow_carrier_, flow_link_, answer.rkeys.view());
  add_step_ = AddStep::kConnecting;
  tasks_.push({LinkTask::Kind::kConnect,
               flow_link_,
               0,
               {identity_of(answer), answer.first_psn, static_cast<Mtu>(answer.mtu_code)}});
}

void LinkGroup::link_connected(LinkIndex link, TimePoint now) {
  if (!adding(AddStep::kConnecting) || link != flow_link_) return;
  keys_.next = keys_.rounds = 0;
  if (role_ == GroupRole::kClient) {
    learn_keys(flow_carrier_, link, add_request_->rkeys.view());
    flow_deadline_ = now + kAddedLinkWait;
    add_step_ = terms_.version == 1 ? AddStep::kExchangingKeys : AddStep::kAwaitingConfirm;
    return send(flow_carrier_, describe_new_link(wire::LlcKind::kResponse));
  }
  if (terms_.version != 1) return ask_to_confirm(now);
  add_step_ = AddStep::kExchangingKeys;
  flow_deadline_ = now + kLlcAnswerWait;
  send_keys(wire::LlcKind::kRequest);
}

void LinkGroup::ask_to_confirm(TimePoint now) {
  add_step_ = AddStep::kAwaitingConfirm;
  flow_deadline_ = now + kAddedLinkWait;
  confirm_repeat_ = now + kConfirmLinkRepeat;
  confirm_on_ = flow_link_;
  send(flow_link_, confirm_link(*links_[flow_link_], wire::LlcKind::kRequest));
}

void LinkGroup::link_added(LinkIndex link, TimePoint now) {
  links_[link]->handle_received(now);
  end_flow();
  emit(GroupEvent::Kind::kLinkAdded, link, "");
  if (role_ == GroupRole::kServer) {
    drop_redundant();
    // A wish that came meanwhile is not forgotten.
    if (active_links() < links_max_) request_add(true);
  }
  start_next_flow(now);
}

void LinkGroup::drop_redundant() {
  unsigned distinct = 0;
  for (LinkIndex i = 0; i < kLinksMax; ++i) distinct += active(i) && !redundant(i) ? 1U : 0U;
  if (distinct < 2) return;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (redundant(i)) delete_wanted_[i] = wire::DeleteLinkReason::kAsymmetricNotNeeded;
}

void LinkGroup::add_failed(const char* why, TimePoint now) {
  const LinkIndex link = flow_link_;
  const LinkIndex carrier = flow_carrier_;
  const AddStep step = add_step_;
  const std::unique_ptr<wire::AddLink> request = std::move(add_request_);
  GroupEvent event{GroupEvent::Kind::kLinkNotAdded};
  event.link = link;
  event.why = why;
  if (links_[link]) {
    event.number = links_[link]->number();
    release(link);
  }
  end_flow();
  emit(event);
  // A client that has heard of the link may wait for it, and rejects any other meanwhile.
  const bool promised = step == AddStep::kExchangingKeys || step == AddStep::kAwaitingConfirm ||
                        (role_ == GroupRole::kServer && step != AddStep::kPreparing);
  if (promised) {
    wire::DeleteLink message;
    message.link = event.number;
    message.reason = wire::DeleteLinkReason::kPathLost;
    send(carrier, message);
  } else if (request) {
    reject(carrier, *request);
  }
  start_next_flow(now);
}

}  // namespace fairlead::smc
