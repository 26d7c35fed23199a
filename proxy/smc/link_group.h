// A link group: the links between one client instance and one server instance, and the LLC flows
// that keep them. Sans-IO. Connections are known here by their number only (connection_table.h
// holds them). Read first: docs/wire.md, "LLC" and "Link groups"; RFC 7609 section 4.4 and 4.5.
//
// How to drive it. In: start_first_contact() once the queue pair is connected, handle_llc() and
// handle_received() for what arrives, handle_link_down(), handle_deadline(), connection_added() and
// connection_removed(). The owner: terminate(). Out: poll_llc() (send each on its link) and
// poll_event() until empty; then next_deadline().
//
// Timers: CONFIRM_LINK repeated once by a server after kConfirmLinkRepeat (its loss is possible: a
// Linux client may drop it while it still sends its Confirm); TEST_LINK (link.h); the linger of a
// group without connections, kClientLingerExtra longer for a client so that the server ends it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bounded_queue.h"
#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "smc/link.h"
#include "smc/negotiate.h"
#include "wire/llc.h"

namespace fairlead::smc {

inline constexpr std::size_t kLinksMax = 3;
inline constexpr std::size_t kLlcQueueMax = 32;  // answers a peer can make us owe
inline constexpr std::size_t kGroupEventsMax = 16;
inline constexpr Duration kConfirmLinkRepeat = std::chrono::seconds(1);
inline constexpr Duration kClientLingerExtra = std::chrono::seconds(10);

enum class GroupRole : std::uint8_t { kServer, kClient };

using LinkIndex = std::uint8_t;  // slot in the group, 0 to kLinksMax-1; not the link number

struct GroupTimes {
  Duration test_link_interval = std::chrono::seconds(30);  // 0: off
  Duration linger = std::chrono::seconds(600);
};

struct LlcToSend {
  LinkIndex link = 0;
  std::array<std::byte, wire::kLlcBytes> bytes{};
};

struct GroupEvent {
  enum class Kind : std::uint8_t {
    kLinkConfirmed,  // first contact is complete: the group may be used
    kLinkRefused,    // first contact cannot be completed: `reason`
    kLinkTested,     // `round_trip` of a TEST_LINK
    kLinkDead,       // a TEST_LINK stayed unanswered
    kTerminated,     // no link is left or the peer ended the group: abort every connection
    kRkeyDeleted,    // the peer gives `rkey` up: never write to it again
  };
  Kind kind = Kind::kTerminated;
  LinkIndex link = 0;
  FallbackReason reason = FallbackReason::kInternal;
  Duration round_trip{};
  RemoteKey rkey;
  const char* why = "";
};

class LinkGroup {
 public:
  LinkGroup(GroupRole role, const PeerId& peer, const Terms& terms, const GroupTimes& times,
            TimePoint now);

  GroupRole role() const { return role_; }
  const PeerId& peer() const { return peer_; }
  const Terms& terms() const { return terms_; }
  bool usable() const { return state_ == State::kUsable; }
  bool terminated() const { return state_ == State::kTerminated; }
  unsigned connection_count() const { return connection_count_; }
  bool has_room() const { return usable() && connection_count_ < terms_.max_connections; }
  std::optional<TimePoint> idle_since() const { return idle_since_; }
  const std::optional<Link>& link(LinkIndex index) const { return links_[index]; }
  // The active link to give the next connection to: the least used. REQUIRES: usable()
  LinkIndex choose_link() const;

  // The queue pair of the first link is ready. The server asks for confirmation, the client waits.
  LinkIndex start_first_contact(const LinkIdentity& local, TimePoint now);

  void handle_llc(LinkIndex link, const wire::LlcMessage& message, TimePoint now);
  void handle_received(LinkIndex link, TimePoint now);
  void handle_link_down(LinkIndex link, TimePoint now, const char* why);
  void handle_deadline(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  void connection_added(LinkIndex link);
  void connection_removed(LinkIndex link, TimePoint now);

  // Tells the peer (DELETE_LINK, all) as long as a link is left, and ends the group.
  void terminate(wire::DeleteLinkReason reason, bool orderly, const char* why);

  std::optional<LlcToSend> poll_llc();
  std::optional<GroupEvent> poll_event();
  std::uint64_t dropped_answers() const { return dropped_answers_; }

 private:
  enum class State : std::uint8_t { kForming, kUsable, kTerminated };

  void send(LinkIndex link, const wire::LlcBody& body);
  void emit(const GroupEvent& event);
  void end(LinkIndex link, const char* why);
  std::optional<TimePoint> linger_deadline() const;
  wire::ConfirmLink confirm_link(const Link& link, wire::LlcKind kind) const;

  void take(LinkIndex link, const wire::ConfirmLink& message, TimePoint now);
  void take(LinkIndex link, const wire::AddLink& message, TimePoint now);
  void take(LinkIndex link, const wire::AddLinkCont& message, TimePoint now);
  void take(LinkIndex link, const wire::DeleteLink& message, TimePoint now);
  void take(LinkIndex link, const wire::ReqAddLink& message, TimePoint now);
  void take(LinkIndex link, const wire::ConfirmRkey& message, TimePoint now);
  void take(LinkIndex link, const wire::DeleteRkey& message, TimePoint now);
  void take(LinkIndex link, const wire::TestLink& message, TimePoint now);

  GroupRole role_;
  PeerId peer_;
  Terms terms_;
  GroupTimes times_;
  State state_ = State::kForming;
  std::array<std::optional<Link>, kLinksMax> links_;
  std::array<unsigned, kLinksMax> link_connections_{};
  unsigned connection_count_ = 0;
  std::optional<TimePoint> idle_since_;
  std::optional<TimePoint> confirm_repeat_;
  BoundedQueue<LlcToSend> llc_{kLlcQueueMax};
  BoundedQueue<GroupEvent> events_{kGroupEventsMax};
  std::uint64_t dropped_answers_ = 0;
};

}  // namespace fairlead::smc
