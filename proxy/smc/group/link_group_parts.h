// What the flows of a link group share. LinkGroup owns it and passes it to the flow that acts.
#pragma once

#include <bitset>
#include <cstdint>

#include "base/ids.h"
#include "smc/clc/negotiate.h"
#include "smc/group/link_group_output.h"
#include "smc/group/link_set.h"
#include "smc/group/local_rmbs.h"
#include "smc/group/peer_rmbs.h"
#include "wire/llc.h"

namespace fairlead::smc {

enum class GroupRole : std::uint8_t { kServer, kClient };

struct LinkGroupParts {
  GroupRole role;
  Terms terms;
  LinkGroupOutput out;
  LinkSet links;
  LocalRmbs local_rmbs;
  PeerRmbs peer_rmbs;
  std::bitset<256> described;  // link numbers that an ADD_LINK of this side has used

  LinkGroupParts(GroupRole group_role, const Terms& group_terms, unsigned links_max, TimePoint now)
      : role(group_role),
        terms(group_terms),
        out(group_terms.version == 1 ? wire::LlcVersion::k1 : wire::LlcVersion::k2),
        links(links_max, group_terms.max_connections, now) {}

  bool server() const { return role == GroupRole::kServer; }
  bool version_1() const { return terms.version == 1; }

  void emit(GroupEvent::Kind kind, LinkIndex link, LinkNumber number, const char* why);
  void emit(GroupEvent::Kind kind, LinkIndex link, const char* why) {
    emit(kind, link, links[link] ? links[link]->number() : LinkNumber{}, why);
  }
  void send_confirm_link(LinkIndex link, wire::LlcKind kind);
  // Afterwards nothing may refer to the link. Its index is free once the owner has done the task.
  void release(LinkIndex link);
  // An index for a new link. Until now the keys of the link that had it stay known, because an
  // Accept may still be on its way that names it. REQUIRES: an index is free.
  LinkIndex reuse_index();
};

// What a flow says of itself after each message, report or deadline.
enum class FlowStep : std::uint8_t {
  kRuns,
  kDone,    // what it was started for is done, or cannot be and needs no repetition
  kFailed,  // not done
};

}  // namespace fairlead::smc
