#include "smc/group/peer_rmbs.h"

#include <utility>

namespace fairlead::smc {
namespace {

void emit_deleted(LinkIndex link, RemoteKey rkey, LinkGroupOutput& out) {
  GroupEvent event{GroupEvent::Kind::kRkeyDeleted};
  event.link = link;
  event.rkey = rkey;
  out.emit(event);
}

}  // namespace

wire::ConfirmRkey PeerRmbs::refuse(LinkIndex link, const wire::ConfirmRkey& request) {
  wire::ConfirmRkey answer = request;
  answer.kind = wire::LlcKind::kResponse;
  answer.refused = true;
  answer.retry = false;
  continued_[link].reset();
  return answer;
}

wire::ConfirmRkey PeerRmbs::answer(LinkIndex link, const wire::ConfirmRkey& request,
                                   const LinkSet& links, std::optional<LinkIndex> listed) {
  wire::ConfirmRkey answer = request;
  answer.kind = wire::LlcKind::kResponse;
  answer.retry = false;
  // One that is known by another link already is announced again when links were added since.
  std::optional<RmbRow> row;
  for (const wire::RkeyOnLink& other : request.others.view())
    if (const auto named = links.find(other.link); named && !row)
      row = keys_.find(*named, RmbKey{other.rkey, other.address});
  if (row)
    keys_.set(*row, link, {request.rkey, request.address});
  else
    row = keys_.add(link, {request.rkey, request.address});
  set_keys(row, request.others.view(), links);
  answer.refused = !row;
  if (row && request.to_follow == 0)
    answer.refused = answer.retry = listed && !keys_.key(*row, *listed);
  continued_[link].reset();
  if (request.to_follow != 0) continued_[link] = Continued{row, request.to_follow};
  return answer;
}

Result<wire::ConfirmRkeyCont> PeerRmbs::answer(LinkIndex link, const wire::ConfirmRkeyCont& request,
                                               const LinkSet& links,
                                               std::optional<LinkIndex> listed) {
  const std::optional<Continued> begun = std::exchange(continued_[link], std::nullopt);
  if (!begun)
    return Error{Errc::kMalformed, "the peer continued a CONFIRM_RKEY that it had not begun"};
  if (request.others.count + request.to_follow != begun->to_follow)
    return Error{Errc::kMalformed,
                 "the peer's CONFIRM_RKEY_CONT does not have the announced count of links"};
  wire::ConfirmRkeyCont answer = request;
  answer.kind = wire::LlcKind::kResponse;
  answer.retry = false;
  set_keys(begun->row, request.others.view(), links);
  answer.refused = !begun->row;
  if (begun->row && request.to_follow == 0)
    answer.refused = answer.retry = listed && !keys_.key(*begun->row, *listed);
  if (request.to_follow != 0) continued_[link] = Continued{begun->row, request.to_follow};
  return answer;
}

void PeerRmbs::set_keys(std::optional<RmbRow> row, std::span<const wire::RkeyOnLink> keys,
                        const LinkSet& links) {
  if (!row) return;
  for (const wire::RkeyOnLink& key : keys)
    // A link that has gone meanwhile is no reason to refuse the others.
    if (const auto named = links.find(key.link)) keys_.set(*row, *named, {key.rkey, key.address});
}

wire::DeleteRkey PeerRmbs::answer(LinkIndex link, const wire::DeleteRkey& request, bool version_1,
                                  LinkGroupOutput& out) {
  wire::DeleteRkey answer;
  answer.kind = wire::LlcKind::kResponse;
  unsigned index = 0;
  for (const RemoteKey& rkey : request.rkeys.view()) {
    const std::optional<RmbRow> row = keys_.find(link, rkey);
    emit_deleted(link, rkey, out);
    if (row) {
      // The same RMB under the keys of other links.
      for (LinkIndex i = 0; i < kLinksMax; ++i)
        if (const auto& key = keys_.key(*row, i); key && key->rkey != rkey)
          emit_deleted(i, key->rkey, out);
      keys_.remove(*row);
      for (std::optional<Continued>& continued : continued_)
        if (continued && continued->row == row) continued->row.reset();
    } else {
      answer.some_unknown = true;
      answer.error_mask = static_cast<std::uint8_t>(version_1 ? answer.error_mask | 0x80U >> index
                                                              : answer.error_mask + 1U);
    }
    ++index;
  }
  // The mask of version 1 counts the keys of the answer.
  if (version_1)
    answer.rkeys = request.rkeys;
  else if (!request.rkeys.view().empty())
    answer.rkeys.push(request.rkeys.items[0]);
  return answer;
}

void PeerRmbs::learn(LinkIndex known_on, LinkIndex added,
                     std::span<const wire::RkeyEntry> entries) {
  for (const wire::RkeyEntry& entry : entries)
    if (const auto row = keys_.find(known_on, entry.known_rkey))
      keys_.set(*row, added, {entry.new_rkey, entry.new_address});
}

}  // namespace fairlead::smc
