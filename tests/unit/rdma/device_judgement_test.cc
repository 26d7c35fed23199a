// Checks whether devices and ports can carry SMC-R.
#include "rdma/verbs/device_judgement.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

namespace fairlead::rdma::verbs {
namespace {

std::string words(const Result<void>& judged) { return judged ? "" : to_string(judged.error()); }

TEST(DeviceJudgement, RefusesTransportsThatSmcCannotAddress) {
  for (const ibv_transport_type type :
       {IBV_TRANSPORT_IWARP, IBV_TRANSPORT_USNIC, IBV_TRANSPORT_USNIC_UDP}) {
    const Result<void> judged = judge_transport(type);
    ASSERT_FALSE(judged) << type;
    EXPECT_EQ(judged.error().code, Errc::kUnsupported);
  }
  EXPECT_NE(words(judge_transport(IBV_TRANSPORT_IWARP)).find("iWARP"), std::string::npos);
  EXPECT_NE(words(judge_transport(IBV_TRANSPORT_USNIC)).find("usNIC"), std::string::npos);
  // A driver that names no transport may still be suitable; the trial queue pair decides.
  EXPECT_TRUE(judge_transport(IBV_TRANSPORT_IB));
  EXPECT_TRUE(judge_transport(IBV_TRANSPORT_UNSPECIFIED));
  EXPECT_TRUE(judge_transport(IBV_TRANSPORT_UNKNOWN));
}

ibv_device_attr common_limits() {
  ibv_device_attr limits{};
  limits.phys_port_cnt = 1;
  limits.max_qp = 1024;
  limits.max_qp_wr = 1024;
  limits.max_srq = 16;
  limits.max_srq_wr = 1024;
  return limits;
}

TEST(DeviceJudgement, NamesTheObjectThatADeviceLacks) {
  EXPECT_TRUE(judge_limits(common_limits()));
  ibv_device_attr limits = common_limits();
  limits.max_qp = 0;
  EXPECT_EQ(words(judge_limits(limits)), "the device has no queue pairs");
  limits = common_limits();
  limits.phys_port_cnt = 0;
  EXPECT_EQ(words(judge_limits(limits)), "the device has no port");
}

TEST(DeviceJudgement, ADeviceWithoutSharedReceiveQueuesWillDo) {
  EXPECT_TRUE(has_shared_receive_queues(common_limits()));
  for (int ibv_device_attr::*const limit :
       {&ibv_device_attr::max_srq, &ibv_device_attr::max_srq_wr}) {
    ibv_device_attr limits = common_limits();
    limits.*limit = 0;
    EXPECT_FALSE(has_shared_receive_queues(limits));
    EXPECT_TRUE(judge_limits(limits));
  }
}

TEST(DeviceJudgement, TellsARefusedTypeFromAShortage) {
  for (const int number : {EOPNOTSUPP, ENOSYS, EINVAL}) {
    EXPECT_EQ(judge_trial("ibv_create_qp", number).code, Errc::kUnsupported) << number;
    EXPECT_EQ(judge_trial("ibv_create_qp", number).system, number);
  }
  EXPECT_EQ(judge_trial("ibv_create_qp", ENOMEM).code, Errc::kExhausted);
  EXPECT_EQ(judge_trial("ibv_create_qp", EIO).code, Errc::kSystem);
}

TEST(DeviceJudgement, FindsAPartitionByItsValue) {
  const std::vector<std::uint16_t> table = {0xffff, 0x0012, 0x8012, 0x0000, 0x0013};
  EXPECT_EQ(partition_index(table, 0x7fff), 0);
  EXPECT_EQ(partition_index(table, 0x12), 2);  // as a full member
  EXPECT_EQ(partition_index(table, 0x13), 4);
  EXPECT_FALSE(partition_index(table, 0x14));
  EXPECT_FALSE(partition_index({}, 0x7fff));
}

TEST(DeviceJudgement, TellsWhyAPortCannotBeUsed) {
  EXPECT_EQ(judge_port(IBV_LINK_LAYER_ETHERNET, 2, 2, true), PortFault::kNone);
  EXPECT_EQ(judge_port(IBV_LINK_LAYER_INFINIBAND, 1, 1, true), PortFault::kNone);
  EXPECT_EQ(judge_port(IBV_LINK_LAYER_UNSPECIFIED, 2, 2, true), PortFault::kLinkLayer);
  EXPECT_EQ(judge_port(7, 0, 0, false), PortFault::kLinkLayer);
  EXPECT_EQ(judge_port(IBV_LINK_LAYER_ETHERNET, 0, 0, false), PortFault::kNoGid);
  EXPECT_EQ(judge_port(IBV_LINK_LAYER_ETHERNET, 1, 1, false), PortFault::kNoGid);
  EXPECT_EQ(judge_port(IBV_LINK_LAYER_ETHERNET, 3, 0, false), PortFault::kGidsExcluded);
}

}  // namespace
}  // namespace fairlead::rdma::verbs
