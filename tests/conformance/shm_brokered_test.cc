// Devices that are connected by a broker: behaviour while their channel is pending, and after the
// broker has ended.
#include <gtest/gtest.h>

#include <functional>

#include "conformance/endpoint.h"
#include "conformance/shm_broker.h"

namespace fairlead::rdma::shm {
namespace {

using State = BrokerConnector::State;

class ShmBrokered : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(left_device_, nullptr);
    ASSERT_NE(right_device_, nullptr);
    left_ = std::make_unique<Endpoint>(*left_device_);
    right_ = std::make_unique<Endpoint>(*right_device_);
    ASSERT_TRUE(left_->post_receives(16));
    ASSERT_TRUE(right_->post_receives(16));
  }
  bool run_until(const std::function<bool()>& done) {
    for (int idle = 0; idle < 2000;) {
      if (done()) return true;
      const bool busy = left_->turn() | right_->turn();
      idle = busy ? 0 : idle + 1;
      if (idle <= 2) continue;
      left_->watcher().wait(*left_device_, 1);
      right_->watcher().wait(*right_device_, 1);
    }
    return done();
  }
  // With a third device.
  bool run_until(Endpoint& third, ShmDevice& third_device, const std::function<bool()>& done) {
    return run_until([&] {
      third.turn();
      third.watcher().wait(third_device, 0);
      return done();
    });
  }
  struct Connection {
    QueuePair* left;
    QueuePair* right;
  };
  Connection connect() {
    Connection made{&left_->add_queue_pair(), &right_->add_queue_pair()};
    EXPECT_TRUE(made.left->connect(right_->address_of(*made.right)));
    EXPECT_TRUE(made.right->connect(left_->address_of(*made.left)));
    return made;
  }
  bool works(const Connection& connection) {
    const std::size_t right_before = right_->received.size(), left_before = left_->received.size();
    const Bytes message = pattern(100, 7);
    if (!run_until([&] {
          return connection.left->send_room() != 0 && connection.right->send_room() != 0;
        }))
      return false;
    return post(*connection.left, send_request(message)) &&
           post(*connection.right, send_request(message)) && run_until([&] {
             return right_->received.size() > right_before && left_->received.size() > left_before;
           }) &&
           right_->received.back().bytes == message && left_->received.back().bytes == message;
  }
  State state_of(const ShmDevice& device) const {
    return static_cast<const BrokerConnector&>(device.connector()).state();
  }

  BrokerThread broker_;
  std::unique_ptr<ShmDevice> left_device_ = open_device(broker_, 1);
  std::unique_ptr<ShmDevice> right_device_ = open_device(broker_, 2);
  std::unique_ptr<Endpoint> left_, right_;
};

TEST_F(ShmBrokered, SpeaksWhenTheSocketHasCome) {
  EXPECT_EQ(left_device_->fabric(), right_device_->fabric());
  EXPECT_TRUE(left_device_->reachable(right_device_->ports()[0].gid));
  auto& early = left_->add_queue_pair();
  EXPECT_EQ(early.send_room(), 0u);
  const Connection connection = connect();
  EXPECT_TRUE(works(connection));
  EXPECT_TRUE(works(connect()));
  const Bytes bytes = pattern(1000, 3);
  std::copy(bytes.begin(), bytes.end(), left_->memory().bytes().begin());
  EXPECT_TRUE(post(*connection.left,
                   write_request(left_->memory(), 0, 1000, at(right_->memory(), 5000), true)));
  EXPECT_TRUE(run_until([&] { return !left_->sent(*connection.left).empty(); }));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), right_->memory().bytes().begin() + 5000));
}

TEST_F(ShmBrokered, TheUnknownBreaksTheQueuePair) {
  auto& alone = left_->add_queue_pair();
  const Gid gid = ShmDevice::gid_of(left_device_->fabric(), PortNumber(1), peer_id(9));
  ASSERT_TRUE(alone.connect({.gid = gid, .queue_pair = QpNumber(0x1000)}));
  EXPECT_EQ(alone.send_room(), 0u);
  EXPECT_TRUE(run_until([&] { return left_->has_fatal(alone); }));
  EXPECT_TRUE(works(connect()));
}

TEST_F(ShmBrokered, ALostBrokerBreaksWhatWaitsForItAndNothingElse) {
  const Connection before = connect();
  ASSERT_TRUE(works(before));
  broker_.stop();
  auto& waiting = left_->add_queue_pair();
  const Gid gid = ShmDevice::gid_of(left_device_->fabric(), PortNumber(1), peer_id(9));
  // Refused at once if the loss is known already.
  if (waiting.connect({.gid = gid, .queue_pair = QpNumber(0x1000)})) {
    EXPECT_TRUE(run_until([&] { return left_->has_fatal(waiting); }));
  }
  EXPECT_TRUE(run_until([&] { return state_of(*left_device_) == State::kDown; }));
  EXPECT_FALSE(left_device_->reachable(gid));
  EXPECT_TRUE(left_device_->reachable(right_device_->ports()[0].gid));
  EXPECT_TRUE(works(before));
  EXPECT_TRUE(works(connect()));  // over the channel that is there
}

// Goal: the loss of the broker ends the wait for memory that it would bring. Method: the channel
// sleeps, and the timer is not looked at.
TEST_F(ShmBrokered, ALostBrokerEndsTheWaitForAnnouncedMemory) {
  broker_.swallow_grants = true;
  const Connection connection = connect();
  const RemoteSlice theirs = at(left_->memory());
  ASSERT_TRUE(run_until([&] {
    // What each has said before it may send is in the ring then.
    if (connection.left->send_room() == 0 || connection.right->send_room() == 0) return false;
    const auto memory = connection.right->remote_memory(theirs, 1);
    return !memory && memory.error().code == Errc::kWouldBlock;
  }));
  while (!right_device_->arm()) right_->turn();
  broker_.stop();
  const Gid gid = ShmDevice::gid_of(right_device_->fabric(), PortNumber(1), peer_id(9));
  EXPECT_FALSE(right_->add_queue_pair().connect({.gid = gid, .queue_pair = QpNumber(0x1000)}));
  EXPECT_EQ(state_of(*right_device_), State::kDown);
  EXPECT_FALSE(right_device_->poll_fault());
  right_->turn();
  const auto fault = right_device_->poll_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->error.code, Errc::kPeerGone);
  EXPECT_TRUE(works(connection));
}

TEST_F(ShmBrokered, TheNextBrokerIsTakenUp) {
  broker_.stop();
  const auto both = [&](State state) {
    return run_until(
        [&] { return state_of(*left_device_) == state && state_of(*right_device_) == state; });
  };
  ASSERT_TRUE(both(State::kDown));
  broker_.start();
  ASSERT_TRUE(both(State::kRegistered));
  EXPECT_TRUE(works(connect()));
}

TEST_F(ShmBrokered, ADeviceThatAsksForItselfGetsItself) {
  auto& one = left_->add_queue_pair();
  auto& two = left_->add_queue_pair();
  ASSERT_TRUE(one.connect(left_->address_of(two)));
  ASSERT_TRUE(two.connect(left_->address_of(one)));
  ASSERT_TRUE(run_until([&] { return one.send_room() != 0; }));
  ASSERT_TRUE(post(one, send_request(kAnyMessage)));
  EXPECT_TRUE(run_until([&] { return !left_->received.empty(); }));
}

// The refusal of a request whose queue pair is destroyed does not concern the next queue pair.
TEST_F(ShmBrokered, ARefusalThatCameTooLateIsAskedAgain) {
  constexpr std::uint8_t kLate = 3;
  const Gid gid = ShmDevice::gid_of(left_device_->fabric(), PortNumber(1), peer_id(kLate));
  broker_.hold_refusals = true;
  auto& unknown = left_->add_queue_pair();
  ASSERT_TRUE(unknown.connect({.gid = gid, .queue_pair = QpNumber(0x1000)}));
  left_->queue_pairs.clear();
  auto late_device = open_device(broker_, kLate);
  ASSERT_NE(late_device, nullptr);
  Endpoint late(*late_device);
  ASSERT_TRUE(late.post_receives(16));
  QueuePair& theirs = late.add_queue_pair();
  QueuePair& ours = left_->add_queue_pair();
  ASSERT_TRUE(ours.connect(late.address_of(theirs)));
  ASSERT_TRUE(theirs.connect(left_->address_of(ours)));
  broker_.hold_refusals = false;
  ASSERT_TRUE(run_until(late, *late_device,
                        [&] { return left_->has_fatal(ours) || theirs.send_room() != 0; }));
  ASSERT_TRUE(post(theirs, send_request(kAnyMessage)));
  EXPECT_TRUE(run_until(late, *late_device,
                        [&] { return left_->has_fatal(ours) || !left_->received.empty(); }));
  EXPECT_FALSE(left_->has_fatal(ours));
  late.queue_pairs.clear();
}

TEST_F(ShmBrokered, WhoWaitsNoLongerIsForgotten) {
  for (int i = 0; i < 20; ++i) {
    auto& waiting = left_->add_queue_pair();
    ASSERT_TRUE(waiting.connect(right_->address_of(right_->add_queue_pair())));
    left_->queue_pairs.clear();
  }
  right_->queue_pairs.clear();
  EXPECT_TRUE(works(connect()));
}

TEST_F(ShmBrokered, AnAnswerThatIsLostIsNotWaitedForWithoutEnd) {
  broker_.swallow_connects = true;
  auto& waiting = left_->add_queue_pair();
  QueuePair& theirs = right_->add_queue_pair();
  ASSERT_TRUE(waiting.connect(right_->address_of(theirs)));
  EXPECT_TRUE(run_until([&] { return left_->has_fatal(waiting); }));
  const auto fault = left_device_->poll_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->error.code, Errc::kTimedOut);
  // There is no request for the peer for a while, and then another one.
  broker_.swallow_connects = false;
  QueuePair* again = nullptr;
  EXPECT_TRUE(run_until([&] {
    QueuePair& next = left_->add_queue_pair();
    const auto connected = next.connect(right_->address_of(theirs));
    if (connected) again = &next;
    if (!connected) {
      EXPECT_EQ(connected.error().code, Errc::kTimedOut);
      left_->queue_pairs.pop_back();
    }
    return again != nullptr;
  }));
  ASSERT_NE(again, nullptr);
  ASSERT_TRUE(theirs.connect(left_->address_of(*again)));
  EXPECT_TRUE(works({again, &theirs}));
}

// Announced memory that does not arrive blocks the channel of the two for a while; then the key is
// unknown.
TEST_F(ShmBrokered, GrantsThatNeverComeAreWaitedForOnce) {
  auto third_device = open_device(broker_, 3, 1, true, std::chrono::milliseconds(300));
  ASSERT_NE(third_device, nullptr);
  const Connection connection = connect();
  ASSERT_TRUE(works(connection));
  broker_.swallow_grants = true;
  Endpoint third(*third_device);
  ASSERT_TRUE(third.post_receives(16));
  QueuePair& theirs = third.add_queue_pair();
  QueuePair& ours = left_->add_queue_pair();
  ASSERT_TRUE(ours.connect(third.address_of(theirs)));
  ASSERT_TRUE(theirs.connect(left_->address_of(ours)));
  ASSERT_TRUE(run_until(third, *third_device, [&] { return ours.send_room() != 0; }));
  ASSERT_TRUE(post(ours, send_request(std::span(kAnyMessage))));
  ASSERT_TRUE(run_until(third, *third_device, [&] { return !third.received.empty(); }));
  EXPECT_FALSE(theirs.remote_memory(at(left_->memory()), 1));
  EXPECT_TRUE(third_device->poll_fault());
  EXPECT_TRUE(works(connection));
  third.queue_pairs.clear();
}

TEST_F(ShmBrokered, AnEmptyStockIsAnErrorAndIsRefilled) {
  const auto allocate = [&] {
    return left_device_->allocate_buffer(left_->domain(), 4096, BufferUse::kRmb);
  };
  broker_.no_blanks = true;
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers;
  for (auto made = allocate(); made; made = allocate()) {
    buffers.push_back(std::move(*made));
    ASSERT_LE(buffers.size(), 2 * BrokerThread::kStock);
  }
  EXPECT_EQ(allocate().error().code, Errc::kExhausted);
  // Memory that no peer writes needs no broker.
  EXPECT_TRUE(left_device_->allocate_buffer(left_->domain(), 4096, BufferUse::kSendRing));
  EXPECT_TRUE(works(connect()));
  broker_.no_blanks = false;
  EXPECT_TRUE(run_until([&] { return allocate().has_value(); }));
}

TEST_F(ShmBrokered, BuffersAreFreedAtTheBroker) {
  // The stocks of both devices may still be in transit.
  const std::uint64_t before = broker_.buffers;
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(run_until([&] {
      return left_device_->allocate_buffer(left_->domain(), 4096, BufferUse::kRmb).has_value();
    }));
  EXPECT_TRUE(run_until([&] { return broker_.buffers <= before + 2 * BrokerThread::kStock; }));
}

// Buffers of the old broker stay in use but cannot be granted to further peers; those of the new
// one can.
TEST_F(ShmBrokered, TheNextBrokerServesNewDomains) {
  const Connection before = connect();
  ASSERT_TRUE(works(before));
  broker_.stop();
  ASSERT_TRUE(run_until([&] { return state_of(*left_device_) == State::kDown; }));
  EXPECT_FALSE(left_device_->allocate_buffer(left_->domain(), 4096, BufferUse::kRmb));
  broker_.start();
  ASSERT_TRUE(run_until([&] {
    return state_of(*left_device_) == State::kRegistered &&
           state_of(*right_device_) == State::kRegistered;
  }));
  std::unique_ptr<RegisteredBuffer> fresh;
  ASSERT_TRUE(run_until([&] {
    auto made = left_device_->allocate_buffer(left_->domain(), 4096, BufferUse::kRmb);
    if (made) fresh = std::move(*made);
    return fresh != nullptr;
  }));
  EXPECT_TRUE(run_until([&] { return before.right->remote_memory(at(*fresh), 4096).has_value(); }));
  EXPECT_TRUE(before.right->remote_memory(at(left_->memory()), 1));
  EXPECT_TRUE(works(before));
}

}  // namespace
}  // namespace fairlead::rdma::shm
