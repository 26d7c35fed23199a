// What a handshake holds of the worker's limits: it is counted once, stands in line for its turn,
// and gives all of it back at its end, wherever the permit has been moved.

#include "relay/connection/handshake_permit.h"

#include "stage_fixture.h"

namespace fairlead::relay {
namespace {

class HandshakePermitTest : public StageTest {
 protected:
  static constexpr std::size_t kHandshakes = kLimits.handshakes_max;

  std::size_t free_handshakes() {
    std::size_t count = 0;
    while (admission.begin_handshake()) ++count;
    for (std::size_t i = 0; i < count; ++i) admission.end_handshake(std::nullopt);
    return count;
  }
  HandshakePermit permit(std::uint64_t of_session) { return {services, of_session}; }
};

TEST_F(HandshakePermitTest, AHandshakeIsCountedOnceUntilItsPermitGoes) {
  {
    HandshakePermit held = permit(1);
    EXPECT_EQ(free_handshakes(), kHandshakes);
    EXPECT_TRUE(held.count());
    EXPECT_TRUE(held.count());
    EXPECT_EQ(free_handshakes(), kHandshakes - 1);
  }
  EXPECT_EQ(free_handshakes(), kHandshakes);
}

TEST_F(HandshakePermitTest, AHandshakeBeyondTheLimitHoldsNothing) {
  for (std::size_t i = 0; i < kHandshakes; ++i) ASSERT_TRUE(admission.begin_handshake());
  {
    HandshakePermit refused = permit(1);
    EXPECT_FALSE(refused.count());
    EXPECT_FALSE(refused.count(client));
    admission.end_handshake(std::nullopt);
    EXPECT_TRUE(refused.count()) << "it may try again";
  }
  EXPECT_EQ(free_handshakes(), 1U);
}

TEST_F(HandshakePermitTest, TheShareOfTheClientIsGivenBack) {
  for (int i = 0; i < 10; ++i) {
    HandshakePermit first = permit(1), second = permit(2);
    ASSERT_TRUE(first.count(client)) << i;
    ASSERT_TRUE(second.count(client)) << i;
    HandshakePermit third = permit(3);
    EXPECT_FALSE(third.count(client)) << "one is left for others";
  }
}

TEST_F(HandshakePermitTest, AMovedPermitIsGivenBackOnce) {
  HandshakePermit other = permit(2);
  {
    std::optional<HandshakePermit> first = permit(1);
    ASSERT_TRUE(first->count(client) && first->acquire(destination));
    HandshakePermit second = std::move(*first);
    first.reset();
    EXPECT_EQ(free_handshakes(), kHandshakes - 1);
    EXPECT_TRUE(second.held());
    EXPECT_FALSE(other.acquire(destination));
    EXPECT_TRUE(worker.granted.empty());
  }
  EXPECT_EQ(free_handshakes(), kHandshakes);
  EXPECT_EQ(worker.granted, std::vector<std::uint64_t>{2});
}

TEST_F(HandshakePermitTest, TheLineIsServedInItsOrder) {
  HandshakePermit second = permit(2), third = permit(3);
  {
    HandshakePermit first = permit(1);
    EXPECT_FALSE(first.held());
    EXPECT_TRUE(first.acquire(destination));
    EXPECT_TRUE(first.held());
    EXPECT_FALSE(second.acquire(destination));
    EXPECT_FALSE(third.acquire(destination));
    EXPECT_TRUE(second.waiting());
    EXPECT_FALSE(second.held());
  }
  ASSERT_EQ(worker.granted, std::vector<std::uint64_t>{2});
  second.granted();
  EXPECT_TRUE(second.held());
  EXPECT_FALSE(second.waiting());
  second.release();
  EXPECT_FALSE(second.held());
  EXPECT_EQ(worker.granted, (std::vector<std::uint64_t>{2, 3}));
  second.release();
  EXPECT_EQ(worker.granted.size(), 2U) << "it has none any more";
}

TEST_F(HandshakePermitTest, WhoGoesWhileInLineLeavesIt) {
  HandshakePermit first = permit(1), third = permit(3);
  ASSERT_TRUE(first.acquire(destination));
  {
    HandshakePermit second = permit(2);
    EXPECT_FALSE(second.acquire(destination));
    EXPECT_FALSE(third.acquire(destination));
  }
  EXPECT_TRUE(worker.granted.empty());
  first.release();
  EXPECT_EQ(worker.granted, std::vector<std::uint64_t>{3});
}

TEST_F(HandshakePermitTest, AMovedPlaceInLineIsKept) {
  HandshakePermit first = permit(1);
  ASSERT_TRUE(first.acquire(destination));
  std::optional<HandshakePermit> second = permit(2);
  EXPECT_FALSE(second->acquire(destination));
  const HandshakePermit moved = std::move(*second);
  second.reset();
  EXPECT_TRUE(moved.waiting());
  first.release();
  EXPECT_EQ(worker.granted, std::vector<std::uint64_t>{2});
}

}  // namespace
}  // namespace fairlead::relay
