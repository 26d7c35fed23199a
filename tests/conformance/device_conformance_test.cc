// Data transfer that every device must support: see rdma/device.h. A device that passes this and
// the files about failures and wake-ups can be used by the protocol.
#include <map>
#include <random>
#include <vector>

#include "conformance/conformance_test.h"

namespace fairlead::rdma {
namespace {

TEST_P(DeviceConformance, WriteIsVisibleWhenTheSendAfterItArrives) {
  Connection connection = connect_ready(16);
  auto source = left->memory().bytes();
  for (unsigned round = 1; round <= 200; ++round) {
    std::memset(source.data(), static_cast<int>(round), 5000);
    const Bytes message = pattern(44, round);
    const WorkRequest chain[] = {write_request(left->memory(), 0, 5000, at(right->memory(), 100)),
                                 send_request(message, round % 16 == 0)};
    ASSERT_TRUE(connection.left->post(chain));
    // Only signaled completions guarantee room in the send queue.
    ASSERT_TRUE(run_until(
        [&] { return right->received.size() == round && left->sends.size() == round / 16; }));
    EXPECT_EQ(right->received.back().bytes, message);
    const auto target = right->memory().bytes();
    EXPECT_EQ(target[100], static_cast<std::byte>(round));
    EXPECT_EQ(target[5099], static_cast<std::byte>(round));
    EXPECT_EQ(target[99], std::byte{0});
    EXPECT_EQ(target[5100], std::byte{0});
  }
}

TEST_P(DeviceConformance, ChainTakesEffectInTheOrderPosted) {
  Connection connection = connect_ready(16);
  const Bytes source = pattern(3000, 5);
  std::memcpy(left->memory().bytes().data(), source.data(), source.size());
  const Bytes first = pattern(44, 1), second = pattern(300, 2), third = pattern(1, 3);
  const WorkRequest chain[] = {
      write_request(left->memory(), 0, 1000, at(right->memory(), 0), false, 1),
      send_request(first, false, 2),
      write_request(left->memory(), 1000, 1000, at(right->memory(), 1000), false, 3),
      write_request(left->memory(), 2000, 1000, at(right->memory(), 2000), false, 4),
      send_request(second, false, 5),
      send_request(third, true, 6)};
  ASSERT_TRUE(connection.left->post(chain));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 3 && left->sends.size() == 1; }));
  EXPECT_EQ(right->received[0].bytes, first);
  EXPECT_EQ(right->received[1].bytes, second);
  EXPECT_EQ(right->received[2].bytes, third);
  EXPECT_EQ(std::memcmp(right->memory().bytes().data(), source.data(), source.size()), 0);
  EXPECT_EQ(left->sends[0].id, WorkId(6));
  EXPECT_EQ(left->sends[0].status, CompletionStatus::kSuccess);
}

TEST_P(DeviceConformance, OnlySignaledRequestsComplete) {
  Connection connection = connect_ready(64);
  for (std::uint64_t i = 0; i < 50; ++i)
    ASSERT_TRUE(post(*connection.left, send_request(pattern(44, 1), i % 10 == 9, i)));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 50 && left->sends.size() == 5; }));
  settle();
  ASSERT_EQ(left->sends.size(), 5u);
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(left->sends[i].id, WorkId(10 * i + 9));
    EXPECT_EQ(left->sends[i].queue_pair, connection.left->number());
    EXPECT_EQ(left->sends[i].kind, Completion::Kind::kSend);
  }
}

TEST_P(DeviceConformance, EveryMessageSizeArrivesWhole) {
  Connection connection = connect_ready(64);
  const Bytes source = pattern(kMessageBytesMax + 1, 9);
  const auto all = std::span<const std::byte>(source);
  std::size_t size = 1;
  while (size <= kMessageBytesMax) {
    const std::size_t before = right->received.size();
    std::vector<std::size_t> batch;
    while (size <= kMessageBytesMax && batch.size() < 16 && connection.left->send_room() > 0) {
      // Another part of the pattern each time, so that bytes left over from before are noticed.
      const auto message = all.subspan(size % 2, size);
      if (!post(*connection.left, send_request(message, true))) break;
      batch.push_back(size);
      size += size < 300 || size > kMessageBytesMax - 300 ? 1 : 13;
    }
    // The completions too: a device may hold few long messages at a time.
    ASSERT_TRUE(run_until([&] {
      return right->received.size() == before + batch.size() && left->sends.size() == batch.size();
    }));
    left->sends.clear();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto sent = all.subspan(batch[i] % 2, batch[i]);
      ASSERT_EQ(right->received[before + i].bytes, Bytes(sent.begin(), sent.end())) << batch[i];
    }
    right->received.clear();
  }
  EXPECT_FALSE(right->refill_failed);
}

TEST_P(DeviceConformance, PostIsAllOrNothing) {
  Connection connection = connect_ready(64, 16);
  const Bytes message = pattern(kMessageBytesMax + 1, 1);
  const WorkRequest chain[] = {send_request(std::span(message).first(8)), send_request(message)};
  EXPECT_EQ(connection.left->post(chain).error().code, Errc::kMalformed);
  EXPECT_EQ(post(*connection.left, send_request({})).error().code, Errc::kMalformed);
  const std::vector<WorkRequest> too_many(connection.left->send_room() + 1, any_send());
  EXPECT_EQ(connection.left->post(too_many).error().code, Errc::kExhausted);
  settle();
  EXPECT_TRUE(right->received.empty());
  EXPECT_TRUE(works(connection));
  EXPECT_EQ(right->received.size(), 1u);
}

TEST_P(DeviceConformance, ThousandsOfMessagesOfRandomSizesBothWays) {
  Connection connection = connect_ready(200);
  ASSERT_TRUE(left->post_receives(200));
  constexpr unsigned kMessages = 4000;
  std::minstd_rand random(7);
  std::vector<std::size_t> sizes;
  for (unsigned i = 0; i < kMessages; ++i)
    sizes.push_back(random() % 8 == 0 ? 1 + random() % kMessageBytesMax : 1 + random() % 200);
  struct Direction {
    QueuePair* sender;
    Endpoint* receiver;
    unsigned posted = 0, checked = 0;
  } directions[] = {{connection.left, right.get()}, {connection.right, left.get()}};
  const bool all = run_until([&] {
    bool finished = true;
    for (Direction& direction : directions) {
      while (direction.posted < kMessages && direction.sender->send_room() > 0) {
        const Bytes message = pattern(sizes[direction.posted], direction.posted);
        if (!post(*direction.sender, send_request(message, direction.posted % 8 == 0))) break;
        ++direction.posted;
      }
      for (const auto& message : direction.receiver->received) {
        EXPECT_EQ(message.bytes, pattern(sizes[direction.checked], direction.checked));
        ++direction.checked;
      }
      direction.receiver->received.clear();
      finished &= direction.checked == kMessages;
    }
    return finished || testing::Test::HasFailure();
  });
  EXPECT_TRUE(all);
}

TEST_P(DeviceConformance, QueuePairsKeepTheirOwnOrderAndTheirOwnMessages) {
  constexpr std::size_t kQueuePairs = 8;
  constexpr std::uint32_t kEach = 100;
  std::vector<Connection> connections;
  std::map<std::uint32_t, std::size_t> index_of;
  for (std::size_t i = 0; i < kQueuePairs; ++i) {
    connections.push_back(connect());
    index_of[connections.back().right->number().value] = i;
  }
  ASSERT_EQ(index_of.size(), kQueuePairs);
  ASSERT_TRUE(right->post_receives(256));
  for (std::uint32_t round = 0; round < kEach; ++round) {
    for (std::size_t i = 0; i < kQueuePairs; ++i) {
      const std::uint32_t words[2] = {static_cast<std::uint32_t>(i), round};
      ASSERT_TRUE(post(*connections[i].left,
                       send_request(std::as_bytes(std::span(words)), round % 16 == 15)));
    }
    const std::size_t signaled = (round + 1) / 16 * kQueuePairs;
    ASSERT_TRUE(run_until([&] { return left->sends.size() == signaled; }));
  }
  ASSERT_TRUE(run_until([&] { return right->received.size() == kQueuePairs * kEach; }));
  std::vector<std::uint32_t> next(kQueuePairs);
  for (const auto& message : right->received) {
    std::uint32_t words[2];
    ASSERT_EQ(message.bytes.size(), sizeof words);
    std::memcpy(words, message.bytes.data(), sizeof words);
    ASSERT_EQ(index_of.at(message.queue_pair.value), words[0]);
    EXPECT_EQ(words[1], next[words[0]]++);
  }
}

TEST_P(DeviceConformance, SendQueueFillsUpAndDrains) {
  constexpr std::uint32_t kSendRequests = 16;
  Connection connection = connect(PortNumber(1), kSendRequests);
  const Bytes message = pattern(44, 3);
  std::uint32_t posted = 0;
  while (connection.left->send_room() > 0) {
    ASSERT_LE(posted, 4 * kSendRequests);  // a device may round its queue up
    ASSERT_TRUE(post(*connection.left, send_request(message, true, posted)));
    ++posted;
  }
  EXPECT_GE(posted, kSendRequests);
  EXPECT_EQ(post(*connection.left, send_request(message)).error().code, Errc::kExhausted);
  settle();
  EXPECT_EQ(connection.left->send_room(), 0u);  // nothing was received yet
  ASSERT_TRUE(right->post_receives(128));
  ASSERT_TRUE(run_until([&] { return left->sends.size() == posted; }));
  EXPECT_EQ(connection.left->send_room(), posted);
  EXPECT_EQ(right->received.size(), posted);
  EXPECT_TRUE(works(connection));
}

TEST_P(DeviceConformance, RoomPromisedIsRoomGiven) {
  Connection connection = connect_ready(200, 64);
  const Bytes longest = pattern(kMessageBytesMax, 1);
  const Bytes shorter = pattern(kShortMessageBytes, 2);
  std::size_t expected = 0;
  for (int round = 0; round < 300; ++round) {
    // Sometimes all room is used, sometimes the receiver is late.
    std::vector<WorkRequest> chain(connection.left->send_room(), send_request(shorter, true));
    if (round % 3 != 0 && chain.size() > 5) chain.resize(5);
    if (!chain.empty()) chain[chain.size() / 2].message = longest;
    ASSERT_TRUE(connection.left->post(chain)) << chain.size();
    expected += chain.size();
    left->turn();
    if (round % 4 == 3) right->turn();
  }
  ASSERT_TRUE(run_until([&] { return right->received.size() == expected; }));
  EXPECT_FALSE(right->refill_failed);
}

TEST_P(DeviceConformance, RemoteMemoryIsThePeersMemory) {
  Connection connection = connect_ready(4);
  settle();
  auto view = connection.left->remote_memory(at(right->memory(), 4096), 8192);
  if (!left->device().capabilities().remote_memory_addressable) {
    EXPECT_EQ(view.error().code, Errc::kUnsupported);
    return;
  }
  ASSERT_TRUE(view);
  ASSERT_EQ(view->size(), 8192u);
  const Bytes bytes = pattern(8192, 4);
  std::memcpy(view->data(), bytes.data(), bytes.size());
  ASSERT_TRUE(works(connection));
  EXPECT_EQ(std::memcmp(right->memory().bytes().data() + 4096, bytes.data(), bytes.size()), 0);
  const std::size_t size = right->memory().bytes().size();
  EXPECT_TRUE(connection.left->remote_memory(at(right->memory()), size));
  EXPECT_EQ(connection.left->remote_memory(at(right->memory(), 1), size).error().code,
            Errc::kNotFound);
  EXPECT_EQ(connection.left->remote_memory(at(right->memory(), size_t(-1)), 2).error().code,
            Errc::kNotFound);
  RemoteSlice wrong = at(right->memory());
  wrong.rkey.value ^= 0x1000;
  EXPECT_EQ(connection.left->remote_memory(wrong, 1).error().code, Errc::kNotFound);
  EXPECT_TRUE(works(connection));
}

TEST_P(DeviceConformance, BufferMadeAfterConnectingCanBeWritten) {
  Connection connection = connect_ready(4);
  auto late = right->device().allocate_buffer(right->domain(), 100000, BufferUse::kRmb);
  ASSERT_TRUE(late);
  for (const std::byte byte : (*late)->bytes()) ASSERT_EQ(byte, std::byte{0});
  left->memory().bytes()[0] = std::byte{1};
  const WorkRequest chain[] = {write_request(left->memory(), 0, 1, at(**late, 99999)), any_send()};
  ASSERT_TRUE(connection.left->post(chain));
  ASSERT_TRUE(run_until([&] { return right->received.size() == 1; }));
  EXPECT_EQ((*late)->bytes()[99999], std::byte{1});
}

}  // namespace
}  // namespace fairlead::rdma
