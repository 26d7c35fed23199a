// A link group: the links between one client instance and one server instance, and the LLC flows
// that keep them. Sans-IO. Connections are known here by their number only (connection_table.h
// holds them). Read first: docs/wire.md, "LLC" and "Link groups"; RFC 7609 section 4.4 and 4.5.
//
// How to drive it. In: start_first_contact() once the queue pair is connected, handle_llc() and
// handle_received() for what arrives, handle_link_down(), handle_ports_changed(),
// handle_deadline(), connection_added() and connection_removed(). The owner: terminate(). Out,
// after any of these: poll_task() first (do it and report), then output().poll_llc() (send each on
// its link), output().poll_event() until empty, and next_deadline().
//
// A group of more than one link adds and deletes links by itself. The server decides: it adds one
// after first contact, when one was lost, when a port of its own comes up, when the client asks,
// and some time after the client has left such a request unanswered. One flow runs at a time:
// AddLinkFlow, DeleteLinkFlow, ConfirmRkeyFlow or DeleteRkeyFlow. A link that is lost waits for
// none of them. The flows are values; what they share is in LinkGroupParts.
//
// Timers: CONFIRM_LINK repeated and TEST_LINK (link.h); the deadline of the flow; what is repeated
// later (pending_flows.h); the linger of a group without connections, kClientLingerExtra longer for
// a client so that the server ends it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "base/fallback.h"
#include "base/ids.h"
#include "base/time.h"
#include "smc/group/add_link_flow.h"
#include "smc/group/delete_link_flow.h"
#include "smc/group/link_group_parts.h"
#include "smc/group/pending_flows.h"
#include "smc/group/rkey_flows.h"
#include "smc/group/termination.h"
#include "wire/llc.h"

namespace fairlead::smc {

inline constexpr Duration kClientLingerExtra = std::chrono::seconds(10);

struct GroupTimes {
  Duration test_link_interval = std::chrono::seconds(30);  // 0: off
  Duration linger = std::chrono::seconds(600);
};

class LinkGroup {
 public:
  // `links_max`: how many links the owner can make; the terms may allow fewer.
  LinkGroup(GroupRole role, const Terms& terms, const GroupTimes& times, TimePoint now,
            std::uint8_t links_max = 1);

  GroupRole role() const { return parts_.role; }
  const Terms& terms() const { return parts_.terms; }
  const LinkSet& links() const { return parts_.links; }
  bool usable() const { return state_ == State::kUsable; }
  bool terminated() const { return state_ == State::kTerminated; }
  // True once the group is terminated and the peer has sent its final message; destroying the queue
  // pairs then loses nothing. Stays false if the peer is gone, so the owner needs a timeout.
  bool peer_terminated() const { return termination_.peer_terminated(); }

  // The queue pair of the first link is ready. The server asks for confirmation, the client waits.
  LinkIndex start_first_contact(const LinkIdentity& local, const LinkIdentity& peer, TimePoint now);

  // `unwritable`: why the owner cannot write to the peer's memory that a CONFIRM_RKEY or
  // CONFIRM_LINK makes usable, or null. The RMB is then refused, the first contact ends in
  // kLinkRefused, and a further link in kLinkNotAdded.
  void handle_llc(LinkIndex link, const wire::LlcMessage& message, TimePoint now,
                  const char* unwritable = nullptr);
  void handle_received(LinkIndex link, TimePoint now);
  // Sends TEST_LINK on the link at once, unless one is outstanding. Only the peer can answer on it;
  // without an answer the link is lost.
  void doubt(LinkIndex link, Doubt why, TimePoint now);
  void handle_link_down(LinkIndex link, TimePoint now, const char* why);
  // The set of local ports that can carry links has changed. `gids`: the GIDs of all that can.
  void handle_ports_changed(std::span<const Gid> gids, TimePoint now);
  void handle_deadline(TimePoint now);
  Deadline next_deadline() const;

  // Messages and events. Tasks come from poll_task().
  LinkGroupOutput& output() { return parts_.out; }
  // Tasks, and the owner's reports of their results. Reports about a link that no flow waits for
  // are ignored.
  std::optional<LinkTask> poll_task(TimePoint now);
  // `offer`: of kPrepare; empty if there is no port for the link.
  void task_done(const LinkTask& task, TimePoint now, const std::optional<LinkOffer>& offer = {});

  // Own RMBs. The key on a link is set before task_done() of its kPrepare. One that the peer does
  // not know on all links is announced by start_next_flow(), and may be named to the peer only
  // after kRmbAnnounced; kRmbRefused may follow instead. This also applies to a single link: the
  // peer uses no key that comes over TCP alone. One that no connection uses is deleted after
  // want_deleted() likewise: the peer may write to it until deleted(). If the peer never answers,
  // it stays until the group ends, and no other is deleted over that link.
  LocalRmbs& local_rmbs() { return parts_.local_rmbs; }
  void start_next_flow(TimePoint now);
  // The peer's RMB that the Accept or Confirm of the first contact names.
  void peer_rmb_named(std::optional<LinkIndex> link, const RmbKey& key) {
    if (link && state_ == State::kForming) parts_.peer_rmbs.add_first(*link, key);
  }
  // What the peer has announced, for all links.
  const RmbKeys& peer_rmbs() const { return parts_.peer_rmbs.keys(); }

  void connection_added(LinkIndex link) { parts_.links.connection_added(link); }
  void connection_removed(LinkIndex link, TimePoint now) {
    parts_.links.connection_removed(link, now);
  }

  // Deletes one link with DELETE_LINK if another is left. Ignored if the link does not exist.
  void delete_link(LinkIndex link, wire::DeleteLinkReason reason, TimePoint now);
  // Sends DELETE_LINK (all) if a link is left, and ends the group. The peer answers with its aborts
  // and a DELETE_LINK of its own, see peer_terminated().
  void terminate(wire::DeleteLinkReason reason, bool orderly, const char* why);

 private:
  enum class State : std::uint8_t { kForming, kUsable, kTerminated };
  using Flow =
      std::variant<std::monostate, AddLinkFlow, DeleteLinkFlow, ConfirmRkeyFlow, DeleteRkeyFlow>;

  template <class T>
  T* running() {
    return std::get_if<T>(&flow_);
  }
  bool idle() const { return std::holds_alternative<std::monostate>(flow_); }
  AddLinkFlow* adding(LinkIndex link);

  void handle_flow_deadline(TimePoint now);
  void handle_test_deadlines(TimePoint now);
  bool start_delete_link(TimePoint now);
  bool start_add_link(TimePoint now);
  void link_prepared(LinkIndex link, const std::optional<LinkOffer>& offer, TimePoint now);
  void answer_add_link(LinkIndex link, const wire::AddLink& request, TimePoint now);
  void apply(const AddLinkFlow::Outcome& outcome, TimePoint now);
  void link_added(LinkIndex link, TimePoint now);
  void link_not_added(const char* why, TimePoint now);
  void finish_deletion();
  void finish_announcement(FlowStep step, TimePoint now);

  void reject_req_add_link();
  void refuse_link(LinkIndex link, FallbackReason reason, const char* why);
  void refuse_memory(LinkIndex link, const wire::LlcBody& message, const char* why, TimePoint now);
  void take_down(LinkIndex link);
  void end_flow_of(LinkIndex gone);
  void lose(LinkIndex link, GroupEvent::Kind kind, const char* why, TimePoint now);
  void end(LinkIndex link, const char* why);

  void take(LinkIndex link, const wire::ConfirmLink& message, TimePoint now);
  void take(LinkIndex link, const wire::AddLink& message, TimePoint now);
  void take(LinkIndex link, const wire::AddLinkCont& message, TimePoint now);
  void take(LinkIndex link, const wire::DeleteLink& message, TimePoint now);
  void take(LinkIndex link, const wire::ReqAddLink& message, TimePoint now);
  void take(LinkIndex link, const wire::ConfirmRkey& message, TimePoint now);
  void take(LinkIndex link, const wire::ConfirmRkeyCont& message, TimePoint now);
  void take(LinkIndex link, const wire::DeleteRkey& message, TimePoint now);
  void take(LinkIndex link, const wire::TestLink& message, TimePoint now);

  LinkGroupParts parts_;
  GroupTimes times_;
  State state_ = State::kForming;
  Flow flow_;
  PendingFlows pending_;
  LinkLossGuard loss_;
  Termination termination_;
  std::optional<LinkIndex> req_add_link_from_;  // server: a link whose REQ_ADD_LINK needs an answer
};

}  // namespace fairlead::smc
