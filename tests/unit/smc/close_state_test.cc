// Every state with every event, against the table of docs/wire.md.

#include "smc/connection/close_state.h"

#include <gtest/gtest.h>

#include <array>

namespace fairlead::smc {
namespace {

using S = CloseState;
using E = CloseEvent;

constexpr std::array kStates = {
    S::kActive,        S::kPeerCloseWait1,  S::kPeerCloseWait2,   S::kAppCloseWait1,
    S::kAppCloseWait2, S::kAppFinCloseWait, S::kPeerFinCloseWait, S::kPeerAbortWait,
    S::kProcessAbort,  S::kClosed};

struct Column {
  E event;
  CloseFacts facts;
  std::array<S, 10> after;  // in the order of kStates
};

// Facts matter in few cells; each column names those it was made for.
constexpr std::array kColumns = {
    Column{E::kSentDoneWriting,
           {},
           {S::kPeerCloseWait1, S::kPeerCloseWait1, S::kPeerCloseWait2, S::kAppCloseWait2,
            S::kAppCloseWait2, S::kAppFinCloseWait, S::kPeerFinCloseWait, S::kPeerAbortWait,
            S::kProcessAbort, S::kClosed}},
    Column{E::kSentClosed,
           {},
           {S::kPeerCloseWait1, S::kPeerCloseWait1, S::kPeerCloseWait2, S::kPeerFinCloseWait,
            S::kPeerFinCloseWait, S::kClosed, S::kPeerFinCloseWait, S::kPeerAbortWait, S::kClosed,
            S::kClosed}},
    Column{E::kSentClosed,
           {false, true},
           {S::kPeerCloseWait1, S::kPeerCloseWait1, S::kPeerCloseWait2, S::kClosed, S::kClosed,
            S::kClosed, S::kPeerFinCloseWait, S::kPeerAbortWait, S::kClosed, S::kClosed}},
    Column{E::kSentAbort,
           {},
           {S::kPeerAbortWait, S::kPeerAbortWait, S::kPeerAbortWait, S::kPeerAbortWait,
            S::kPeerAbortWait, S::kClosed, S::kPeerAbortWait, S::kPeerAbortWait, S::kClosed,
            S::kClosed}},
    Column{E::kSentAbort,
           {false, true},
           {S::kClosed, S::kClosed, S::kClosed, S::kClosed, S::kClosed, S::kClosed, S::kClosed,
            S::kClosed, S::kClosed, S::kClosed}},
    Column{E::kGotDoneWriting,
           {},
           {S::kAppCloseWait1, S::kPeerCloseWait2, S::kPeerCloseWait2, S::kAppCloseWait1,
            S::kAppCloseWait2, S::kAppFinCloseWait, S::kPeerFinCloseWait, S::kPeerAbortWait,
            S::kProcessAbort, S::kClosed}},
    Column{E::kGotClosed,
           {},
           {S::kAppCloseWait1, S::kAppFinCloseWait, S::kAppFinCloseWait, S::kAppCloseWait1,
            S::kAppCloseWait2, S::kAppFinCloseWait, S::kClosed, S::kClosed, S::kProcessAbort,
            S::kClosed}},
    Column{E::kGotClosed,
           {true, false},
           {S::kAppCloseWait1, S::kClosed, S::kClosed, S::kAppCloseWait1, S::kAppCloseWait2,
            S::kAppFinCloseWait, S::kClosed, S::kClosed, S::kProcessAbort, S::kClosed}},
    Column{
        E::kGotAbort,
        {},
        {S::kProcessAbort, S::kProcessAbort, S::kProcessAbort, S::kProcessAbort, S::kProcessAbort,
         S::kProcessAbort, S::kClosed, S::kClosed, S::kProcessAbort, S::kClosed}},
    Column{E::kGotAbort,
           {true, false},
           {S::kProcessAbort, S::kClosed, S::kClosed, S::kProcessAbort, S::kProcessAbort,
            S::kProcessAbort, S::kClosed, S::kClosed, S::kProcessAbort, S::kClosed}},
};

TEST(CloseState, FollowsTheTableInEveryCell) {
  for (const Column& column : kColumns)
    for (std::size_t i = 0; i < kStates.size(); ++i)
      EXPECT_EQ(next(kStates[i], column.event, column.facts), column.after[i])
          << to_string(kStates[i]) << " event " << static_cast<int>(column.event) << " facts "
          << column.facts.sent_close << column.facts.got_close;
}

}  // namespace
}  // namespace fairlead::smc
