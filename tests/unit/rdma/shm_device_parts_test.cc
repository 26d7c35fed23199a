// What the parts of a device share.
#include "rdma/shm/shm_device_parts.h"

#include <gtest/gtest.h>

#include "unit/rdma/shm_device_test.h"

namespace fairlead::rdma::shm {
namespace {

TEST(ShmPorts, APortThatIsNotThereIsDown) {
  std::vector<Port> made(3);
  for (Port& port : made) port.state = PortState::kActive;
  made.resize(2);
  Ports ports(std::move(made));
  EXPECT_EQ(ports.all().size(), 2u);
  EXPECT_EQ(ports.state(PortNumber(0)), PortState::kDown);
  EXPECT_EQ(ports.state(PortNumber(1)), PortState::kActive);
  EXPECT_EQ(ports.state(PortNumber(2)), PortState::kActive);
  EXPECT_EQ(ports.state(PortNumber(3)), PortState::kDown);
}

TEST(ShmPorts, EachHasAStateOfItsOwn) {
  Port active;
  active.state = PortState::kActive;
  Ports ports({active, active});
  EXPECT_FALSE(ports.set_state(PortNumber(1), PortState::kActive));
  EXPECT_TRUE(ports.set_state(PortNumber(1), PortState::kDown));
  EXPECT_FALSE(ports.set_state(PortNumber(1), PortState::kDown));
  EXPECT_EQ(ports.state(PortNumber(1)), PortState::kDown);
  EXPECT_EQ(ports.state(PortNumber(2)), PortState::kActive);
  EXPECT_EQ(ports.all()[0].state, PortState::kDown);
  EXPECT_TRUE(ports.set_state(PortNumber(2), PortState::kDown));
  EXPECT_TRUE(ports.set_state(PortNumber(1), PortState::kActive));
}

TEST(ShmPeerFaults, TheLatestAreKept) {
  PeerFaults faults;
  EXPECT_FALSE(faults.poll());
  for (std::uint8_t i = 0; i < kFaultsMax + 2; ++i)
    faults.note(PeerId{{i}}, Error{Errc::kMalformed, "test"});
  for (std::uint8_t i = 2; i < kFaultsMax + 2; ++i) {
    const auto fault = faults.poll();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->peer, PeerId{{i}});
    EXPECT_EQ(fault->error.code, Errc::kMalformed);
  }
  EXPECT_FALSE(faults.poll());
}

// Whether it runs can be seen from outside.
class ShmWaitTimer : public testing::Test {
 protected:
  itimerspec setting() const {
    itimerspec spec{};
    EXPECT_EQ(::timerfd_gettime(timer_.descriptor(), &spec), 0);
    return spec;
  }
  bool is_readable(int timeout_milliseconds) const {
    pollfd timer{timer_.descriptor(), POLLIN, 0};
    return ::poll(&timer, 1, timeout_milliseconds) == 1;
  }
  WaitTimer timer_{FileDescriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK))};
};

TEST_F(ShmWaitTimer, ExpiresAgainAndAgainUntilItIsStopped) {
  EXPECT_FALSE(timer_.take_expiry());
  timer_.stop();
  EXPECT_EQ(setting().it_interval.tv_nsec, 0);
  timer_.start();
  EXPECT_EQ(std::chrono::nanoseconds(setting().it_interval.tv_nsec), kWaitCheckInterval);
  EXPECT_EQ(setting().it_interval.tv_sec, 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(is_readable(-1));
    EXPECT_TRUE(timer_.take_expiry());
  }
  timer_.stop();
  EXPECT_EQ(setting().it_interval.tv_nsec, 0);
  EXPECT_EQ(setting().it_value.tv_nsec, 0);
  (void)timer_.take_expiry();  // one that came before
  EXPECT_FALSE(is_readable(0));
  timer_.start();
  EXPECT_TRUE(is_readable(-1));
}

// Otherwise what is asked for often enough would never be looked at.
TEST_F(ShmWaitTimer, StartingItTwiceDoesNotBeginAnew) {
  timer_.start();
  ASSERT_TRUE(is_readable(-1));
  timer_.start();
  EXPECT_TRUE(is_readable(0));
  EXPECT_TRUE(timer_.take_expiry());
}

}  // namespace
}  // namespace fairlead::rdma::shm
