// Access of a peer to memory by its use and its protection domain, and memory that is registered
// with two devices, as link groups with links on both need it.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "conformance/conformance_test.h"

namespace fairlead::rdma {
namespace {

TEST_P(DeviceConformance, MemoryOfOneDeviceServesAnotherUnderKeysOfItsOwn) {
  auto pages = left->device().allocate_buffer(left->domain(), 100000, BufferUse::kRmb);
  ASSERT_TRUE(pages);
  auto shared = right->device().share_buffer(right->domain(), **pages, BufferUse::kRmb);
  ASSERT_EQ(shared.has_value(), GetParam().shares_buffers);
  if (!shared) {
    EXPECT_EQ(shared.error().code, Errc::kUnsupported);
    return;
  }
  EXPECT_EQ((*shared)->bytes().data(), (*pages)->bytes().data());
  EXPECT_EQ((*shared)->bytes().size(), (*pages)->bytes().size());
  Connection connection = connect();
  ASSERT_TRUE(left->post_receives(4));
  ASSERT_TRUE(right->post_receives(4));
  left->memory().bytes()[0] = std::byte{1};
  const WorkRequest into[] = {write_request(left->memory(), 0, 1, at(**shared, 99999)), any_send()};
  ASSERT_TRUE(connection.left->post(into));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 1; }));
  EXPECT_EQ((*pages)->bytes()[99999], std::byte{1});
  const WorkRequest back[] = {write_request(**shared, 99999, 1, at(left->memory(), 1)), any_send()};
  ASSERT_TRUE(connection.right->post(back));
  ASSERT_TRUE(run_until([&] { return left->received.size() == 1; }));
  EXPECT_EQ(left->memory().bytes()[1], std::byte{1});
  connection.left->fail();
  shared->reset();
  EXPECT_EQ((*pages)->bytes()[99999], std::byte{1});
}

// The domain and the range are right, so only the use of the buffer forbids the access.
TEST_P(DeviceConformance, PeersWriteIntoRmbsOnly) {
  for (const BufferUse use : {BufferUse::kSendRing, BufferUse::kMessages}) {
    SCOPED_TRACE(static_cast<int>(use));
    auto buffer = std::move(right->device().allocate_buffer(right->domain(), 4096, use).value());
    Connection attacker = connect();
    Connection bystander = connect_ready(4);
    settle();
    std::memset(left->memory().bytes().data(), 0x11, 64);
    EXPECT_FALSE(attacker.left->remote_memory(at(*buffer), 64));
    expect_write_refused(attacker, 64, at(*buffer));
    EXPECT_TRUE(std::ranges::all_of(buffer->bytes(), [](std::byte b) { return b == std::byte{}; }));
    EXPECT_TRUE(works(bystander));
    EXPECT_FALSE(right->has_fatal(*bystander.right));
  }
}

// As after the lie of a third party, who names a queue pair that has a peer.
TEST_P(DeviceConformance, ASecondQueuePairThatNamesTheSamePeerDoesNotDisturbTheFirst) {
  Connection connection = connect_ready(4);
  settle();
  const auto view = connection.left->remote_memory(at(right->memory()), 64);
  QueuePair& second = left->add_queue_pair();
  ASSERT_TRUE(second.connect(right->address_of(*connection.right)));
  settle();
  if (view) std::memset(view->data(), 0x33, view->size());
  EXPECT_TRUE(!view || right->memory().bytes()[63] == std::byte{0x33});
  std::memset(left->memory().bytes().data(), 0x44, 64);
  EXPECT_EQ(write(connection, left->memory(), 64, at(right->memory())), CompletionStatus::kSuccess);
  EXPECT_EQ(right->memory().bytes()[63], std::byte{0x44});
  EXPECT_TRUE(works(connection));
}

TEST_P(DeviceConformance, PagesOfAViewAreGivenBackAndCanBeWrittenAgain) {
  Connection connection = connect();
  settle();
  const std::span<std::byte> memory = right->memory().bytes();
  const auto view = connection.left->remote_memory(at(right->memory()), memory.size());
  EXPECT_EQ(left->device().return_pages({}), nullptr);
  if (!left->device().capabilities().returns_pages) {
    EXPECT_EQ(left->device().return_pages(view ? *view : memory), nullptr);
    return;
  }
  ASSERT_TRUE(view);
  std::memset(view->data(), 0x33, view->size());
  const std::span<std::byte> half = view->first(view->size() / 2);
  const std::unique_ptr<PageReturn> returned = left->device().return_pages(half);
  ASSERT_NE(returned, nullptr);
  ASSERT_TRUE(run_until([&] { return memory[0] != std::byte{0x33}; }));
  ASSERT_TRUE(run_until([&] { return returned->settle() == PageReturn::State::kReturned; }));
  EXPECT_NE(memory[half.size() - 1], std::byte{0x33});
  EXPECT_EQ(memory[half.size()], std::byte{0x33});
  std::memset(view->data(), 0x44, view->size());
  EXPECT_EQ(memory[0], std::byte{0x44});
}

// A device on which another device's send rings are registered grants no more than the first.
TEST_P(DeviceConformance, ASendRingServesItsOwnerAndSharingItGrantsPeersNothing) {
  auto ring = left->device().allocate_buffer(left->domain(), 4096, BufferUse::kSendRing);
  ASSERT_TRUE(ring);
  Connection owner = connect();
  settle();
  std::memset((*ring)->bytes().data(), 0x22, 64);
  EXPECT_EQ(write(owner, **ring, 64, at(right->memory())), CompletionStatus::kSuccess);
  EXPECT_EQ(right->memory().bytes()[63], std::byte{0x22});
  auto shared = right->device().share_buffer(right->domain(), **ring, BufferUse::kSendRing);
  ASSERT_EQ(shared.has_value(), GetParam().shares_buffers);
  if (shared) {
    Connection connection = connect();
    ASSERT_TRUE(right->post_receives(1));
    settle();
    left->memory().bytes()[0] = std::byte{0x11};
    expect_write_refused(connection, 1, at(**shared));
    EXPECT_EQ((*ring)->bytes()[0], std::byte{0x22});
  }
  left->queue_pairs.clear();
}

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
  expect_write_refused(outsider, 64, at(*secret));
  EXPECT_EQ(secret->bytes()[0], std::byte{0});
  if (insider.left != nullptr) {
    EXPECT_EQ(write(insider, left->memory(), 64, at(*secret)), CompletionStatus::kSuccess);
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
  ASSERT_TRUE(post(*theirs.left, any_send()));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 2; }));
  EXPECT_EQ(right->received[1].queue_pair, theirs.right->number());
  right->queue_pairs.clear();
}

TEST_P(DeviceConformance, LocalBufferOfAnotherDomainIsALocalError) {
  auto domain = std::move(left->device().create_protection_domain().value());
  auto foreign = std::move(left->device().allocate_buffer(*domain, 4096, BufferUse::kRmb).value());
  Connection connection = connect();
  // Soft-RoCE flushes requests where others report an error.
  EXPECT_THAT(write(connection, *foreign, 64, at(right->memory())),
              testing::AnyOf(CompletionStatus::kLocalError, CompletionStatus::kFlushed));
  EXPECT_EQ(right->memory().bytes()[0], std::byte{0});
  left->queue_pairs.clear();
}

}  // namespace
}  // namespace fairlead::rdma
