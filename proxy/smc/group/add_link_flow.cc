#include "smc/group/add_link_flow.h"

#include <algorithm>

namespace fairlead::smc {
namespace {

constexpr std::uint8_t kMtuCodeMax = static_cast<std::uint8_t>(Mtu::k4096);
constexpr std::uint8_t kRejectReason = 1;  // version 1: no other port
constexpr std::size_t kKeysPerCont = 2;

LinkIdentity identity_of(const wire::AddLink& message) {
  return {message.gid, message.mac, message.queue_pair};
}

}  // namespace

bool is_acceptable(const wire::AddLink& request, const LinkGroupParts& group) {
  return request.mtu_code >= 1 && request.mtu_code <= kMtuCodeMax && request.link.value != 0 &&
         !group.links.find(request.link) && group.links.has_room();
}

void reject_add_link(LinkIndex link, const wire::AddLink& request, LinkGroupOutput& out) {
  wire::AddLink answer = request;
  answer.kind = wire::LlcKind::kResponse;
  answer.rejected = true;
  answer.reject_reason = kRejectReason;
  out.send(link, answer);
}

AddLinkFlow AddLinkFlow::begin(LinkGroupParts& group, LinkIndex carrier, TimePoint now) {
  AddLinkFlow flow(group.reuse_index(), carrier, now + kLlcAnswerWait);
  group.out.add_task({LinkTask::Kind::kPrepare, flow.link_, 0, {}});
  return flow;
}

AddLinkFlow AddLinkFlow::begin(LinkGroupParts& group, LinkIndex carrier,
                               const wire::AddLink& request, TimePoint now) {
  AddLinkFlow flow(group.reuse_index(), carrier, now + kAddedLinkWait);
  flow.request_ = std::make_unique<wire::AddLink>(request);
  LinkTask task{LinkTask::Kind::kPrepare, flow.link_, 0, {}};
  task.peer.identity = identity_of(request);
  group.out.add_task(task);
  return flow;
}

wire::AddLink AddLinkFlow::describe_link(LinkGroupParts& group, wire::LlcKind kind) {
  const Link& link = *group.links[link_];
  group.described[link.number().value] = true;
  wire::AddLink message;
  message.kind = kind;
  message.mac = link.local().mac;
  message.gid = message.second_gid = link.local().gid;
  message.queue_pair = link.local().queue_pair;
  message.link = link.number();
  message.mtu_code = static_cast<std::uint8_t>(offer_.mtu);
  message.first_psn = offer_.first_psn;
  if (group.version_1()) return message;
  for (std::size_t row = 0; row < group.local_rmbs.keys().rows(); ++row) {
    const auto rmb = static_cast<RmbRow>(row);
    const auto entry = group.local_rmbs.entry(rmb, carrier_, link_);
    if (!entry) continue;
    message.rkeys.push(*entry);
    group.local_rmbs.set_announced(rmb, bit(link_));
  }
  return message;
}

void AddLinkFlow::handle_prepared(LinkGroupParts& group, const LinkOffer& offer, TimePoint now) {
  offer_ = offer;
  group.links[link_].emplace(group.server() ? group.links.next_number() : request_->link,
                             offer.local, now);
  if (group.server()) {
    step_ = Step::kAwaitingAnswer;
    deadline_ = now + kLlcAnswerWait;
    return group.out.send(carrier_, describe_link(group, wire::LlcKind::kRequest));
  }
  offer_.mtu = std::min(offer.mtu, static_cast<Mtu>(request_->mtu_code));
  connect(group, *request_, offer_.mtu);
}

AddLinkFlow::Outcome AddLinkFlow::take(LinkGroupParts& group, LinkIndex link,
                                       const wire::AddLink& answer) {
  if (step_ != Step::kAwaitingAnswer || link != carrier_ ||
      answer.link != group.links[link_]->number())
    return {};
  if (answer.rejected) {
    step_ = Step::kPreparing;  // the client does not wait for the link
    return {FlowStep::kFailed, "the peer rejects another link"};
  }
  if (answer.mtu_code < 1 || answer.mtu_code > static_cast<std::uint8_t>(offer_.mtu))
    return {FlowStep::kFailed, "the peer's MTU is out of range"};
  group.peer_rmbs.learn(carrier_, link_, answer.rkeys.view());
  connect(group, answer, static_cast<Mtu>(answer.mtu_code));
  return {};
}

void AddLinkFlow::connect(LinkGroupParts& group, const wire::AddLink& peer, Mtu mtu) {
  group.links[link_]->set_peer(identity_of(peer));
  step_ = Step::kConnecting;
  group.out.add_task(
      {LinkTask::Kind::kConnect, link_, 0, {identity_of(peer), peer.first_psn, mtu}});
}

void AddLinkFlow::handle_connected(LinkGroupParts& group, TimePoint now) {
  if (step_ != Step::kConnecting) return;
  if (!group.server()) {
    group.peer_rmbs.learn(carrier_, link_, request_->rkeys.view());
    deadline_ = now + kAddedLinkWait;
    step_ = group.version_1() ? Step::kExchangingKeys : Step::kAwaitingConfirm;
    return group.out.send(carrier_, describe_link(group, wire::LlcKind::kResponse));
  }
  if (!group.version_1()) return ask_to_confirm(group, now);
  step_ = Step::kExchangingKeys;
  deadline_ = now + kLlcAnswerWait;
  send_keys(group, wire::LlcKind::kRequest);
}

// Both sides list their keys by turns, until both have listed all.
void AddLinkFlow::send_keys(LinkGroupParts& group, wire::LlcKind kind) {
  const std::size_t rows = group.local_rmbs.keys().rows();
  wire::AddLinkCont message;
  message.kind = kind;
  message.link = group.links[link_]->number();
  std::size_t left = 0;
  for (std::size_t row = next_rmb_; row < rows; ++row) {
    const auto rmb = static_cast<RmbRow>(row);
    const auto entry = group.local_rmbs.entry(rmb, carrier_, link_);
    if (!entry || left++ >= kKeysPerCont) continue;
    message.rkeys.push(*entry);
    next_rmb_ = row + 1;
    group.local_rmbs.set_announced(rmb, bit(link_));
  }
  if (left <= kKeysPerCont) next_rmb_ = rows;
  message.rkeys_left = static_cast<std::uint8_t>(left);
  group.out.send(carrier_, message);
}

AddLinkFlow::Outcome AddLinkFlow::take(LinkGroupParts& group, LinkIndex link,
                                       const wire::AddLinkCont& message, TimePoint now) {
  if (!exchanges_keys() || link != carrier_ || message.link != group.links[link_]->number())
    return {};
  const bool server = group.server();
  if (message.kind != (server ? wire::LlcKind::kResponse : wire::LlcKind::kRequest)) return {};
  group.peer_rmbs.learn(carrier_, link_, message.rkeys.view());
  const auto all_listed = [&] {
    return message.rkeys_left <= kKeysPerCont && next_rmb_ >= group.local_rmbs.keys().rows();
  };
  if (server && all_listed()) {
    ask_to_confirm(group, now);
    return {};
  }
  // A peer that never comes to an end is stopped by the number of keys that there can be.
  if (++rounds_ > kRmbsMax)
    return {FlowStep::kFailed, "the peer does not come to an end of its keys"};
  deadline_ = now + (server ? kLlcAnswerWait : kAddedLinkWait);
  send_keys(group, server ? wire::LlcKind::kRequest : wire::LlcKind::kResponse);
  if (!server && all_listed()) step_ = Step::kAwaitingConfirm;
  return {};
}

void AddLinkFlow::ask_to_confirm(LinkGroupParts& group, TimePoint now) {
  step_ = Step::kAwaitingConfirm;
  deadline_ = now + kAddedLinkWait;
  group.links[link_]->set_confirm_sent(now);
  group.send_confirm_link(link_, wire::LlcKind::kRequest);
}

void AddLinkFlow::fail(LinkGroupParts& group, const char* why) {
  LinkNumber number;
  if (group.links[link_]) {
    number = group.links[link_]->number();
    group.release(link_);
  }
  group.emit(GroupEvent::Kind::kLinkNotAdded, link_, number, why);
  // A client that has heard of the link may wait for it, and rejects any other meanwhile.
  const bool promised = step_ == Step::kExchangingKeys || step_ == Step::kAwaitingConfirm ||
                        (group.server() && step_ != Step::kPreparing);
  if (promised) {
    wire::DeleteLink message;
    message.link = number;
    message.reason = wire::DeleteLinkReason::kPathLost;
    group.out.send(carrier_, message);
  } else if (request_) {
    reject_add_link(carrier_, *request_, group.out);
  }
}

}  // namespace fairlead::smc
