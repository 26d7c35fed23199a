// Isolation by protection domains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "conformance/conformance_test.h"

namespace fairlead::rdma {
namespace {

TEST_P(DeviceConformance, ProtectionDomainsIsolate) {
  auto domain = std::move(right->device().create_protection_domain().value());
  auto secret = std::move(right->device().allocate_buffer(*domain, 4096, BufferUse::kRmb).value());
  Connection outsider = connect();  // in the endpoint's own domain
  Connection insider{nullptr, nullptr};
  if (right->device().capabilities().receive_queue_crosses_domains) {
    insider = connect(PortNumber(1), 64, domain.get());
  }
  // A device without shared receive queues reports through them that a queue pair is in error.
  ASSERT_TRUE(right->post_receives(1));
  settle();
  std::memset(left->memory().bytes().data(), 0x11, 64);
  EXPECT_FALSE(outsider.left->remote_memory(at(*secret), 64));
  ASSERT_TRUE(post(*outsider.left, write_request(left->memory(), 0, 64, at(*secret), true, 1)));
  ASSERT_TRUE(run_until(
      [&] { return right->has_fatal(*outsider.right) && !left->sent(*outsider.left).empty(); }));
  ASSERT_EQ(left->sent(*outsider.left).size(), 1u);
  EXPECT_EQ(left->sent(*outsider.left)[0].status, CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(secret->bytes()[0], std::byte{0});
  if (insider.left != nullptr) {
    ASSERT_TRUE(post(*insider.left, write_request(left->memory(), 0, 64, at(*secret), true, 2)));
    ASSERT_TRUE(run_until([&] { return left->sent(*insider.left).size() == 1; }));
    EXPECT_EQ(left->sent(*insider.left)[0].status, CompletionStatus::kSuccess);
    EXPECT_EQ(secret->bytes()[63], std::byte{0x11});
  }
  right->queue_pairs.clear();
  secret.reset();
}

TEST_P(DeviceConformance, ReceiveQueuesOfSeveralDomainsServeTheirOwn) {
  auto domain = std::move(right->device().create_protection_domain().value());
  auto queue = std::move(right->device().create_shared_receive_queue(*domain, 4).value());
  auto buffer = std::move(right->device().allocate_buffer(*domain, 4096, BufferUse::kRmb).value());
  const ReceiveRequest receive{WorkId(7), buffer.get(), 0, 4096};
  ASSERT_TRUE(queue->post({&receive, 1}));
  ASSERT_TRUE(right->post_receives(1));
  right->refill = false;
  Connection theirs = connect();
  Connection own = connect(PortNumber(1), 64, domain.get(), queue.get());
  Bytes message = pattern(44, 3);
  ASSERT_TRUE(post(*own.left, send_request(message)));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 1; }));
  EXPECT_EQ(right->received[0].queue_pair, own.right->number());
  EXPECT_EQ(right->received[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(std::memcmp(buffer->bytes().data(), message.data(), message.size()), 0);
  // The first queue still has its request.
  ASSERT_TRUE(post(*theirs.left, send_request(std::span(kAnyMessage))));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 2; }));
  EXPECT_EQ(right->received[1].queue_pair, theirs.right->number());
  right->queue_pairs.clear();
}

TEST_P(DeviceConformance, LocalBufferOfAnotherDomainIsALocalError) {
  auto domain = std::move(left->device().create_protection_domain().value());
  auto foreign = std::move(left->device().allocate_buffer(*domain, 4096, BufferUse::kRmb).value());
  Connection connection = connect();
  ASSERT_TRUE(post(*connection.left, write_request(*foreign, 0, 64, at(right->memory()), true, 1)));
  ASSERT_TRUE(run_until([&] { return left->sends.size() == 1; }));
  // Soft-RoCE flushes requests where others report an error.
  EXPECT_THAT(left->sends[0].status,
              testing::AnyOf(CompletionStatus::kLocalError, CompletionStatus::kFlushed));
  EXPECT_EQ(right->memory().bytes()[0], std::byte{0});
  left->queue_pairs.clear();
}

}  // namespace
}  // namespace fairlead::rdma
