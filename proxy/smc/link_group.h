// A link group: the links between one client instance and one server instance, and the LLC flows
// that keep them. Sans-IO. Connections are known here by their number only (connection_table.h
// holds them). Read first: docs/wire.md, "LLC" and "Link groups"; RFC 7609 section 4.4 and 4.5.
//
// How to drive it. In: start_first_contact() once the queue pair is connected, handle_llc() and
// handle_received() for what arrives, handle_link_down(), handle_ports_changed(),
// handle_deadline(), connection_added() and connection_removed(). The owner: terminate(). Out,
// after any of these: poll_task() first (do it and report), then poll_llc() (send each on its
// link), poll_event() until empty, and next_deadline().
//
// A group of more than one link adds and deletes links by itself. The server decides: it adds one
// after first contact, when one was lost, when a port of its own comes up, when the client asks,
// and some time after the client has left such a request unanswered. One flow runs at a time:
// adding a link, deleting one in good order, telling an RMB's keys, taking them back. A link that
// is lost waits for none of them.
//
// Timers: CONFIRM_LINK repeated once by a server after kConfirmLinkRepeat (its loss is possible: a
// Linux client may drop it while it still sends its Confirm); answers kLlcAnswerWait; CONFIRM_LINK
// of an added link kAddedLinkWait; kAddLinkRetryWait until an unanswered try is repeated;
// kTellRetryWait until a key is told again that the peer could not take; TEST_LINK (link.h); the
// linger of a group without connections, kClientLingerExtra longer for a client so
// that the server ends it.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bounded_queue.h"
#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "smc/link.h"
#include "smc/link_tasks.h"
#include "smc/negotiate.h"
#include "smc/rmb_keys.h"
#include "wire/llc.h"

namespace fairlead::smc {

inline constexpr std::size_t kLlcQueueMax = 32;  // answers that a peer's requests can queue
inline constexpr std::size_t kGroupEventsMax = 16;
inline constexpr Duration kConfirmLinkRepeat = std::chrono::seconds(1);
inline constexpr Duration kAddedLinkWait = std::chrono::seconds(5);
// Delay before an unanswered ADD_LINK is repeated, and the maximum of consecutive repetitions. The
// peer may have been busy. A Linux client that received CONFIRM_LINK twice ignores the first
// ADD_LINK.
inline constexpr Duration kAddLinkRetryWait = std::chrono::seconds(10);
inline constexpr unsigned kAddLinkRetriesMax = 3;
// A peer whose links are changing answers CONFIRM_RKEY with "retry". Linux also does so if its
// table is full, so retries have a limit.
inline constexpr Duration kTellRetryWait = std::chrono::milliseconds(250);
inline constexpr unsigned kTellRetriesMax = 4;
inline constexpr Duration kClientLingerExtra = std::chrono::seconds(10);

enum class GroupRole : std::uint8_t { kServer, kClient };

struct GroupTimes {
  Duration test_link_interval = std::chrono::seconds(30);  // 0: off
  Duration linger = std::chrono::seconds(600);
};

class LinkGroup {
 public:
  // `links_max`: how many links the owner can make; the terms may allow fewer.
  LinkGroup(GroupRole role, const PeerId& peer, const Terms& terms, const GroupTimes& times,
            TimePoint now, std::uint8_t links_max = 1);

  GroupRole role() const { return role_; }
  const PeerId& peer() const { return peer_; }
  const Terms& terms() const { return terms_; }
  bool usable() const { return state_ == State::kUsable; }
  bool terminated() const { return state_ == State::kTerminated; }
  // True once the group is terminated and the peer has sent its final message; destroying the queue
  // pairs then loses nothing. Stays false if the peer is gone, so the owner needs a timeout.
  bool peer_parted() const { return peer_parted_; }
  unsigned links_max() const { return links_max_; }
  GroupType type() const;
  unsigned active_links() const;
  unsigned connection_count() const { return connection_count_; }
  unsigned connection_count(LinkIndex link) const { return link_connections_[link]; }
  // For another connection, on a link that is not disowned.
  bool has_room() const;
  std::optional<TimePoint> idle_since() const { return idle_since_; }
  const std::optional<Link>& link(LinkIndex index) const { return links_[index]; }
  bool active(LinkIndex index) const {
    return links_[index] && links_[index]->state() == LinkState::kActive;
  }
  // True if the link shares a local or a peer's port with an older one. It is deleted when a better
  // link is added.
  bool redundant(LinkIndex index) const;
  // True if a DELETE_LINK for the link is pending or sent; a sent one cannot be taken back.
  bool leaving(LinkIndex index) const {
    return delete_wanted_[index] != wire::DeleteLinkReason::kOk ||
           (flow_ == Flow::kDeleteLink && flow_link_ == index);
  }
  // The least used active link, for the next connection; a disowned one only if there is no other.
  // REQUIRES: usable()
  LinkIndex choose_link() const;

  // The queue pair of the first link is ready. The server asks for confirmation, the client waits.
  LinkIndex start_first_contact(const LinkIdentity& local, const LinkIdentity& peer, TimePoint now);

  // `unwritable`: why the owner cannot write to the peer's memory that a CONFIRM_RKEY or
  // CONFIRM_LINK makes usable, or null. The RMB is then refused, the first contact ends in
  // kLinkRefused, and a further link in kLinkNotAdded.
  void handle_llc(LinkIndex link, const wire::LlcMessage& message, TimePoint now,
                  const char* unwritable = nullptr);
  void handle_received(LinkIndex link, TimePoint now);
  void handle_link_down(LinkIndex link, TimePoint now, const char* why);
  // The set of local ports that can carry links has changed. `gids`: the GIDs of all that can.
  void handle_ports_changed(std::span<const Gid> gids, TimePoint now);
  void handle_deadline(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // Tasks, and the owner's reports of their results. Reports about a link that no flow waits for
  // are ignored.
  std::optional<LinkTask> poll_task(TimePoint now);
  void link_prepared(LinkIndex link, const LinkOffer& offer, TimePoint now);
  void link_unavailable(LinkIndex link, TimePoint now);
  void link_connected(LinkIndex link, TimePoint now);

  // Own RMBs. The key on a link is set before link_prepared() of that link. kExhausted at kRmbsMax.
  Result<RmbRow> add_rmb(LinkIndex link, const RmbKey& key);
  void set_rmb_key(RmbRow rmb, LinkIndex link, const RmbKey& key) { own_rmbs_.set(rmb, link, key); }
  // True if the peer knows the keys on all links. Otherwise call tell_rmbs(), and name the RMB to
  // the peer only after kRmbTold; kRmbRefused may follow instead. This also applies to a single
  // link: the peer uses no key that comes over TCP alone, see peer_rmb_named().
  bool rmb_told(RmbRow rmb) const;
  // True if the peer refused the keys or did not answer, and knows the RMB on no link. No element
  // of it can be named to the peer.
  bool rmb_refused(RmbRow rmb) const { return parting_[rmb] == Parting::kRefused; }
  void tell_rmbs(TimePoint now) { start_next_flow(now); }
  // Starts to delete an own RMB (DELETE_RKEY) that no connection uses or will use. The peer may
  // write to it until rmb_deleted(). If the peer never answers, the RMB stays until the group ends,
  // and no other is deleted over that link. May be repeated.
  void delete_rmb(RmbRow rmb, TimePoint now);
  // True once the peer has confirmed that it no longer writes there.
  bool rmb_deleted(RmbRow rmb) const { return parting_[rmb] == Parting::kDeleted; }
  // Frees the row. REQUIRES: rmb_deleted(rmb)
  void remove_rmb(RmbRow rmb);
  // The peer's RMB that the Accept or Confirm of the first contact names. Later RMBs are announced
  // over a link (CONFIRM_RKEY), which only the peer can do. An Accept or Confirm over TCP may claim
  // any peer's id, and a write to an invented key ends the link.
  void peer_rmb_named(std::optional<LinkIndex> link, const RmbKey& key) {
    if (link && state_ == State::kForming) (void)peer_rmbs_.add(*link, key);
  }
  // What the peer has announced, for all links.
  const RmbKeys& peer_rmbs() const { return peer_rmbs_; }

  void connection_added(LinkIndex link);
  void connection_removed(LinkIndex link, TimePoint now);

  // Deletes one link with DELETE_LINK if another is left. Ignored if the link does not exist.
  void delete_link(LinkIndex link, wire::DeleteLinkReason reason, TimePoint now);
  // Sends DELETE_LINK (all) if a link is left, and ends the group. The peer answers with its aborts
  // and a DELETE_LINK of its own, see peer_parted().
  void terminate(wire::DeleteLinkReason reason, bool orderly, const char* why);

  // Sends TEST_LINK on the link at once, unless one is outstanding. Only the peer can answer on it;
  // without an answer the link is lost.
  void doubt(LinkIndex link, Doubt why, TimePoint now);

  std::optional<LlcToSend> poll_llc();
  std::optional<GroupEvent> poll_event();

 private:
  enum class State : std::uint8_t { kForming, kUsable, kTerminated };
  enum class Flow : std::uint8_t { kNone, kAddLink, kDeleteLink, kConfirmRkey, kDeleteRkey };
  // Deletion state of an own RMB.
  enum class Parting : std::uint8_t { kNo, kRefused, kWanted, kAsked, kDeleted };
  enum class AddStep : std::uint8_t {
    kPreparing,        // the owner makes a queue pair
    kAwaitingAnswer,   // server: ADD_LINK has gone out
    kConnecting,       // the owner connects it
    kExchangingKeys,   // version 1: ADD_LINK_CONT
    kAwaitingConfirm,  // CONFIRM_LINK is under way on the new link
  };

  void send(LinkIndex link, const wire::LlcBody& body);
  void emit(const GroupEvent& event);
  void emit(GroupEvent::Kind kind, LinkIndex link, const char* why);
  void end(LinkIndex link, const char* why);
  void answer_farewell();
  void take_farewell(const wire::LlcMessage& message);
  std::optional<TimePoint> linger_deadline() const;
  wire::ConfirmLink confirm_link(const Link& link, wire::LlcKind kind) const;
  std::optional<LinkIndex> find_number(LinkNumber number) const;
  std::optional<LinkIndex> survivor_of(LinkIndex link) const;
  std::optional<LinkIndex> any_link() const;
  std::optional<LinkIndex> free_slot() const;
  void reuse_slot(LinkIndex slot);
  LinkNumber next_number();
  void release(LinkIndex link);
  void take_down(LinkIndex link);
  void lose(LinkIndex link, GroupEvent::Kind kind, const char* why, TimePoint now);
  void start_next_flow(TimePoint now);
  void end_flow();
  void flow_overdue(TimePoint now);

  // link_group_add.cc
  void request_add(bool wanted);
  bool room_for_link() const;
  bool start_add(TimePoint now);
  void retry_add_later(TimePoint now);
  void refuse_wish();
  void answer_add(LinkIndex link, const wire::AddLink& request, TimePoint now);
  bool acceptable(const wire::AddLink& request) const;
  void reject(LinkIndex link, const wire::AddLink& request);
  void take_add_answer(LinkIndex link, const wire::AddLink& answer, TimePoint now);
  wire::AddLink describe_new_link(wire::LlcKind kind);
  void learn_keys(LinkIndex known_on, LinkIndex on, std::span<const wire::RkeyEntry> entries);
  void send_keys(wire::LlcKind kind);
  void ask_to_confirm(TimePoint now);
  void link_added(LinkIndex link, TimePoint now);
  void add_failed(const char* why, TimePoint now);
  void drop_redundant();
  bool adding(AddStep step) const { return flow_ == Flow::kAddLink && add_step_ == step; }
  // link_group_rkeys.cc
  bool start_telling(TimePoint now);
  void tell_rest(TimePoint now);
  void take_tell_answer(bool refused, bool retry, TimePoint now);
  void set_peer_keys(std::optional<RmbRow> row, std::span<const wire::RkeyOnLink> keys);
  bool lacks_new_link(RmbRow row) const;
  void told(bool accepted, TimePoint now);
  bool may_list(std::size_t row, LinkIndex known_on) const;
  bool start_deleting(TimePoint now);
  std::optional<LinkIndex> link_to_ask(RmbRow rmb) const;
  void ask_again_elsewhere(LinkIndex link);
  void emit_deleted(LinkIndex link, RemoteKey rkey);
  void take_delete_answer(LinkIndex link, const wire::DeleteRkey& answer, TimePoint now);

  void refuse_link(LinkIndex link, FallbackReason reason, const char* why);
  void refuse_memory(LinkIndex link, const wire::LlcBody& message, const char* why, TimePoint now);

  void take(LinkIndex link, const wire::ConfirmLink& message, TimePoint now);
  void take(LinkIndex link, const wire::AddLink& message, TimePoint now);
  void take(LinkIndex link, const wire::AddLinkCont& message, TimePoint now);
  void take(LinkIndex link, const wire::DeleteLink& message, TimePoint now);
  void take(LinkIndex link, const wire::ReqAddLink& message, TimePoint now);
  void take(LinkIndex link, const wire::ConfirmRkey& message, TimePoint now);
  void take(LinkIndex link, const wire::ConfirmRkeyCont& message, TimePoint now);
  void take(LinkIndex link, const wire::DeleteRkey& message, TimePoint now);
  void take(LinkIndex link, const wire::TestLink& message, TimePoint now);

  GroupRole role_;
  PeerId peer_;
  Terms terms_;
  GroupTimes times_;
  std::uint8_t links_max_;
  State state_ = State::kForming;
  bool peer_parted_ = false;
  std::array<std::optional<Link>, kLinksMax> links_;
  std::array<unsigned, kLinksMax> link_connections_{};
  unsigned connection_count_ = 0;
  std::optional<TimePoint> idle_since_;
  std::optional<TimePoint> confirm_repeat_;
  LinkIndex confirm_on_ = 0;  // the link of the message that is repeated

  Flow flow_ = Flow::kNone;
  std::optional<TimePoint> flow_deadline_;
  LinkIndex flow_link_ = 0;     // the link that is added or deleted
  LinkIndex flow_carrier_ = 0;  // over which the flow goes
  wire::DeleteLinkReason delete_reason_ = wire::DeleteLinkReason::kOk;  // of kDeleteLink
  AddStep add_step_ = AddStep::kPreparing;
  LinkOffer add_offer_;
  std::unique_ptr<wire::AddLink> add_request_;  // client: what is being answered
  std::unique_ptr<wire::AddLink> parked_;       // client: a request that came during another flow
  LinkIndex parked_link_ = 0;
  // Version 1: keys of a new link, told in ADD_LINK_CONT.
  struct KeyExchange {
    std::size_t next = 0;  // the own row to announce next
    std::size_t rounds = 0;
    std::bitset<256> described;  // link numbers that an ADD_LINK of this side has used
  };
  KeyExchange keys_;
  std::optional<LinkIndex> wish_on_;  // server: link of a REQ_ADD_LINK that needs an answer
  bool add_wanted_ = false;
  std::optional<TimePoint> add_again_;  // server: the last try was left unanswered
  unsigned add_retries_left_ = 0;
  std::array<wire::DeleteLinkReason, kLinksMax> delete_wanted_{};  // kOk: not wanted
  // Server: a lost link whose deletion the client has not answered. No other flow starts before.
  std::optional<LinkNumber> lost_number_;
  std::optional<TimePoint> lost_until_;
  LinkNumber last_number_{0};
  std::array<std::uint64_t, kLinksMax> released_{};  // when each slot became free, counted
  std::uint64_t releases_ = 0;

  RmbKeys own_rmbs_, peer_rmbs_;
  std::array<std::uint8_t, kRmbsMax> told_on_{};  // by own row, a bit a link
  // The RMB that CONFIRM_RKEY announces, or announced last.
  struct Telling {
    RmbRow rmb = 0;
    std::uint8_t on = 0;                   // a bit a link
    std::vector<wire::RkeyOnLink> rest;    // for continuations; kOtherLinksMax at most
    std::optional<wire::RkeyOnLink> cont;  // the first of the continuation under way
    std::optional<TimePoint> again;        // no RMB is announced before
    unsigned retries_left = kTellRetriesMax;
  };
  Telling telling_;
  // A CONFIRM_RKEY of the peer whose continuations are awaited.
  struct Continued {
    std::optional<RmbRow> row;  // empty: refused
    std::uint8_t to_follow = 0;
  };
  std::array<std::optional<Continued>, kLinksMax> continued_;  // by the link that carries them
  std::array<Parting, kRmbsMax> parting_{};                    // by own row
  // DELETE_RKEY without an answer yet, however late. One per link, because answers of Linux do not
  // say which request they answer.
  std::array<std::optional<RmbRow>, kLinksMax> asked_{};

  BoundedQueue<LinkTask> tasks_{kLinkTasksMax};
  BoundedQueue<LlcToSend> llc_{kLlcQueueMax};
  BoundedQueue<GroupEvent> events_{kGroupEventsMax};
};

}  // namespace fairlead::smc
