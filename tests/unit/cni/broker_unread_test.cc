#include "cni/node/broker/broker_unread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <set>
#include <string>
#include <utility>

namespace fairlead::cni::node {
namespace {

// The broker's end and the end of a device.
struct Link {
  FileDescriptor broker;
  FileDescriptor device;

  Link() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    broker = FileDescriptor(ends[0]);
    device = FileDescriptor(ends[1]);
  }
  void send(BrokerUnread& unread, const std::string& pod) const {
    const char record[64] = {};
    ASSERT_EQ(::send(broker.get(), record, sizeof record, 0), 64);
    unread.sent(pod, broker.get());
  }
  void read() const {
    char record[64];
    ASSERT_EQ(::recv(device.get(), record, sizeof record, 0), 64);
  }
};

TEST(BrokerUnread, APodHasSoManyUntilItsDevicesHaveReadAll) {
  BrokerUnread unread;
  const std::array<Link, 2> links;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) {
    ASSERT_TRUE(unread.may_send("pod")) << i;
    links[i % 2].send(unread, "pod");
  }
  EXPECT_FALSE(unread.may_send("pod"));
  EXPECT_TRUE(unread.has_unread("pod", links[0].broker.get()));
  EXPECT_TRUE(unread.may_send("other"));
  for (std::size_t i = 0; i < kUnreadPerPodMax / 2 - 1; ++i) links[0].read();
  EXPECT_FALSE(unread.may_send("pod"));
  links[0].read();
  EXPECT_TRUE(unread.may_send("pod"));
  EXPECT_FALSE(unread.has_unread("pod", links[0].broker.get()));
  EXPECT_EQ(unread.unread(), kUnreadPerPodMax / 2);
}

TEST(BrokerUnread, OnACrowdedNodeAPodReadsBeforeItGetsMore) {
  std::set<int> read;
  BrokerUnread unread([&](int socket) { return read.contains(socket); });
  int socket = 0;
  for (std::size_t i = 0; i < kUnreadPerNodeMax; ++i)
    unread.sent("hostile " + std::to_string(i / kUnreadPerPodMax), socket++);
  const int own = socket;
  EXPECT_TRUE(unread.may_send("pod"));
  unread.sent("pod", own);
  EXPECT_FALSE(unread.may_send("pod"));
  read.insert(own);
  EXPECT_TRUE(unread.may_send("pod"));
  unread.sent("pod", own);
  read = {0, 1};  // of another pod
  EXPECT_TRUE(unread.may_send("pod"));
  EXPECT_EQ(unread.unread(), kUnreadPerNodeMax - 1);
}

TEST(BrokerUnread, WhatALostDeviceKeepsStillCounts) {
  BrokerUnread unread;
  Link link;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) link.send(unread, "pod");
  const int number = link.broker.get();
  unread.end("pod", std::move(link.broker));
  EXPECT_FALSE(unread.may_send("pod"));
  link.read();
  char end = 0;
  for (std::size_t i = 1; i < kUnreadPerPodMax; ++i) {
    EXPECT_FALSE(unread.may_send("pod"));
    link.read();
  }
  EXPECT_EQ(::recv(link.device.get(), &end, 1, 0), 0);  // it notices the end of the connection
  EXPECT_TRUE(unread.may_send("pod"));
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_EQ(unread.unread(), 0u);
}

TEST(BrokerUnread, ADeviceThatClosesAndAPodThatEndsHaveNothingUnread) {
  BrokerUnread unread;
  Link link, other;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) link.send(unread, "pod");
  unread.end("pod", std::move(link.broker));
  link.device.reset();
  EXPECT_TRUE(unread.may_send("pod"));
  other.send(unread, "pod");
  unread.end("pod", std::move(other.broker));
  EXPECT_EQ(unread.unread(), 1u);
  unread.forget("pod");
  EXPECT_EQ(unread.unread(), 0u);
}

}  // namespace
}  // namespace fairlead::cni::node
