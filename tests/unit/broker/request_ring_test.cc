#include "broker/request_ring.h"

#include <gtest/gtest.h>

#include <cstring>

#include "broker/shared_objects.h"

namespace fairlead::broker {
namespace {

using Kind = Request::Kind;

constexpr PeerId kPeer{{1, 2, 3, 4, 5, 6, 7, 8}};

// The broker's side has its own mapping.
class RequestRing : public testing::Test {
 protected:
  FileDescriptor memory_ = std::move(make_memory("test", kRequestRingBytes).value());
  RequestRingMapping device_ = std::move(map_request_ring(memory_.get()).value());
  RequestRingMapping broker_ = std::move(map_request_ring(memory_.get()).value());
  RequestWriter writer_{*device_};
  RequestReader reader_{*broker_};
};

TEST_F(RequestRing, PassesRequestsInOrder) {
  EXPECT_EQ(reader_.take().error().code, Errc::kWouldBlock);
  for (const Kind kind :
       {Kind::kRegister, Kind::kConnect, Kind::kTake, Kind::kGrant, Kind::kFree}) {
    const Request request{kind, 2, 164480, kPeer, {7, 8}};
    ASSERT_TRUE(writer_.push(request));
    EXPECT_EQ(reader_.take(), request);
  }
  EXPECT_EQ(reader_.take().error().code, Errc::kWouldBlock);
}

TEST_F(RequestRing, StandsInBytesAsTheDocumentSays) {
  ASSERT_TRUE(writer_.push({Kind::kGrant, 2, 0x14131211, kPeer, {0x21, 0x31}}));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(broker_.get());
  EXPECT_EQ(bytes[0], 1);  // tail
  const std::uint8_t wanted[32] = {4, 2, 0, 0,    0x11, 0x12, 0x13, 0x14, 1, 2, 3, 4,   5,
                                   6, 7, 8, 0x21, 0,    0,    0,    0,    0, 0, 0, 0x31};
  EXPECT_EQ(std::memcmp(bytes + 4096, wanted, sizeof wanted), 0);
}

TEST_F(RequestRing, FullRingAsksForRoom) {
  for (std::uint64_t i = 0; i < kRequestSlots; ++i)
    ASSERT_TRUE(writer_.push({.kind = Kind::kConnect, .peer = kPeer}));
  EXPECT_FALSE(reader_.take_wish());
  EXPECT_EQ(writer_.push({.kind = Kind::kConnect}).error().code, Errc::kWouldBlock);
  EXPECT_TRUE(reader_.take());
  EXPECT_TRUE(reader_.take_wish());
  EXPECT_FALSE(reader_.take_wish());
  EXPECT_TRUE(writer_.push({.kind = Kind::kConnect}));
}

TEST_F(RequestRing, RefusesImpossibleIndices) {
  ASSERT_TRUE(writer_.push({.kind = Kind::kConnect}));
  ASSERT_TRUE(reader_.take());
  device_->tail = 0;  // backwards
  EXPECT_EQ(reader_.take().error().code, Errc::kMalformed);
  device_->tail = kRequestSlots + 2;  // laps
  EXPECT_EQ(reader_.take().error().code, Errc::kMalformed);
}

TEST_F(RequestRing, WriterRefusesAnImpossibleHead) {
  for (std::uint64_t i = 0; i < kRequestSlots; ++i)
    ASSERT_TRUE(writer_.push({.kind = Kind::kConnect}));
  broker_->head = kRequestSlots + 1;
  EXPECT_EQ(writer_.push({.kind = Kind::kConnect}).error().code, Errc::kMalformed);
}

TEST_F(RequestRing, RefusesOtherKinds) {
  for (const std::uint64_t word : {0ull, 6ull, 255ull, 1ull | 1ull << 16}) {
    ASSERT_TRUE(writer_.push({.kind = Kind::kConnect}));
    device_->slots[(device_->tail - 1) % kRequestSlots].words[0] = word;
    EXPECT_EQ(reader_.take().error().code, Errc::kMalformed) << word;
  }
}

}  // namespace
}  // namespace fairlead::broker
