// Runs the conformance suite on a real RDMA device that is opened twice, so its port connects to
// itself. It uses the first device, or the one that FAIRLEAD_RDMA_DEVICE names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "conformance/conformance_test.h"
#include "rdma/verbs/verbs_device.h"

namespace fairlead::rdma {
namespace {

// Soft-RoCE in an emulated guest manages a few hundred a second.
constexpr unsigned kPingPongs = 1000;

verbs::MemlockAccount& account() {
  static verbs::MemlockAccount all(verbs::memlock_limit_bytes());
  return all;
}

// "" when there is none.
std::string device_name() {
  if (const char* wanted = std::getenv("FAIRLEAD_RDMA_DEVICE")) return wanted;
  const std::vector<std::string> names = verbs::device_names();
  return names.empty() ? "" : names.front();
}

std::unique_ptr<verbs::VerbsDevice> open_device(bool shared) {
  auto device = verbs::VerbsDevice::open(
      {.name = device_name(), .memlock = &account(), .shared_receive_queues = shared});
  EXPECT_TRUE(device) << to_string(device.error());
  return device ? std::move(*device) : nullptr;
}

class VerbsDevicePair final : public DevicePair {
 public:
  VerbsDevicePair(std::unique_ptr<verbs::VerbsDevice> left,
                  std::unique_ptr<verbs::VerbsDevice> right)
      : left_(std::move(left)), right_(std::move(right)) {}
  Device& left() override { return *left_; }
  Device& right() override { return *right_; }

 private:
  std::unique_ptr<verbs::VerbsDevice> left_, right_;
};

template <bool kShared>
std::unique_ptr<DevicePair> make_pair(unsigned) {
  auto left = open_device(kShared);
  auto right = left == nullptr ? nullptr : open_device(kShared);
  if (right == nullptr) return nullptr;
  return std::make_unique<VerbsDevicePair>(std::move(left), std::move(right));
}

std::vector<DeviceKind> kinds() {
  if (device_name().empty()) return {};
  return {DeviceKind{"Verbs", make_pair<true>, kPingPongs},
          DeviceKind{"VerbsWithoutSharedQueues", make_pair<false>, kPingPongs}};
}

// One line instead of one for every test of the suite.
TEST(VerbsConformance, HasADevice) {
  if (device_name().empty()) GTEST_SKIP() << "no RDMA device on this machine";
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceConformance);
INSTANTIATE_TEST_SUITE_P(Verbs, DeviceConformance, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace fairlead::rdma
