// The close states of one SMC-R connection (RFC 7609, section 4.8; docs/wire.md, "Closing"): a
// table and nothing else. The owner of the state sends what it must and applies next().
//
//   local events:  DW done writing sent, CL connection closed sent, AB abort sent
//   remote events: the same flags received for the first time
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fairlead::smc {

enum class CloseState : std::uint8_t {
  kActive,
  kPeerCloseWait1,    // this side finished first
  kPeerCloseWait2,    // this side finished first, then the peer half-closed
  kAppCloseWait1,     // the peer finished first
  kAppCloseWait2,     // the peer finished first, then this side half-closed
  kAppFinCloseWait,   // peer closed, our application not yet
  kPeerFinCloseWait,  // this side closed last and waits for the peer's close
  kPeerAbortWait,     // this side aborted and waits for the peer's answer
  kProcessAbort,      // the peer aborted; this side must answer
  kClosed,
};

enum class CloseEvent : std::uint8_t {
  kSentDoneWriting,
  kSentClosed,
  kSentAbort,
  kGotDoneWriting,
  kGotClosed,
  kGotAbort,
};

// Facts that the state alone does not hold.
struct CloseFacts {
  bool sent_close = false;  // CL or AB went out before this event
  bool got_close = false;   // CL or AB came in before this event
};

constexpr std::string_view to_string(CloseState state) {
  switch (state) {
    case CloseState::kActive:
      return "ACTIVE";
    case CloseState::kPeerCloseWait1:
      return "PEERCLOSEWAIT1";
    case CloseState::kPeerCloseWait2:
      return "PEERCLOSEWAIT2";
    case CloseState::kAppCloseWait1:
      return "APPCLOSEWAIT1";
    case CloseState::kAppCloseWait2:
      return "APPCLOSEWAIT2";
    case CloseState::kAppFinCloseWait:
      return "APPFINCLOSEWAIT";
    case CloseState::kPeerFinCloseWait:
      return "PEERFINCLOSEWAIT";
    case CloseState::kPeerAbortWait:
      return "PEERABORTWAIT";
    case CloseState::kProcessAbort:
      return "PROCESSABORT";
    case CloseState::kClosed:
      return "CLOSED";
  }
  return "?";
}

// The state after an event. `or_closed`: kClosed instead if the other side had closed or
// aborted before (got_close for what is sent, sent_close for what is got).
struct CloseStep {
  CloseState to = CloseState::kClosed;
  bool or_closed = false;
};

inline constexpr std::array<std::array<CloseStep, 6>, 10> kCloseSteps = [] {
  using enum CloseState;
  constexpr CloseStep p1{kPeerCloseWait1}, p2{kPeerCloseWait2}, a1{kAppCloseWait1},
      a2{kAppCloseWait2}, af{kAppFinCloseWait}, pf{kPeerFinCloseWait}, pa{kPeerAbortWait},
      ab{kProcessAbort}, c{kClosed};
  constexpr CloseStep pf_{kPeerFinCloseWait, true}, pa_{kPeerAbortWait, true},
      af_{kAppFinCloseWait, true}, ab_{kProcessAbort, true};
  // Columns: DW, CL and AB sent, then DW, CL and AB got.
  return std::array<std::array<CloseStep, 6>, 10>{{
      {p1, p1, pa_, a1, a1, ab},    // kActive
      {p1, p1, pa_, p2, af_, ab_},  // kPeerCloseWait1
      {p2, p2, pa_, p2, af_, ab_},  // kPeerCloseWait2
      {a2, pf_, pa_, a1, a1, ab},   // kAppCloseWait1
      {a2, pf_, pa_, a2, a2, ab},   // kAppCloseWait2
      {af, c, c, af, af, ab},       // kAppFinCloseWait
      {pf, pf, pa_, pf, c, c},      // kPeerFinCloseWait
      {pa, pa, pa_, pa, c, c},      // kPeerAbortWait
      {ab, c, c, ab, ab, ab},       // kProcessAbort
      {c, c, c, c, c, c},           // kClosed
  }};
}();

// APPCLOSEWAIT2 differs from Linux on an abort. Linux frees the socket without an answer. This side
// first answers with an abort, which Linux drops as an unknown token.
constexpr CloseState next(CloseState state, CloseEvent event, CloseFacts facts) {
  const CloseStep step =
      kCloseSteps[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
  const bool sent = event <= CloseEvent::kSentAbort;
  return step.or_closed && (sent ? facts.got_close : facts.sent_close) ? CloseState::kClosed
                                                                       : step.to;
}

}  // namespace fairlead::smc
