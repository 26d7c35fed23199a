// Specific behaviour of the shared-memory device: fabrics, sockets, channels between devices that
// are opened and closed in any order. shm_process_test.cc tests processes that end.
#include <thread>

#include "conformance/connection.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

bool exchange(Endpoint& from, QueuePair& sender, Endpoint& to) {
  const std::size_t before = to.received.size();
  const Bytes message = pattern(100, 5);
  return post(sender, send_request(message)) &&
         run_until([&] { return to.received.size() > before; }, from, to) &&
         to.received.back().bytes == message;
}

TEST(ShmChannels, TalksToItself) {
  TestFabric fabric;
  auto device = open_device(fabric, 1);
  Endpoint end(*device);
  const Connection both = connect(end, end);
  ASSERT_TRUE(end.post_receives(8));
  const Bytes ping = pattern(50, 1), pong = pattern(60, 2);
  ASSERT_TRUE(post(*both.left, send_request(ping, true)));
  ASSERT_TRUE(run_until([&] { return end.received.size() == 1 && end.sends.size() == 1; }, end));
  EXPECT_EQ(end.received[0].queue_pair, both.right->number());
  ASSERT_TRUE(post(*both.right, send_request(pong, true)));
  ASSERT_TRUE(run_until([&] { return end.received.size() == 2 && end.sends.size() == 2; }, end));
  EXPECT_EQ(end.received[1].bytes, pong);
}

TEST(ShmChannels, QueuePairThatNeverConnectedIsMissed) {
  TestFabric fabric;
  auto a = open_device(fabric, 1), b = open_device(fabric, 2);
  Endpoint left(*a), right(*b);
  QueuePair& early = left.add_queue_pair();
  ASSERT_TRUE(early.connect(right.address_of(right.add_queue_pair())));
  ASSERT_TRUE(post(early, any_send(true)));
  settle(left, right);
  right.queue_pairs.clear();
  EXPECT_TRUE(
      run_until([&] { return left.has_fatal(early) && left.sends.size() == 1; }, left, right));
  EXPECT_NE(left.sends[0].status, CompletionStatus::kSuccess);
}

TEST(ShmChannels, SimultaneousConnectsMeet) {
  for (int round = 0; round < 100; ++round) {
    TestFabric fabric;
    auto a = open_device(fabric, 1), b = open_device(fabric, 2);
    Endpoint left(*a, 16), right(*b, 16);
    QueuePair& one = left.add_queue_pair();
    QueuePair& two = right.add_queue_pair();
    const PeerEndpoint to_left = left.address_of(one), to_right = right.address_of(two);
    std::thread other([&] { EXPECT_TRUE(two.connect(to_left)); });
    EXPECT_TRUE(one.connect(to_right));
    other.join();
    ASSERT_TRUE(left.post_receives(8));
    ASSERT_TRUE(right.post_receives(8));
    ASSERT_TRUE(exchange(left, one, right));
    ASSERT_TRUE(exchange(right, two, left));
    std::memset(left.memory().bytes().data(), round, 16);
    ASSERT_TRUE(post(one, write_request(left.memory(), 0, 16, at(right.memory()), true)));
    ASSERT_TRUE(run_until([&] { return left.sends.size() == 1; }, left, right));
    EXPECT_EQ(left.sends[0].status, CompletionStatus::kSuccess);
  }
}

TEST(ShmChannels, ReconnectsToASuccessorOfTheSameName) {
  TestFabric fabric;
  auto a = open_device(fabric, 1), b = open_device(fabric, 2);
  Endpoint left(*a);
  auto right = std::make_unique<Endpoint>(*b);
  ASSERT_TRUE(left.post_receives(8));
  for (int life = 0; life < 3; ++life) {
    const Connection both = connect(left, *right);
    ASSERT_TRUE(right->post_receives(8));
    ASSERT_TRUE(exchange(left, *both.left, *right));
    // Its last messages arrive although it has ended.
    ASSERT_TRUE(post(*both.right, send_request(pattern(77, 1))));
    right.reset();
    b.reset();
    b = open_device(fabric, 2);
    right = std::make_unique<Endpoint>(*b);
    ASSERT_TRUE(run_until([&] { return left.has_fatal(*both.left); }, left, *right));
    ASSERT_EQ(left.received.size(), static_cast<std::size_t>(life) + 1);
    EXPECT_EQ(left.received.back().bytes, pattern(77, 1));
  }
}

TEST(ShmChannels, ManyAnnouncementsArriveBeforeTheMessageAfterThem) {
  TestFabric fabric;
  auto a = open_device(fabric, 1), b = open_device(fabric, 2);
  Endpoint left(*a), right(*b);
  ASSERT_TRUE(right.post_receives(8));
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
  for (int i = 0; i < 1500; ++i)
    buffers.push_back(std::move(a->allocate_buffer(left.domain(), 4096, BufferUse::kRmb).value()));
  QueuePair& one = left.add_queue_pair();
  QueuePair& two = right.add_queue_pair();
  ASSERT_TRUE(one.connect(right.address_of(two)));
  EXPECT_EQ(one.send_room(), 0u);
  EXPECT_EQ(post(one, any_send()).error().code, Errc::kExhausted);
  buffers[700].reset();  // its announcement may still wait
  ASSERT_TRUE(two.connect(left.address_of(one)));
  ASSERT_TRUE(run_until([&] { return one.send_room() > 0; }, left, right));
  ASSERT_TRUE(exchange(left, one, right));
  right.memory().bytes()[0] = std::byte{9};
  for (int i = 0; i < 1500; ++i) {
    if (i == 700) continue;
    ASSERT_TRUE(post(two, write_request(right.memory(), 0, 1, at(*buffers[std::size_t(i)], 4095))));
    ASSERT_EQ(buffers[std::size_t(i)]->bytes()[4095], std::byte{9}) << i;
  }
  EXPECT_FALSE(b->poll_fault());
  left.queue_pairs.clear();
}

}  // namespace
}  // namespace fairlead::rdma::shm
