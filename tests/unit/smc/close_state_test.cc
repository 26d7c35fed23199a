// Every state with every event, against the table of docs/wire.md.

#include "smc/connection/close_state.h"

#include <gtest/gtest.h>

#include <iterator>

namespace fairlead::smc {
namespace {

using S = CloseState;
using E = CloseEvent;

constexpr S kActive = S::kActive, kPeer1 = S::kPeerCloseWait1, kPeer2 = S::kPeerCloseWait2,
            kApp1 = S::kAppCloseWait1, kApp2 = S::kAppCloseWait2, kAppFin = S::kAppFinCloseWait,
            kPeerFin = S::kPeerFinCloseWait, kPeerAbort = S::kPeerAbortWait,
            kAbort = S::kProcessAbort, kClosed = S::kClosed;
constexpr S kStates[] = {kActive, kPeer1,   kPeer2,     kApp1,  kApp2,
                         kAppFin, kPeerFin, kPeerAbort, kAbort, kClosed};

struct Column {
  E event;
  CloseFacts facts;
  S after[10];  // in the order of kStates
};

// Facts matter in few cells; each column names those it was made for.
constexpr Column kColumns[] = {
    {E::kSentDoneWriting,
     {},
     {kPeer1, kPeer1, kPeer2, kApp2, kApp2, kAppFin, kPeerFin, kPeerAbort, kAbort, kClosed}},
    {E::kSentClosed,
     {},
     {kPeer1, kPeer1, kPeer2, kPeerFin, kPeerFin, kClosed, kPeerFin, kPeerAbort, kClosed, kClosed}},
    {E::kSentClosed,
     {false, true},
     {kPeer1, kPeer1, kPeer2, kClosed, kClosed, kClosed, kPeerFin, kPeerAbort, kClosed, kClosed}},
    {E::kSentAbort,
     {},
     {kPeerAbort, kPeerAbort, kPeerAbort, kPeerAbort, kPeerAbort, kClosed, kPeerAbort, kPeerAbort,
      kClosed, kClosed}},
    {E::kSentAbort,
     {false, true},
     {kClosed, kClosed, kClosed, kClosed, kClosed, kClosed, kClosed, kClosed, kClosed, kClosed}},
    {E::kGotDoneWriting,
     {},
     {kApp1, kPeer2, kPeer2, kApp1, kApp2, kAppFin, kPeerFin, kPeerAbort, kAbort, kClosed}},
    {E::kGotClosed,
     {},
     {kApp1, kAppFin, kAppFin, kApp1, kApp2, kAppFin, kClosed, kClosed, kAbort, kClosed}},
    {E::kGotClosed,
     {true, false},
     {kApp1, kClosed, kClosed, kApp1, kApp2, kAppFin, kClosed, kClosed, kAbort, kClosed}},
    {E::kGotAbort,
     {},
     {kAbort, kAbort, kAbort, kAbort, kAbort, kAbort, kClosed, kClosed, kAbort, kClosed}},
    {E::kGotAbort,
     {true, false},
     {kAbort, kClosed, kClosed, kAbort, kAbort, kAbort, kClosed, kClosed, kAbort, kClosed}},
};

TEST(CloseState, FollowsTheTableInEveryCell) {
  for (const Column& column : kColumns)
    for (std::size_t i = 0; i < std::size(kStates); ++i)
      EXPECT_EQ(next(kStates[i], column.event, column.facts), column.after[i])
          << to_string(kStates[i]) << " event " << static_cast<int>(column.event) << " facts "
          << column.facts.sent_close << column.facts.got_close;
}

}  // namespace
}  // namespace fairlead::smc
