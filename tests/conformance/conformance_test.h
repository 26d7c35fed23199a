// The fixture of the conformance suite: two endpoints, connected queue pairs between them, and
// functions that wait for a condition.
#pragma once

#include <memory>

#include "conformance/connection.h"

namespace fairlead::rdma {

class DeviceConformance : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override { start(1); }

  void start(unsigned ports) {
    right.reset();
    left.reset();
    pair.reset();
    pair = GetParam().make(ports);
    if (pair == nullptr) GTEST_SKIP() << "no " << GetParam().name << " device on this machine";
    left = std::make_unique<Endpoint>(pair->left());
    right = std::make_unique<Endpoint>(pair->right());
  }

  bool run_until(const std::function<bool()>& done) { return rdma::run_until(done, *left, *right); }
  void settle() { rdma::settle(*left, *right); }

  Connection connect(PortNumber port = PortNumber(1), std::uint32_t send_requests = 64,
                     ProtectionDomain* right_domain = nullptr,
                     SharedReceiveQueue* right_queue = nullptr) {
    return rdma::connect(*left, *right, port, send_requests, right_domain, right_queue);
  }

  // With so many receive requests on the right.
  Connection connect_ready(std::uint32_t receives, std::uint32_t send_requests = 64) {
    const Connection made = connect(PortNumber(1), send_requests);
    EXPECT_TRUE(right->post_receives(receives));
    return made;
  }

  // Sends one message from left to right; true if it arrives.
  bool works(const Connection& connection) {
    const Bytes message = pattern(44, 77);
    const std::size_t before = right->received.size();
    if (!post(*connection.left, send_request(message))) return false;
    return run_until([&] { return right->received.size() > before; }) &&
           right->received.back().bytes == message &&
           right->received.back().queue_pair == connection.right->number();
  }

  // The status of a write from left to right, the first request of its queue pair that completes.
  CompletionStatus write(const Connection& connection, const RegisteredBuffer& from,
                         std::uint32_t length, RemoteSlice to) {
    EXPECT_TRUE(post(*connection.left, write_request(from, 0, length, to, true, 1)));
    EXPECT_TRUE(run_until([&] { return !left->sent(*connection.left).empty(); }));
    const std::vector<Completion> sent = left->sent(*connection.left);
    EXPECT_EQ(sent.size(), 1u);
    return sent.at(0).status;
  }
  // The same for one that fails, which both ends report.
  void expect_write_refused(const Connection& connection, std::uint32_t length, RemoteSlice to) {
    EXPECT_EQ(write(connection, left->memory(), length, to), CompletionStatus::kRemoteAccessError);
    EXPECT_TRUE(run_until([&] { return right->has_fatal(*connection.right); }));
  }

  std::unique_ptr<DevicePair> pair;
  std::unique_ptr<Endpoint> left, right;
};

}  // namespace fairlead::rdma
