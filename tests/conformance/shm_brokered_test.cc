// Devices that are connected by a broker: behaviour while their channel is pending, and after the
// broker has ended.
#include <functional>

#include "conformance/shm_broker.h"

namespace fairlead::rdma::shm {
namespace {

using State = BrokerConnector::State;

class ShmBrokered : public ShmBrokeredTest<testing::Test> {
 protected:
  bool run_until(const std::function<bool()>& done) {
    return rdma::run_until(done, *left_, *right_);
  }
  bool works(const Connection& connection) {
    const std::size_t right_before = right_->received.size(), left_before = left_->received.size();
    const Bytes message = pattern(100, 7);
    return run_until([&] {
             return connection.left->send_room() != 0 && connection.right->send_room() != 0;
           }) &&
           post(*connection.left, send_request(message)) &&
           post(*connection.right, send_request(message)) && run_until([&] {
             return right_->received.size() > right_before && left_->received.size() > left_before;
           }) &&
           right_->received.back().bytes == message && left_->received.back().bytes == message;
  }
  bool both_are(State state) {
    return run_until(
        [&] { return state_of(*left_device_) == state && state_of(*right_device_) == state; });
  }
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

TEST_F(ShmBrokered, TheNextBrokerIsTakenUp) {
  broker_.stop();
  ASSERT_TRUE(both_are(State::kDown));
  broker_.start();
  ASSERT_TRUE(both_are(State::kRegistered));
  EXPECT_TRUE(works(connect()));
}

// Buffers of the old broker stay in use but cannot be granted to further peers; those of the new
// one can.
TEST_F(ShmBrokered, TheNextBrokerServesNewDomains) {
  const Connection before = connect();
  ASSERT_TRUE(works(before));
  broker_.stop();
  ASSERT_TRUE(both_are(State::kDown));
  EXPECT_FALSE(left_device_->allocate_buffer(left_->domain(), 4096, BufferUse::kRmb));
  broker_.start();
  ASSERT_TRUE(both_are(State::kRegistered));
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
