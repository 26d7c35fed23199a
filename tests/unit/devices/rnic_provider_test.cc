// Goal: a worker without an RNIC says why. Method: a scan by the real provider in a container that
// has no device, which is any machine of the tests without RNICs.
#include "devices/rnic_provider.h"

#include <gtest/gtest.h>

#include "../relay/driver_parts.h"
#include "rdma/verbs/verbs_device.h"

namespace fairlead {
namespace {

class NoUsers final : public relay::DeviceUsers {
 public:
  bool uses(const relay::DeviceSlot&) const override { return false; }
};

class WithoutRnic : public testing::Test, protected relay::WorkerResources {
 protected:
  void SetUp() override {
    if (!rdma::verbs::device_names().empty()) GTEST_SKIP() << "this machine has an RNIC";
  }
  std::vector<DeviceRow> rows() {
    provider.scan(devices);
    return devices.rows();
  }

  config::Config config;
  const PeerId peer_id{{1}};
  NoUsers users;
  relay::LinkGroupRegistry groups{shared, 0, 7};
  relay::DeviceRegistry devices{config, peer_id, groups, shared, users};
  rdma::verbs::MemlockAccount memlock{std::size_t{1} << 30};
  RnicProvider provider{config, {}, memlock, false};
};

TEST_F(WithoutRnic, NothingIsMissingThatNobodyPromised) {
  EXPECT_TRUE(rows().empty());
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kNoRdmaDevice);
}

TEST_F(WithoutRnic, AClaimThatGaveNothingIsNamed) {
  for (const auto& [claim, detail] : {
           std::pair{"rdma-nic",
                     "the pod's claim fairlead-rnic of template rdma-nic gave the container no "
                     "RDMA device"},
           std::pair{"fairlead-rnic",
                     "the pod's claim fairlead-rnic gave the container no RDMA device"},
       }) {
    config.devices.verbs.claim = claim;
    const std::vector<DeviceRow> found = rows();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].state, kDeviceAbsent);
    EXPECT_EQ(found[0].reason, "rnic_not_given");
    EXPECT_EQ(found[0].detail, detail);
    EXPECT_TRUE(found[0].missing);
    EXPECT_EQ(devices.no_device_reason(), FallbackReason::kRnicNotGiven);
  }
  config.devices.verbs.claim.clear();
  EXPECT_TRUE(rows().empty());
  EXPECT_EQ(devices.no_device_reason(), FallbackReason::kNoRdmaDevice);
}

}  // namespace
}  // namespace fairlead
