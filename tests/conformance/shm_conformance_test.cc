// Runs the conformance suite on the shared-memory device.
#include "conformance/conformance_test.h"
#include "conformance/shm_device_pair.h"

namespace fairlead::rdma {

constexpr unsigned kPingPongs = 200000;

INSTANTIATE_TEST_SUITE_P(
    Shm, DeviceConformance,
    testing::Values(DeviceKind{"ShmAddressable", shm::make_addressable_pair, kPingPongs, false},
                    DeviceKind{"ShmPlain", shm::make_plain_pair, kPingPongs, false}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace fairlead::rdma
