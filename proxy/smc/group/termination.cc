#include "smc/group/termination.h"

namespace fairlead::smc {
namespace {

std::optional<LinkIndex> send(LinkGroupParts& group, wire::DeleteLinkReason reason, bool orderly) {
  wire::DeleteLink message;
  message.all = true;
  message.orderly = orderly;
  message.reason = reason;
  const std::optional<LinkIndex> carrier = group.links.any();
  if (carrier) group.out.send(*carrier, message);
  return carrier;
}

// DELETE_LINK without "orderly", as Linux sends it after it has aborted all connections. Linux
// sends it without being asked, and does not wait for ours. A Fairlead peer waits for it.
void answer(LinkGroupParts& group) { (void)send(group, wire::DeleteLinkReason::kProgram, false); }

}  // namespace

std::optional<LinkIndex> Termination::begin(LinkGroupParts& group, wire::DeleteLinkReason reason,
                                            bool orderly) {
  const std::optional<LinkIndex> carrier = send(group, reason, orderly);
  if (!carrier) peer_terminated_ = true;
  return carrier;
}

void Termination::take_first(LinkGroupParts& group, const wire::DeleteLink& message) {
  if (message.orderly) answer(group);
  peer_terminated_ = true;
}

void Termination::take_later(LinkGroupParts& group, const wire::LlcMessage& message) {
  const auto* last = std::get_if<wire::DeleteLink>(&message.body);
  if (last == nullptr || !last->all || peer_terminated_) return;
  if (last->orderly) {
    // A Linux server sends our request back before it aborts its connections: not its last message.
    if (!group.server()) return;
    // A client's own request has crossed ours, and it waits for our final message, too.
    answer(group);
  }
  peer_terminated_ = true;
}

}  // namespace fairlead::smc
