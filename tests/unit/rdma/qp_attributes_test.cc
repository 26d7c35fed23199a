// Attributes for ibv_modify_qp(3) when a queue pair is connected.
#include "rdma/verbs/qp_attributes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace fairlead::rdma::verbs {
namespace {

VerbsPort port_with(const PathOptions& path) {
  VerbsPort port;
  port.port.number = PortNumber{2};
  port.port.mtu = Mtu::k2048;
  port.path = path;
  return port;
}

PeerEndpoint peer() {
  PeerEndpoint peer;
  peer.gid.bytes[15] = 7;
  peer.queue_pair = QpNumber{0x123456};
  peer.first_psn = PacketSeq{0xabcdef};
  peer.mtu = Mtu::k4096;
  return peer;
}

constexpr GidEntry kSource{{}, GidType::kRoceV2, 5, 2};

TEST(QpAttributes, AddressVectorHasTrafficClassAndServiceLevel) {
  const VerbsPort port = port_with({.traffic_class = 106, .service_level = 3});
  const Result<QpStep> step = ready_to_receive_step(port, kSource, peer());
  ASSERT_TRUE(step);
  EXPECT_NE(step->mask & IBV_QP_AV, 0);
  const ibv_ah_attr& path = step->attributes.ah_attr;
  EXPECT_EQ(path.grh.traffic_class, 106);
  EXPECT_EQ(path.sl, 3);
  EXPECT_EQ(path.grh.sgid_index, 5);
  EXPECT_EQ(path.port_num, 2);
  EXPECT_EQ(std::memcmp(path.grh.dgid.raw, peer().gid.bytes.data(), 16), 0);
  EXPECT_EQ(step->attributes.dest_qp_num, 0x123456u);
  EXPECT_EQ(step->attributes.rq_psn, 0xabcdefu);
}

TEST(QpAttributes, DefaultsSendWithoutAClass) {
  const Result<QpStep> step = ready_to_receive_step(port_with({}), kSource, peer());
  ASSERT_TRUE(step);
  EXPECT_EQ(step->attributes.ah_attr.grh.traffic_class, 0);
  EXPECT_EQ(step->attributes.ah_attr.sl, 0);
}

TEST(QpAttributes, PathMtuIsTheLowerOfBothEnds) {
  EXPECT_EQ(ready_to_receive_step(port_with({}), kSource, peer())->attributes.path_mtu,
            IBV_MTU_2048);
  PeerEndpoint small = peer();
  small.mtu = Mtu::k512;
  EXPECT_EQ(ready_to_receive_step(port_with({}), kSource, small)->attributes.path_mtu, IBV_MTU_512);
}

TEST(QpAttributes, HopLimitFollowsTheRoute) {
  EXPECT_GT(ready_to_receive_step(port_with({}), kSource, peer())->attributes.ah_attr.grh.hop_limit,
            1);
  PeerEndpoint neighbour = peer();
  neighbour.direct = true;
  EXPECT_EQ(
      ready_to_receive_step(port_with({}), kSource, neighbour)->attributes.ah_attr.grh.hop_limit,
      1);
}

TEST(QpAttributes, InfiniBandNeedsTheLidOfThePeer) {
  VerbsPort port = port_with({.service_level = 4});
  port.infiniband = true;
  EXPECT_EQ(ready_to_receive_step(port, kSource, peer()).error().code, Errc::kUnsupported);
  PeerEndpoint with_lid = peer();
  with_lid.mac = mac_of_lid(0xbeef);
  const Result<QpStep> step = ready_to_receive_step(port, kSource, with_lid);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->attributes.ah_attr.dlid, 0xbeef);
  EXPECT_EQ(step->attributes.ah_attr.sl, 4);
}

TEST(QpAttributes, RepetitionIsThatOfTheOptions) {
  const QpStep step =
      ready_to_send_step({.ack_timeout = 14, .retry_count = 3, .rnr_retry = 5}, PacketSeq{0x1234});
  EXPECT_EQ(step.attributes.timeout, 14);
  EXPECT_EQ(step.attributes.retry_cnt, 3);
  EXPECT_EQ(step.attributes.rnr_retry, 5);
  EXPECT_EQ(step.attributes.sq_psn, 0x1234u);
  constexpr int kRepetition = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  EXPECT_EQ(step.mask & kRepetition, kRepetition);
  const QpStep usual = ready_to_send_step({}, PacketSeq{0});
  EXPECT_EQ(usual.attributes.timeout, 16);
  EXPECT_EQ(usual.attributes.retry_cnt, 6);
  EXPECT_EQ(usual.attributes.rnr_retry, 7);
}

TEST(QpAttributes, LimitOfThePathMtuIsInBytes) {
  EXPECT_EQ(mtu_limit(0), Mtu::k4096);
  EXPECT_EQ(mtu_limit(256), Mtu::k256);
  EXPECT_EQ(mtu_limit(512), Mtu::k512);
  EXPECT_EQ(mtu_limit(1024), Mtu::k1024);
  EXPECT_EQ(mtu_limit(2048), Mtu::k2048);
  EXPECT_EQ(mtu_limit(4096), Mtu::k4096);
}

}  // namespace
}  // namespace fairlead::rdma::verbs
