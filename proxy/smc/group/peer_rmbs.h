// The RMBs of the peer in a link group: what it has announced, and its answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "smc/group/link_group_output.h"
#include "smc/group/link_set.h"
#include "smc/group/rmb_keys.h"
#include "wire/llc.h"

namespace fairlead::smc {

class PeerRmbs {
 public:
  const RmbKeys& keys() const { return keys_; }

  // The one that the Accept or Confirm of the first contact names. Later ones are announced over a
  // link (CONFIRM_RKEY), which only the peer can do. An Accept or Confirm over TCP may claim any
  // peer's id, and a write to an invented key ends the link.
  void add_first(LinkIndex link, const RmbKey& key) { (void)keys_.add(link, key); }

  // Requests of the peer, and the answers to them. `listed`: a link that is being added, if the
  // peer has listed its keys for it. An RMB that the list lacks would not be reachable on that
  // link, so the answer asks the peer to announce it again later.
  wire::ConfirmRkey answer(LinkIndex link, const wire::ConfirmRkey& request, const LinkSet& links,
                           std::optional<LinkIndex> listed);
  wire::ConfirmRkey refuse(LinkIndex link, const wire::ConfirmRkey& request);
  // An error where the continuation does not follow from what the peer began.
  Result<wire::ConfirmRkeyCont> answer(LinkIndex link, const wire::ConfirmRkeyCont& request,
                                       const LinkSet& links, std::optional<LinkIndex> listed);
  // kRkeyDeleted for each key that the peer deletes, also for those of the same RMB on other links.
  wire::DeleteRkey answer(LinkIndex link, const wire::DeleteRkey& request, bool version_1,
                          LinkGroupOutput& out);

  // ADD_LINK and ADD_LINK_CONT list what is known on one link for another.
  void learn(LinkIndex known_on, LinkIndex added, std::span<const wire::RkeyEntry> entries);

  // What the peer began there has no continuation.
  void handle_link_gone(LinkIndex link) { continued_[link].reset(); }
  // Its index is used for another link.
  void forget_link(LinkIndex link) { keys_.remove_link(link); }

 private:
  // A CONFIRM_RKEY whose continuations are awaited.
  struct Continued {
    std::optional<RmbRow> row;  // empty: refused
    std::uint8_t to_follow = 0;
  };

  void set_keys(std::optional<RmbRow> row, std::span<const wire::RkeyOnLink> keys,
                const LinkSet& links);

  RmbKeys keys_;
  std::array<std::optional<Continued>, kLinksMax> continued_;  // by the link that carries them
};

}  // namespace fairlead::smc
