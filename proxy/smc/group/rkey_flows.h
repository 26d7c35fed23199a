// The flows about RMBs of this side. ConfirmRkeyFlow announces one to the peer before it is used
// (CONFIRM_RKEY, in up to three messages where there are many links). DeleteRkeyFlow has the peer
// forget one that is not needed (DELETE_RKEY).
#pragma once

#include <optional>
#include <vector>

#include "base/time.h"
#include "smc/group/link_group_parts.h"
#include "wire/llc.h"

namespace fairlead::smc {

class ConfirmRkeyFlow {
 public:
  // REQUIRES: the RMB has a key on an active link
  static ConfirmRkeyFlow begin(LinkGroupParts& group, RmbRow rmb, TimePoint now);

  LinkIndex carrier() const { return carrier_; }
  TimePoint deadline() const { return deadline_; }

  // kDone: the peer knows the RMB, or refuses it for good. kFailed: it asks for a repetition.
  FlowStep take(LinkGroupParts& group, LinkIndex link, const wire::ConfirmRkey& answer,
                TimePoint now);
  FlowStep take(LinkGroupParts& group, LinkIndex link, const wire::ConfirmRkeyCont& answer,
                TimePoint now);
  // Notes the result. Refused or not, the RMB is not announced again before another link comes:
  // the connections that wait for it must know.
  void finish(LinkGroupParts& group) const;

 private:
  ConfirmRkeyFlow(RmbRow rmb, LinkIndex carrier, TimePoint deadline)
      : rmb_(rmb), carrier_(carrier), deadline_(deadline) {}

  FlowStep take_answer(LinkGroupParts& group, bool refused, bool retry, TimePoint now);
  void send_rest(LinkGroupParts& group, TimePoint now);

  RmbRow rmb_;
  LinkIndex carrier_;
  TimePoint deadline_;
  LinkBits on_ = 0;                       // the links that are announced
  std::vector<wire::RkeyOnLink> rest_;    // for continuations
  std::optional<wire::RkeyOnLink> cont_;  // the first of the continuation under way
  bool accepted_ = false;
};

class DeleteRkeyFlow {
 public:
  static DeleteRkeyFlow begin(LinkGroupParts& group, const LocalRmbs::Request& what, TimePoint now);

  LinkIndex carrier() const { return carrier_; }
  TimePoint deadline() const { return deadline_; }

 private:
  DeleteRkeyFlow(LinkIndex carrier, TimePoint deadline) : carrier_(carrier), deadline_(deadline) {}

  LinkIndex carrier_;
  TimePoint deadline_;
};

}  // namespace fairlead::smc
