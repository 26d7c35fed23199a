// Keys of RMBs: ours are told to the peer before they are used (CONFIRM_RKEY) and taken
// back when the RMB is not needed any more (DELETE_RKEY); the peer's are remembered for all links.

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "smc/link_group.h"

namespace fairlead::smc {
namespace {

constexpr std::uint8_t bit(LinkIndex link) { return static_cast<std::uint8_t>(1U << link); }

}  // namespace

Result<RmbRow> LinkGroup::add_rmb(LinkIndex link, const RmbKey& key) {
  const std::optional<RmbRow> row = own_rmbs_.add(link, key);
  if (!row) return Error{Errc::kExhausted, "RMBs of the link group"};
  // Of this one the first Accept or Confirm speaks, before any LLC message can.
  if (state_ == State::kForming) told_on_[*row] |= bit(link);
  return *row;
}

bool LinkGroup::rmb_told(RmbRow rmb) const {
  // An Accept or Confirm may still be on its way when ADD_LINK lists the keys, and what is listed
  // must be known by then.
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (active(i) && (told_on_[rmb] & bit(i)) == 0) return false;
  return true;
}

bool LinkGroup::start_telling(TimePoint now) {
  if (telling_.again) return false;
  for (std::size_t row = 0; row < own_rmbs_.rows(); ++row) {
    const auto rmb = static_cast<RmbRow>(row);
    if (!own_rmbs_.used(rmb) || parting_[rmb] > Parting::kRefused || rmb_told(rmb)) continue;
    wire::ConfirmRkey request;
    std::optional<LinkIndex> carrier;
    telling_.on = 0;
    telling_.rest.clear();
    telling_.cont.reset();
    for (LinkIndex i = 0; i < kLinksMax; ++i) {
      if (!active(i)) continue;
      telling_.on |= bit(i);
      const std::optional<RmbKey>& key = own_rmbs_.key(rmb, i);
      if (!key) continue;
      if (carrier) {
        const wire::RkeyOnLink other{links_[i]->number(), key->rkey, key->address};
        if (request.others.count < request.others.items.size())
          request.others.push(other);
        else
          telling_.rest.push_back(other);
        continue;
      }
      carrier = i;
      request.rkey = key->rkey;
      request.address = key->address;
    }
    SMC_ASSERT(carrier.has_value(), row);
    request.to_follow = static_cast<std::uint8_t>(telling_.rest.size());
    send(*carrier, request);
    flow_ = Flow::kConfirmRkey;
    flow_carrier_ = *carrier;
    flow_deadline_ = now + kLlcAnswerWait;
    telling_.rmb = rmb;
    return true;
  }
  return false;
}

// Each message is answered before the next is sent.
void LinkGroup::tell_rest(TimePoint now) {
  wire::ConfirmRkeyCont request;
  while (!telling_.rest.empty() && request.others.count < request.others.items.size()) {
    request.others.push(telling_.rest.front());
    telling_.rest.erase(telling_.rest.begin());
  }
  request.to_follow = static_cast<std::uint8_t>(telling_.rest.size());
  telling_.cont = request.others.items[0];
  send(flow_carrier_, request);
  flow_deadline_ = now + kLlcAnswerWait;
}

void LinkGroup::take_tell_answer(bool refused, bool retry, TimePoint now) {
  if (!refused && !telling_.rest.empty()) return tell_rest(now);
  if (!refused || !retry || telling_.retries_left == 0) return told(!refused, now);
  --telling_.retries_left;
  telling_.again = now + kTellRetryWait;
  end_flow();
  start_next_flow(now);
}

// Refused or not, it is not asked again before another link comes: the connections that wait for it
// must know. Those in an RMB that the peer knows by another link are as well off as with that link
// alone.
void LinkGroup::told(bool accepted, TimePoint now) {
  telling_.retries_left = kTellRetriesMax;
  Parting& parting = parting_[telling_.rmb];
  if (!accepted && told_on_[telling_.rmb] == 0 && parting == Parting::kNo)
    parting = Parting::kRefused;
  told_on_[telling_.rmb] |= telling_.on;
  GroupEvent event{accepted ? GroupEvent::Kind::kRmbTold : GroupEvent::Kind::kRmbRefused};
  event.rmb = telling_.rmb;
  emit(event);
  end_flow();
  start_next_flow(now);
}

void LinkGroup::set_peer_keys(std::optional<RmbRow> row, std::span<const wire::RkeyOnLink> keys) {
  if (!row) return;
  for (const wire::RkeyOnLink& key : keys)
    // A link that has gone meanwhile is no reason to refuse the others.
    if (const auto named = find_number(key.link))
      peer_rmbs_.set(*row, *named, {key.rkey, key.address});
}

// The peer has listed its keys for a link that is being added, and this RMB was not among them. It
// could not be reached over that link.
bool LinkGroup::lacks_new_link(RmbRow row) const {
  return adding(AddStep::kAwaitingConfirm) && !peer_rmbs_.key(row, flow_link_);
}

void LinkGroup::take(LinkIndex link, const wire::ConfirmRkey& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kResponse) {
    if (flow_ != Flow::kConfirmRkey || link != flow_carrier_ || telling_.cont) return;
    const std::optional<RmbKey>& asked = own_rmbs_.key(telling_.rmb, link);
    if (asked && asked->rkey == message.rkey) take_tell_answer(message.refused, message.retry, now);
    return;
  }
  wire::ConfirmRkey answer = message;
  answer.kind = wire::LlcKind::kResponse;
  answer.refused = answer.retry = false;
  // One that is known by another link already is told again when links have come since.
  std::optional<RmbRow> row;
  for (const wire::RkeyOnLink& other : message.others.view())
    if (const auto named = find_number(other.link); named && !row)
      row = peer_rmbs_.find(*named, RmbKey{other.rkey, other.address});
  if (row)
    peer_rmbs_.set(*row, link, {message.rkey, message.address});
  else
    row = peer_rmbs_.add(link, {message.rkey, message.address});
  set_peer_keys(row, message.others.view());
  answer.refused = !row;
  if (row && message.to_follow == 0) answer.refused = answer.retry = lacks_new_link(*row);
  continued_[link].reset();
  if (message.to_follow != 0) continued_[link] = Continued{row, message.to_follow};
  send(link, answer);
}

void LinkGroup::take(LinkIndex link, const wire::ConfirmRkeyCont& message, TimePoint now) {
  if (message.kind == wire::LlcKind::kResponse) {
    const bool awaited = flow_ == Flow::kConfirmRkey && link == flow_carrier_ && telling_.cont;
    if (awaited && !message.others.view().empty() && message.others.items[0] == *telling_.cont)
      take_tell_answer(message.refused, message.retry, now);
    return;
  }
  // A link that is lost here takes what was begun on it along.
  if (!active(link)) return;
  const std::optional<Continued> begun = std::exchange(continued_[link], std::nullopt);
  if (!begun)
    return terminate(wire::DeleteLinkReason::kProtocolViolation, true,
                     "the peer continued a CONFIRM_RKEY that it had not begun");
  if (message.others.count + message.to_follow != begun->to_follow)
    return terminate(wire::DeleteLinkReason::kProtocolViolation, true,
                     "the peer's CONFIRM_RKEY_CONT does not have the announced count of links");
  wire::ConfirmRkeyCont answer = message;
  answer.kind = wire::LlcKind::kResponse;
  answer.retry = false;
  set_peer_keys(begun->row, message.others.view());
  answer.refused = !begun->row;
  if (begun->row && message.to_follow == 0)
    answer.refused = answer.retry = lacks_new_link(*begun->row);
  if (message.to_follow != 0) continued_[link] = Continued{begun->row, message.to_follow};
  send(link, answer);
}

// What ADD_LINK and ADD_LINK_CONT name by its key on a link, the peer has to know there.
bool LinkGroup::may_list(std::size_t row, LinkIndex known_on) const {
  return parting_[row] <= Parting::kWanted && (told_on_[row] & bit(known_on)) != 0;
}

void LinkGroup::delete_rmb(RmbRow rmb, TimePoint now) {
  SMC_ASSERT(own_rmbs_.used(rmb), rmb);
  if (parting_[rmb] <= Parting::kRefused) parting_[rmb] = Parting::kWanted;
  start_next_flow(now);
}

void LinkGroup::remove_rmb(RmbRow rmb) {
  SMC_ASSERT(rmb_deleted(rmb), rmb);
  own_rmbs_.remove(rmb);
  told_on_[rmb] = 0;
  parting_[rmb] = Parting::kNo;
}

// The oldest that has a key of the RMB and owes no answer.
std::optional<LinkIndex> LinkGroup::link_to_ask(RmbRow rmb) const {
  std::optional<LinkIndex> best;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (active(i) && own_rmbs_.key(rmb, i) && !asked_[i] &&
        (!best || links_[i]->number() < links_[*best]->number()))
      best = i;
  return best;
}

// The key of one link stands for those of all.
bool LinkGroup::start_deleting(TimePoint now) {
  if (llc_.full()) return false;  // a question that is dropped has no answer
  for (std::size_t row = 0; row < own_rmbs_.rows(); ++row) {
    const auto rmb = static_cast<RmbRow>(row);
    if (parting_[rmb] != Parting::kWanted) continue;
    const std::optional<LinkIndex> carrier = link_to_ask(rmb);
    if (!carrier) continue;
    wire::DeleteRkey request;
    request.rkeys.push(own_rmbs_.key(rmb, *carrier)->rkey);
    send(*carrier, request);
    parting_[rmb] = Parting::kAsked;
    asked_[*carrier] = rmb;
    flow_ = Flow::kDeleteRkey;
    flow_carrier_ = *carrier;
    flow_deadline_ = now + kLlcAnswerWait;
    return true;
  }
  return false;
}

// The link is gone, and the answer with it. A peer that has heard the question answers the next one
// that it does not know the key.
void LinkGroup::ask_again_elsewhere(LinkIndex link) {
  if (asked_[link]) parting_[*asked_[link]] = Parting::kWanted;
  asked_[link].reset();
}

// A key that the peer does not know is one that it does not write to.
void LinkGroup::take_delete_answer(LinkIndex link, const wire::DeleteRkey& answer, TimePoint now) {
  if (!asked_[link]) return;
  const RmbRow rmb = *asked_[link];
  const RemoteKey named = answer.rkeys.view().empty() ? RemoteKey{} : answer.rkeys.items[0];
  // Linux leaves the keys out of its answers of version 2.
  if (named.value != 0 && named != own_rmbs_.key(rmb, link)->rkey) return;
  asked_[link].reset();
  parting_[rmb] = Parting::kDeleted;
  if (flow_ == Flow::kDeleteRkey && flow_carrier_ == link) end_flow();
  start_next_flow(now);
}

void LinkGroup::emit_deleted(LinkIndex link, RemoteKey rkey) {
  GroupEvent event{GroupEvent::Kind::kRkeyDeleted};
  event.link = link;
  event.rkey = rkey;
  emit(event);
}

void LinkGroup::take(LinkIndex link, const wire::DeleteRkey& message, TimePoint now) {
  if (message.kind != wire::LlcKind::kRequest) return take_delete_answer(link, message, now);
  wire::DeleteRkey answer;
  answer.kind = wire::LlcKind::kResponse;
  unsigned index = 0;
  for (const RemoteKey& rkey : message.rkeys.view()) {
    const std::optional<RmbRow> row = peer_rmbs_.find(link, rkey);
    emit_deleted(link, rkey);
    if (row) {
      // The same RMB under the keys of other links.
      for (LinkIndex i = 0; i < kLinksMax; ++i)
        if (const auto& key = peer_rmbs_.key(*row, i); key && key->rkey != rkey)
          emit_deleted(i, key->rkey);
      peer_rmbs_.remove(*row);
      for (std::optional<Continued>& continued : continued_)
        if (continued && continued->row == row) continued->row.reset();
    } else {
      answer.some_unknown = true;
      answer.error_mask = static_cast<std::uint8_t>(
          terms_.version == 1 ? answer.error_mask | 0x80U >> index : answer.error_mask + 1U);
    }
    ++index;
  }
  // The mask of version 1 counts the keys of the answer.
  if (terms_.version == 1)
    answer.rkeys = message.rkeys;
  else if (!message.rkeys.view().empty())
    answer.rkeys.push(message.rkeys.items[0]);
  send(link, answer);
}

void LinkGroup::learn_keys(LinkIndex known_on, LinkIndex on,
                           std::span<const wire::RkeyEntry> entries) {
  for (const wire::RkeyEntry& entry : entries)
    if (const auto row = peer_rmbs_.find(known_on, entry.known_rkey))
      peer_rmbs_.set(*row, on, {entry.new_rkey, entry.new_address});
}

// Version 1: two keys a message, by turns, until both sides have told all.
void LinkGroup::send_keys(wire::LlcKind kind) {
  wire::AddLinkCont message;
  message.kind = kind;
  message.link = links_[flow_link_]->number();
  std::size_t left = 0;
  const std::size_t begin = keys_.next;
  for (std::size_t row = begin; row < own_rmbs_.rows(); ++row) {
    const std::optional<RmbKey>& known = own_rmbs_.key(static_cast<RmbRow>(row), flow_carrier_);
    const std::optional<RmbKey>& now = own_rmbs_.key(static_cast<RmbRow>(row), flow_link_);
    if (!known || !now || !may_list(row, flow_carrier_)) continue;
    if (left++ < 2) {
      message.rkeys.push({known->rkey, now->rkey, now->address});
      keys_.next = row + 1;
      told_on_[row] |= bit(flow_link_);
    }
  }
  if (left <= 2) keys_.next = own_rmbs_.rows();
  message.rkeys_left = static_cast<std::uint8_t>(left);
  send(flow_carrier_, message);
}

void LinkGroup::take(LinkIndex link, const wire::AddLinkCont& message, TimePoint now) {
  // One that comes too late belongs to a link that was given up.
  if (!keys_.described[message.link.value])
    return terminate(wire::DeleteLinkReason::kProtocolViolation, false,
                     "the peer continued an ADD_LINK that it had not begun");
  if (!adding(AddStep::kExchangingKeys) || link != flow_carrier_ ||
      message.link != links_[flow_link_]->number())
    return;
  const bool server = role_ == GroupRole::kServer;
  if (message.kind != (server ? wire::LlcKind::kResponse : wire::LlcKind::kRequest)) return;
  learn_keys(flow_carrier_, flow_link_, message.rkeys.view());
  const bool heard_all = message.rkeys_left <= 2;
  if (server && heard_all && keys_.next >= own_rmbs_.rows()) return ask_to_confirm(now);
  // A peer that never comes to an end is stopped by the number of keys that there can be.
  if (++keys_.rounds > kRmbsMax)
    return add_failed("the peer does not come to an end of its keys", now);
  flow_deadline_ = now + (server ? kLlcAnswerWait : kAddedLinkWait);
  send_keys(server ? wire::LlcKind::kRequest : wire::LlcKind::kResponse);
  if (!server && heard_all && keys_.next >= own_rmbs_.rows()) add_step_ = AddStep::kAwaitingConfirm;
}

}  // namespace fairlead::smc
