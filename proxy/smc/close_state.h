// The close states of one SMC-R connection (RFC 7609, section 4.8; docs/wire.md, "Closing"): a
// table and nothing else. The owner of the state sends what it must and applies next().
//
//   local events:  DW done writing sent, CL connection closed sent, AB abort sent
//   remote events: the same flags received for the first time
#pragma once

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

namespace detail {

constexpr CloseState after_sent_done_writing(CloseState state) {
  switch (state) {
    case CloseState::kActive:
      return CloseState::kPeerCloseWait1;
    case CloseState::kAppCloseWait1:
      return CloseState::kAppCloseWait2;
    case CloseState::kPeerCloseWait1:
    case CloseState::kPeerCloseWait2:
    case CloseState::kAppCloseWait2:
    case CloseState::kAppFinCloseWait:
    case CloseState::kPeerFinCloseWait:
    case CloseState::kPeerAbortWait:
    case CloseState::kProcessAbort:
    case CloseState::kClosed:
      return state;
  }
  return state;
}

constexpr CloseState after_sent_closed(CloseState state, CloseFacts facts) {
  switch (state) {
    case CloseState::kActive:
      return CloseState::kPeerCloseWait1;
    case CloseState::kAppCloseWait1:
    case CloseState::kAppCloseWait2:
      return facts.got_close ? CloseState::kClosed : CloseState::kPeerFinCloseWait;
    case CloseState::kAppFinCloseWait:
    case CloseState::kProcessAbort:
      return CloseState::kClosed;
    case CloseState::kPeerCloseWait1:
    case CloseState::kPeerCloseWait2:
    case CloseState::kPeerFinCloseWait:
    case CloseState::kPeerAbortWait:
    case CloseState::kClosed:
      return state;
  }
  return state;
}

constexpr CloseState after_sent_abort(CloseState state, CloseFacts facts) {
  switch (state) {
    case CloseState::kProcessAbort:
    case CloseState::kAppFinCloseWait:
    case CloseState::kClosed:
      return CloseState::kClosed;
    case CloseState::kActive:
    case CloseState::kPeerCloseWait1:
    case CloseState::kPeerCloseWait2:
    case CloseState::kAppCloseWait1:
    case CloseState::kAppCloseWait2:
    case CloseState::kPeerFinCloseWait:
    case CloseState::kPeerAbortWait:
      return facts.got_close ? CloseState::kClosed : CloseState::kPeerAbortWait;
  }
  return state;
}

constexpr CloseState after_got_done_writing(CloseState state) {
  switch (state) {
    case CloseState::kActive:
      return CloseState::kAppCloseWait1;
    case CloseState::kPeerCloseWait1:
      return CloseState::kPeerCloseWait2;
    case CloseState::kPeerCloseWait2:
    case CloseState::kAppCloseWait1:
    case CloseState::kAppCloseWait2:
    case CloseState::kAppFinCloseWait:
    case CloseState::kPeerFinCloseWait:
    case CloseState::kPeerAbortWait:
    case CloseState::kProcessAbort:
    case CloseState::kClosed:
      return state;
  }
  return state;
}

constexpr CloseState after_got_closed(CloseState state, CloseFacts facts) {
  switch (state) {
    case CloseState::kActive:
      return CloseState::kAppCloseWait1;
    case CloseState::kPeerCloseWait1:
    case CloseState::kPeerCloseWait2:
      return facts.sent_close ? CloseState::kClosed : CloseState::kAppFinCloseWait;
    case CloseState::kPeerFinCloseWait:
    case CloseState::kPeerAbortWait:
      return CloseState::kClosed;
    case CloseState::kAppCloseWait1:
    case CloseState::kAppCloseWait2:
    case CloseState::kAppFinCloseWait:
    case CloseState::kProcessAbort:
    case CloseState::kClosed:
      return state;
  }
  return state;
}

constexpr CloseState after_got_abort(CloseState state, CloseFacts facts) {
  switch (state) {
    case CloseState::kPeerCloseWait1:
    case CloseState::kPeerCloseWait2:
      return facts.sent_close ? CloseState::kClosed : CloseState::kProcessAbort;
    case CloseState::kActive:
    case CloseState::kAppCloseWait1:
    case CloseState::kAppCloseWait2:
    case CloseState::kAppFinCloseWait:
    case CloseState::kProcessAbort:
      return CloseState::kProcessAbort;
    case CloseState::kPeerFinCloseWait:
    case CloseState::kPeerAbortWait:
    case CloseState::kClosed:
      return CloseState::kClosed;
  }
  return state;
}

}  // namespace detail

// APPCLOSEWAIT2 differs from Linux on an abort. Linux frees the socket without an answer. This side
// first answers with an abort, which Linux drops as an unknown token.
constexpr CloseState next(CloseState state, CloseEvent event, CloseFacts facts) {
  switch (event) {
    case CloseEvent::kSentDoneWriting:
      return detail::after_sent_done_writing(state);
    case CloseEvent::kSentClosed:
      return detail::after_sent_closed(state, facts);
    case CloseEvent::kSentAbort:
      return detail::after_sent_abort(state, facts);
    case CloseEvent::kGotDoneWriting:
      return detail::after_got_done_writing(state);
    case CloseEvent::kGotClosed:
      return detail::after_got_closed(state, facts);
    case CloseEvent::kGotAbort:
      return detail::after_got_abort(state, facts);
  }
  return state;
}

}  // namespace fairlead::smc
