// Both ends of the way to a keeper: what is parked comes back, and what breaks the rules does not.
#include "parking/keeper_session.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/record_socket.h"
#include "base/unix_address.h"
#include "parking/proxy_keeper.h"

namespace fairlead::parking {
namespace {

using State = KeeperSession::State;

constexpr ParcelLimits kLimits = {.descriptors = 1000, .bytes = 1000};

TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

Parcel parcel(std::size_t descriptors) {
  Parcel made;
  auto sealed = seal_description(std::as_bytes(std::span("abc", 3)));
  EXPECT_TRUE(sealed);
  made.description = ForeignDescriptor(std::move(*sealed));
  made.bytes = 3;
  for (std::size_t i = 0; i < descriptors; ++i)
    made.descriptors.emplace_back(FileDescriptor(::eventfd(0, EFD_CLOEXEC)));
  return made;
}

class KeeperSessionTest : public testing::Test {
 protected:
  KeeperSessionTest() { start_proxy(); }
  void start_proxy() {
    proxy.reset();
    auto listening = ProxyKeeper::listen(name);
    EXPECT_TRUE(listening);
    proxy = std::move(*listening);
  }
  FileDescriptor connect() const {
    const auto address = unix_name(name);
    FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::connect(fd.get(), address->get(), address->length_bytes), 0);
    return fd;
  }
  KeeperSession keeper(std::unique_ptr<Parcel> held = nullptr, ParcelLimits limits = kLimits) {
    return {connect(), limits, closer, std::move(held)};
  }
  // What the proxy says of a parcel to a keeper with these limits.
  Result<void> park(const Parcel& parked, ParcelLimits limits) {
    KeeperSession session = keeper(nullptr, limits);
    EXPECT_TRUE(session.advance());
    EXPECT_TRUE(proxy->receive(soon()));
    Result<void> said;
    std::thread ours([&] { said = proxy->park(parked, soon()); });
    while (session.state() != State::kReceived && session.advance()) std::this_thread::yield();
    ours.join();
    received = session.take_parcel();
    return said;
  }

  const std::string name = "@fairlead-keeper-test-" + std::to_string(::getpid());
  DescriptorCloser closer;
  std::unique_ptr<ProxyKeeper> proxy;
  std::unique_ptr<Parcel> received;
};

TEST_F(KeeperSessionTest, WhatIsParkedComesBack) {
  const Parcel parked = parcel(300);
  ASSERT_TRUE(park(parked, kLimits));
  ASSERT_NE(received, nullptr);
  EXPECT_EQ(received->descriptors.size(), 300U);
  start_proxy();
  KeeperSession session = keeper(std::move(received));
  std::optional<Parcel> taken;
  std::thread ours([&] {
    auto got = proxy->receive(soon());
    if (got) taken = std::move(*got);
    proxy->answer(KeeperRecord::Refusal::kNone, 300);
  });
  do ASSERT_TRUE(session.advance());
  while (session.state() == State::kGiving);
  ours.join();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->descriptors.size(), 300U);
  EXPECT_TRUE(read_description(*taken));
  EXPECT_EQ(session.take_parcel(), nullptr);
  EXPECT_EQ(session.take_answer(), KeeperRecord::Refusal::kNone);
  EXPECT_EQ(session.take_answer(), std::nullopt);
}

TEST_F(KeeperSessionTest, AKeeperSaysWhatItDoesNotTake) {
  const Parcel parked = parcel(5);
  const Result<void> descriptors = park(parked, {.descriptors = 4, .bytes = 1000});
  ASSERT_FALSE(descriptors);
  EXPECT_STREQ(descriptors.error().what, to_string(KeeperRecord::Refusal::kDescriptors));
  start_proxy();
  const Result<void> bytes = park(parked, {.descriptors = 5, .bytes = 2});
  ASSERT_FALSE(bytes);
  EXPECT_STREQ(bytes.error().what, to_string(KeeperRecord::Refusal::kBytes));
  EXPECT_EQ(received, nullptr);
}

TEST_F(KeeperSessionTest, WhatAProxyDoesNotTakeBackStaysUntilItSaysSo) {
  auto held = std::make_unique<Parcel>(parcel(2));
  KeeperSession session = keeper(std::move(held));
  ASSERT_TRUE(session.advance());
  auto got = proxy->receive(soon());
  ASSERT_TRUE(got && *got);
  ASSERT_TRUE(session.advance());
  EXPECT_EQ(session.state(), State::kGiving);
  proxy->answer(KeeperRecord::Refusal::kVersion, 0);
  while (session.state() == State::kGiving) ASSERT_TRUE(session.advance());
  EXPECT_EQ(session.take_answer(), KeeperRecord::Refusal::kVersion);
}

// The keeper may be kept from its work for so long that it finds both at once.
TEST_F(KeeperSessionTest, AnAnswerIsToldAlsoBehindTheParcelThatFollowsIt) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const FileDescriptor sidecar(ends[0]);
  KeeperSession session(FileDescriptor(ends[1]), kLimits, closer,
                        std::make_unique<Parcel>(parcel(2)));
  const Parcel next = parcel(0);
  const int description = next.description.get();
  using Kind = KeeperRecord::Kind;
  ASSERT_TRUE(send_record(sidecar.get(), encode({.kind = Kind::kTaken}), {}));
  ASSERT_TRUE(send_record(sidecar.get(), encode({.kind = Kind::kParcel, .bytes = 3}),
                          std::span(&description, 1)));
  ASSERT_TRUE(session.advance());
  EXPECT_EQ(session.state(), State::kReceived);
  EXPECT_EQ(session.take_answer(), KeeperRecord::Refusal::kNone);
  const auto received_now = session.take_parcel();
  ASSERT_NE(received_now, nullptr);
  EXPECT_TRUE(received_now->descriptors.empty());
}

TEST_F(KeeperSessionTest, AProxyThatDiesMidwayLosesNothing) {
  KeeperSession session = keeper(std::make_unique<Parcel>(parcel(2)));
  ASSERT_TRUE(session.advance());
  proxy.reset();
  while (session.advance()) std::this_thread::yield();
  const auto left = session.take_parcel();
  ASSERT_NE(left, nullptr);
  EXPECT_EQ(left->descriptors.size(), 2U);
}

TEST_F(KeeperSessionTest, WithoutAKeeperNothingIsReceivedOrParked) {
  const auto none = proxy->receive(std::chrono::steady_clock::now());
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_EQ(proxy->park(parcel(0), soon()).error().code, Errc::kPeerGone);
}

TEST_F(KeeperSessionTest, AKeeperThatHoldsNothingSaysSo) {
  KeeperSession session = keeper();
  ASSERT_TRUE(session.advance());
  const auto none = proxy->receive(soon());
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  ASSERT_TRUE(proxy->limits());
  EXPECT_EQ(proxy->limits()->descriptors, kLimits.descriptors);
}

TEST_F(KeeperSessionTest, TheWishToParkReachesTheProxy) {
  std::atomic<bool> wanted{false};
  proxy->start([&] { wanted = true; }, nullptr);
  KeeperSession session = keeper();
  ASSERT_TRUE(session.advance());
  ASSERT_TRUE(session.ask_to_park());
  while (!wanted) std::this_thread::yield();
  proxy->stop();
}

TEST_F(KeeperSessionTest, AParcelWaitsUntilTheKeeperHasRested) {
  KeeperSession session = keeper();
  session.rest_until(TimePoint::max());
  ASSERT_TRUE(session.advance());
  EXPECT_TRUE(proxy->receive(soon()));
  const Parcel parked = parcel(2);
  Result<void> said;
  std::thread ours([&] { said = proxy->park(parked, soon()); });
  while (!session.rests() && session.advance()) std::this_thread::yield();
  EXPECT_EQ(session.state(), State::kIdle);
  session.rest_until({});
  while (session.state() != State::kReceived && session.advance()) std::this_thread::yield();
  ours.join();
  EXPECT_TRUE(said);
  EXPECT_EQ(session.take_parcel()->descriptors.size(), 2U);
}

TEST_F(KeeperSessionTest, AProxyThatSpeaksOutOfTurnIsLeft) {
  KeeperSession session = keeper();
  ASSERT_TRUE(session.advance());
  ASSERT_TRUE(proxy->receive(soon()));
  proxy->answer(KeeperRecord::Refusal::kNone, 0);
  Result<void> advanced;
  while (advanced = session.advance(), advanced.has_value()) std::this_thread::yield();
  EXPECT_EQ(advanced.error().code, Errc::kMalformed);
}

}  // namespace
}  // namespace fairlead::parking
