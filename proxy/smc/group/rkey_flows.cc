#include "smc/group/rkey_flows.h"

#include "base/assert.h"

namespace fairlead::smc {

ConfirmRkeyFlow ConfirmRkeyFlow::begin(LinkGroupParts& group, RmbRow rmb, TimePoint now) {
  ConfirmRkeyFlow flow(rmb, 0, now + kLlcAnswerWait);
  wire::ConfirmRkey request;
  std::optional<LinkIndex> carrier;
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!group.links.active(i)) continue;
    flow.on_ |= bit(i);
    const std::optional<RmbKey>& key = group.local_rmbs.keys().key(rmb, i);
    if (!key) continue;
    if (!carrier) {
      carrier = i;
      request.rkey = key->rkey;
      request.address = key->address;
      continue;
    }
    const wire::RkeyOnLink other{group.links[i]->number(), key->rkey, key->address};
    if (request.others.count < request.others.items.size())
      request.others.push(other);
    else
      flow.rest_.push_back(other);
  }
  SMC_ASSERT(carrier.has_value(), rmb);
  flow.carrier_ = *carrier;
  request.to_follow = static_cast<std::uint8_t>(flow.rest_.size());
  group.out.send(*carrier, request);
  return flow;
}

FlowStep ConfirmRkeyFlow::take(LinkGroupParts& group, LinkIndex link,
                               const wire::ConfirmRkey& answer, TimePoint now) {
  if (link != carrier_ || cont_) return FlowStep::kRuns;
  const std::optional<RmbKey>& asked = group.local_rmbs.keys().key(rmb_, link);
  if (!asked || asked->rkey != answer.rkey) return FlowStep::kRuns;
  return take_answer(group, answer.refused, answer.retry, now);
}

FlowStep ConfirmRkeyFlow::take(LinkGroupParts& group, LinkIndex link,
                               const wire::ConfirmRkeyCont& answer, TimePoint now) {
  if (link != carrier_ || !cont_ || answer.others.view().empty() ||
      !(answer.others.items[0] == *cont_))
    return FlowStep::kRuns;
  return take_answer(group, answer.refused, answer.retry, now);
}

// Each message is answered before the next is sent.
FlowStep ConfirmRkeyFlow::take_answer(LinkGroupParts& group, bool refused, bool retry,
                                      TimePoint now) {
  if (!refused && !rest_.empty()) {
    send_rest(group, now);
    return FlowStep::kRuns;
  }
  accepted_ = !refused;
  return refused && retry ? FlowStep::kFailed : FlowStep::kDone;
}

void ConfirmRkeyFlow::send_rest(LinkGroupParts& group, TimePoint now) {
  wire::ConfirmRkeyCont request;
  while (!rest_.empty() && request.others.count < request.others.items.size()) {
    request.others.push(rest_.front());
    rest_.erase(rest_.begin());
  }
  request.to_follow = static_cast<std::uint8_t>(rest_.size());
  cont_ = request.others.items[0];
  group.out.send(carrier_, request);
  deadline_ = now + kLlcAnswerWait;
}

void ConfirmRkeyFlow::finish(LinkGroupParts& group) const {
  if (!accepted_) group.local_rmbs.set_refused(rmb_);
  group.local_rmbs.set_announced(rmb_, on_);
  GroupEvent event{accepted_ ? GroupEvent::Kind::kRmbAnnounced : GroupEvent::Kind::kRmbRefused};
  event.rmb = rmb_;
  group.out.emit(event);
}

// The key of one link stands for those of all.
DeleteRkeyFlow DeleteRkeyFlow::begin(LinkGroupParts& group, const LocalRmbs::Request& what,
                                     TimePoint now) {
  wire::DeleteRkey request;
  request.rkeys.push(group.local_rmbs.keys().key(what.rmb, what.carrier)->rkey);
  group.out.send(what.carrier, request);
  group.local_rmbs.set_deletion_requested(what);
  return DeleteRkeyFlow(what.carrier, now + kLlcAnswerWait);
}

}  // namespace fairlead::smc
