// Delivery of bytes that were sent before a reset.

#include <gtest/gtest.h>

#include "connection_pair.h"
#include "smc/connection.h"

namespace fairlead::smc {
namespace {

TEST(ConnectionAbort, AbortReachesThePeerAndIsAnswered) {
  ConnectionPair pair;
  pair.a.connection.abort();
  pair.settle();
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.b.connection.reset_said());
  EXPECT_TRUE(pair.a.connection.finished());
  EXPECT_TRUE(pair.b.connection.finished());
}

TEST(ConnectionAbort, WhatWasAnnouncedBeforeAnAbortCanStillBeRead) {
  ConnectionPair pair;
  pair.write(pair.a, "last words");
  pair.transmit(pair.a);
  pair.a.connection.abort();
  pair.settle();
  EXPECT_TRUE(pair.b.connection.closing().reset());
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kNone);
  EXPECT_EQ(pair.read(pair.b), "last words");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_FALSE(pair.b.connection.closing().peer_ended());
}

TEST(ConnectionAbort, AnAbortBehindDataWaitsUntilAllIsInThePeersElement) {
  ConnectionPair pair(16384, 16384, 32768);  // the send ring holds more than the peer
  const std::string bytes(20000, 'z');
  pair.write(pair.a, bytes);
  pair.a.connection.abort(Connection::Abort::kBehindData);
  pair.settle();
  EXPECT_TRUE(pair.a.connection.closing().reset());
  EXPECT_FALSE(pair.a.connection.reset_said());
  EXPECT_FALSE(pair.b.connection.closing().reset());
  std::string got = pair.read(pair.b);
  pair.settle();
  EXPECT_TRUE(pair.a.connection.reset_said());
  EXPECT_TRUE(pair.b.connection.closing().reset());
  got += pair.read(pair.b);
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.a.connection.finished());
}

TEST(ConnectionAbort, AnAbortEndsTheWaitForRoom) {
  ConnectionPair pair(16384, 16384, 32768);
  pair.write(pair.a, std::string(20000, 'z'));
  pair.a.connection.abort(Connection::Abort::kBehindData);
  pair.settle();
  pair.a.connection.abort();
  pair.settle();
  EXPECT_TRUE(pair.a.connection.reset_said());
  EXPECT_TRUE(pair.b.connection.closing().reset());
  EXPECT_EQ(pair.read(pair.b).size(), 16384U);
}

TEST(ConnectionAbort, AFinBeforeAnAbortIsToldWithIt) {
  ConnectionPair pair;
  pair.write(pair.a, "bye");
  pair.a.connection.shutdown_write();
  pair.a.connection.abort(Connection::Abort::kBehindData);
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "bye");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.b.connection.closing().peer_ended());
}

TEST(ConnectionAbort, WhatALostPeerAnnouncedCanStillBeRead) {
  ConnectionPair pair;
  pair.write(pair.a, "last words");
  pair.settle();
  pair.b.connection.handle_link_lost();
  EXPECT_TRUE(pair.b.connection.reset_said());
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kNone);
  EXPECT_EQ(pair.read(pair.b), "last words");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
}

TEST(ConnectionAbort, SimultaneousAbortsFinish) {
  ConnectionPair pair;
  pair.a.connection.abort();
  pair.b.connection.abort();
  pair.settle();
  EXPECT_TRUE(pair.a.connection.finished());
  EXPECT_TRUE(pair.b.connection.finished());
}

TEST(ConnectionAbort, NothingIsSentOnceTheLinkIsLost) {
  ConnectionPair pair;
  pair.write(pair.a, "x");
  pair.a.connection.handle_link_lost();
  EXPECT_FALSE(pair.a.connection.transmit_due());
  EXPECT_EQ(pair.a.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.a.connection.finished());
}

}  // namespace
}  // namespace fairlead::smc
