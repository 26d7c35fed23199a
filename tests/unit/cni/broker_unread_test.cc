#include "cni/node/broker/broker_unread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <optional>
#include <set>
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
  void send(BrokerUnread::Records& pod) const {
    const char record[64] = {};
    ASSERT_EQ(::send(broker.get(), record, sizeof record, 0), 64);
    pod.sent(broker.get());
  }
  void read() const {
    char record[64];
    ASSERT_EQ(::recv(device.get(), record, sizeof record, 0), 64);
  }
};

TEST(BrokerUnread, APodHasSoManyUntilItsDevicesHaveReadAll) {
  BrokerUnread unread;
  BrokerUnread::Records pod(unread), other(unread);
  const std::array<Link, 2> links;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) {
    ASSERT_TRUE(pod.may_send()) << i;
    links[i % 2].send(pod);
  }
  EXPECT_FALSE(pod.may_send());
  EXPECT_TRUE(pod.has_unread(links[0].broker.get()));
  EXPECT_TRUE(other.may_send());
  for (std::size_t i = 0; i < kUnreadPerPodMax / 2 - 1; ++i) links[0].read();
  EXPECT_FALSE(pod.may_send());
  links[0].read();
  EXPECT_TRUE(pod.may_send());
  EXPECT_FALSE(pod.has_unread(links[0].broker.get()));
  EXPECT_EQ(unread.unread(), kUnreadPerPodMax / 2);
}

TEST(BrokerUnread, OnACrowdedNodeAPodReadsBeforeItGetsMore) {
  std::set<int> read;
  BrokerUnread unread([&](int socket) { return read.contains(socket); });
  BrokerUnread::Records pod(unread);
  std::deque<BrokerUnread::Records> hostile;
  int socket = 0;
  for (std::size_t i = 0; i < kUnreadPerNodeMax; ++i) {
    if (i % kUnreadPerPodMax == 0) hostile.emplace_back(unread);
    hostile.back().sent(socket++);
  }
  const int own = socket;
  EXPECT_TRUE(pod.may_send());
  pod.sent(own);
  EXPECT_FALSE(pod.may_send());
  read.insert(own);
  EXPECT_TRUE(pod.may_send());
  pod.sent(own);
  read = {0, 1};  // of another pod
  EXPECT_TRUE(pod.may_send());
  EXPECT_EQ(unread.unread(), kUnreadPerNodeMax - 1);
}

TEST(BrokerUnread, WhatALostDeviceKeepsStillCounts) {
  BrokerUnread unread;
  BrokerUnread::Records pod(unread);
  Link link;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) link.send(pod);
  const int number = link.broker.get();
  pod.end(std::move(link.broker));
  EXPECT_FALSE(pod.may_send());
  link.read();
  char end = 0;
  for (std::size_t i = 1; i < kUnreadPerPodMax; ++i) {
    EXPECT_FALSE(pod.may_send());
    link.read();
  }
  EXPECT_EQ(::recv(link.device.get(), &end, 1, 0), 0);  // it notices the end of the connection
  EXPECT_TRUE(pod.may_send());
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_EQ(unread.unread(), 0u);
}

TEST(BrokerUnread, ADeviceThatClosesAndAPodThatEndsHaveNothingUnread) {
  BrokerUnread unread;
  std::optional<BrokerUnread::Records> pod(unread);
  Link link, other;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) link.send(*pod);
  pod->end(std::move(link.broker));
  link.device.reset();
  EXPECT_TRUE(pod->may_send());
  other.send(*pod);
  pod->end(std::move(other.broker));
  EXPECT_EQ(unread.unread(), 1u);
  pod.reset();
  EXPECT_EQ(unread.unread(), 0u);
}

}  // namespace
}  // namespace fairlead::cni::node
