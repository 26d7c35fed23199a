// The RMBs of this side of a link group: their keys on each link, the links on which the peer knows
// them, and which are being deleted. Sends nothing: the flows ask what there is to say.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "smc/group/link_set.h"
#include "smc/group/rmb_keys.h"
#include "wire/llc.h"

namespace fairlead::smc {

using LinkBits = std::uint8_t;  // a bit a link
constexpr LinkBits bit(LinkIndex link) { return static_cast<LinkBits>(1U << link); }

class LocalRmbs {
 public:
  // kExhausted at kRmbsMax. During first contact the Accept or Confirm names it, before any LLC
  // message can.
  Result<RmbRow> add(LinkIndex link, const RmbKey& key);
  void end_first_contact() { first_contact_ = false; }
  void set_key(RmbRow rmb, LinkIndex link, const RmbKey& key) { keys_.set(rmb, link, key); }
  // Frees the row. REQUIRES: deleted(rmb)
  void remove(RmbRow rmb);
  const RmbKeys& keys() const { return keys_; }

  // True if the peer knows the keys on all active links. An Accept or Confirm may still be on its
  // way when ADD_LINK lists the keys, and what is listed must be known by then.
  bool announced(RmbRow rmb, const LinkSet& links) const;
  void set_announced(RmbRow rmb, LinkBits on) { announced_on_[rmb] |= on; }
  // True if the peer refused the keys or did not answer, and knows the RMB on no link. No element
  // of it can be named to the peer.
  bool refused(RmbRow rmb) const { return deletion_[rmb] == Deletion::kRefused; }
  // The peer refused the keys. If it knows the RMB by another link, connections can use it there.
  void set_refused(RmbRow rmb);
  std::optional<RmbRow> next_to_announce(const LinkSet& links) const;

  // What ADD_LINK or ADD_LINK_CONT says of the RMB. Empty if a key is missing, or if the peer does
  // not know the RMB on the link over which it is sent.
  std::optional<wire::RkeyEntry> entry(RmbRow rmb, LinkIndex known_on, LinkIndex added) const;

  // DELETE_RKEY. One request per link is under way, because answers of Linux do not say which
  // request they answer.
  void want_deleted(RmbRow rmb);
  struct Request {
    RmbRow rmb = 0;
    LinkIndex carrier = 0;  // the oldest that has a key of the RMB and owes no answer
  };
  std::optional<Request> next_to_delete(const LinkSet& links) const;
  void set_deletion_requested(const Request& request);
  // False if the link owes no answer, or the answer names another key.
  bool take_answer(LinkIndex link, const wire::DeleteRkey& answer);
  // True once the peer has confirmed that it no longer writes there.
  bool deleted(RmbRow rmb) const { return deletion_[rmb] == Deletion::kDeleted; }

  // The link is gone, and the answer with it. A peer that has received the request answers the next
  // one that it does not know the key.
  void handle_link_gone(LinkIndex link);
  // Its index is used for another link.
  void forget_link(LinkIndex link);

 private:
  // Deletion state, in this order.
  enum class Deletion : std::uint8_t { kNone, kRefused, kWanted, kRequested, kDeleted };

  std::optional<LinkIndex> deletion_carrier(RmbRow rmb, const LinkSet& links) const;

  bool first_contact_ = true;
  RmbKeys keys_;
  std::array<LinkBits, kRmbsMax> announced_on_{};
  std::array<Deletion, kRmbsMax> deletion_{};
  std::array<std::optional<RmbRow>, kLinksMax> requested_{};  // unanswered, however late
};

}  // namespace fairlead::smc
