// Deleting a link in good order: DELETE_LINK over another link, and the peer's answer. The link is
// taken down after the answer, or after the wait for it.
#pragma once

#include "base/time.h"
#include "smc/group/link_group_parts.h"
#include "wire/llc.h"

namespace fairlead::smc {

class DeleteLinkFlow {
 public:
  // REQUIRES: both links are active, and deletion() of the link says why
  static DeleteLinkFlow begin(LinkGroupParts& group, LinkIndex link, LinkIndex carrier,
                              TimePoint now) {
    wire::DeleteLink message;
    message.orderly = true;
    message.link = group.links[link]->number();
    message.reason = *group.links[link]->deletion();
    group.out.send(carrier, message);
    return DeleteLinkFlow(link, carrier, now + kLlcAnswerWait);
  }

  LinkIndex link() const { return link_; }
  LinkIndex carrier() const { return carrier_; }
  TimePoint deadline() const { return deadline_; }

  FlowStep take(const LinkGroupParts& group, const wire::DeleteLink& answer) const {
    const std::optional<Link>& link = group.links[link_];
    return link && link->number() == answer.link ? FlowStep::kDone : FlowStep::kRuns;
  }

 private:
  DeleteLinkFlow(LinkIndex link, LinkIndex carrier, TimePoint deadline)
      : link_(link), carrier_(carrier), deadline_(deadline) {}

  LinkIndex link_;
  LinkIndex carrier_;
  TimePoint deadline_;
};

}  // namespace fairlead::smc
