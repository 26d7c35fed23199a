// Runs the conformance suite on the simulated device, on a fabric where nothing takes time.
#include <gtest/gtest.h>

#include <deque>

#include "conformance/conformance_test.h"
#include "sim/sim_device.h"

namespace fairlead::sim {

// Everything moves before the causing call returns.
class AtOnce final : public Pace {
 public:
  void soon(std::function<void()> move) override { moves_.push_back(std::move(move)); }
  void after_retries(std::function<void()>) override {}
  bool announced() override { return true; }
  bool chance(unsigned) override { return false; }
  void settle() override {
    if (settling_) return;
    settling_ = true;
    while (!moves_.empty()) {
      const std::function<void()> move = std::move(moves_.front());
      moves_.pop_front();
      move();
    }
    settling_ = false;
  }

 private:
  std::deque<std::function<void()>> moves_;
  bool settling_ = false;
};

class SimDevicePair final : public rdma::DevicePair {
 public:
  SimDevicePair(unsigned ports, bool addressable, bool shared = true)
      : left_(fabric_, options(1, ports, addressable, shared)),
        right_(fabric_, options(2, ports, addressable, shared)) {}
  rdma::Device& left() override { return left_; }
  rdma::Device& right() override { return right_; }
  bool set_left_port(PortNumber port, rdma::PortState state) override {
    left_.set_port_state(port, state);
    return true;
  }

 private:
  static SimDeviceOptions options(std::uint32_t number, unsigned ports, bool addressable,
                                  bool shared) {
    SimDeviceOptions options;
    options.number = number;
    options.ports = ports;
    options.addressable = addressable;
    options.receive_queue_crosses_domains = addressable;  // as with an RNIC that cannot
    options.shared_receive_queues = shared;
    return options;
  }

  AtOnce pace_;
  Fabric fabric_{pace_};
  SimDevice left_, right_;
};

std::unique_ptr<rdma::DevicePair> make_addressable_pair(unsigned ports) {
  return std::make_unique<SimDevicePair>(ports, true);
}
std::unique_ptr<rdma::DevicePair> make_plain_pair(unsigned ports) {
  return std::make_unique<SimDevicePair>(ports, false);
}
std::unique_ptr<rdma::DevicePair> make_pair_without_shared_queues(unsigned ports) {
  return std::make_unique<SimDevicePair>(ports, false, false);
}

}  // namespace fairlead::sim

namespace fairlead::rdma {

constexpr unsigned kPingPongs = 20000;

INSTANTIATE_TEST_SUITE_P(
    Sim, DeviceConformance,
    testing::Values(DeviceKind{"SimAddressable", sim::make_addressable_pair, kPingPongs},
                    DeviceKind{"SimPlain", sim::make_plain_pair, kPingPongs},
                    DeviceKind{"SimWithoutSharedQueues", sim::make_pair_without_shared_queues,
                               kPingPongs}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace fairlead::rdma
