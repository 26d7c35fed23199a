// Both ends of the way to a keeper: what is parked comes back, and what breaks the rules does not.
#include "parking/keeper_session.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "base/linux/record_socket.h"
#include "base/linux/unix_address.h"
#include "parking/proxy_keeper.h"

namespace fairlead::parking {
namespace {

using Event = KeeperSession::Event;
using Refusal = KeeperRecord::Refusal;
using Stage = KeeperSession::Stage;

constexpr ParcelLimits kLimits = {.descriptors = 1000, .bytes = 1000};

TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

Parcel parcel(std::size_t descriptors) {
  Parcel made;
  auto sealed = seal_description(std::as_bytes(std::span("abc", 3)));
  EXPECT_TRUE(sealed);
  made.description = ForeignDescriptor(std::move(*sealed));
  made.bytes = 3;
  for (std::size_t i = 0; i < descriptors; ++i)
    made.descriptors.emplace_back(
        FileDescriptor(::eventfd(static_cast<unsigned>(i + 1), EFD_CLOEXEC)));
  return made;
}

// The number that parcel() has put into each.
std::uint64_t mark_of(const ForeignDescriptor& descriptor) {
  std::uint64_t mark = 0;
  EXPECT_EQ(::read(descriptor.get(), &mark, sizeof mark), static_cast<ssize_t>(sizeof mark));
  return mark;
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
    const auto address = UnixAddress::parse(name);
    FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::connect(fd.get(), address->data(), address->size()), 0);
    return fd;
  }
  std::unique_ptr<KeeperSession> keeper(std::unique_ptr<Parcel> held = nullptr,
                                        ParcelLimits limits = kLimits) {
    FileDescriptor connection = connect();
    KeeperTerms terms{limits};
    if (allowed) terms.reserve = [this](std::uint32_t count) { return count <= *allowed; };
    if (fetches) {
      auto process = PeerProcess::of(connection.get(), [](int pid) { return pid == ::getpid(); });
      EXPECT_TRUE(process && process->may_fetch());
      terms.process.emplace(std::move(*process));
    }
    return std::make_unique<KeeperSession>(std::move(connection), std::move(terms), closer,
                                           std::move(held));
  }
  // Advances until the session ends, or brings one of these.
  template <class Wanted>
  static Result<Wanted> await(KeeperSession& session) {
    for (;;) {
      Event event = SMC_TRY(session.advance());
      if (auto* const wanted = std::get_if<Wanted>(&event)) return std::move(*wanted);
      EXPECT_TRUE(std::holds_alternative<std::monostate>(event));
      std::this_thread::yield();
    }
  }
  // What the proxy says of a parcel to a keeper with these limits.
  Result<void> park(const Parcel& parked, ParcelLimits limits) {
    const auto session = keeper(nullptr, limits);
    EXPECT_TRUE(session->advance());
    EXPECT_TRUE(proxy->receive(soon()));
    Result<void> said;
    std::thread ours([&] {
      said = proxy->offer(static_cast<std::uint32_t>(parked.descriptors.size()), soon());
      if (said) said = proxy->park(parked, soon());
    });
    auto got = await<KeeperSession::Received>(*session);
    ours.join();
    if (got) received = std::move(got->parcel);
    return said;
  }

  const std::string name = "@fairlead-keeper-test-" + std::to_string(::getpid());
  DescriptorCloser closer;
  std::optional<std::uint32_t> allowed;
  bool fetches = false;
  std::unique_ptr<ProxyKeeper> proxy;
  std::unique_ptr<Parcel> received;
};

TEST_F(KeeperSessionTest, WhatIsParkedComesBack) {
  for (const bool by_fetch : {false, true}) {
    fetches = by_fetch;
    start_proxy();
    const Parcel parked = parcel(300);
    ASSERT_TRUE(park(parked, kLimits));
    ASSERT_NE(received, nullptr);
    ASSERT_EQ(received->descriptors.size(), 300U);
    for (const std::size_t i : {0U, 150U, 299U})
      EXPECT_EQ(mark_of(received->descriptors[i]), i + 1) << by_fetch;
    start_proxy();
    const auto session = keeper(std::move(received));
    std::optional<Parcel> taken;
    std::thread ours([&] {
      auto got = proxy->receive(soon());
      if (got) taken = std::move(*got);
      proxy->answer(Refusal::kNone, 300);
    });
    const auto answer = await<KeeperSession::Answered>(*session);
    ours.join();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->refusal, Refusal::kNone);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->descriptors.size(), 300U);
    EXPECT_TRUE(read_description(*taken));
    EXPECT_EQ(session->take_held(), nullptr);
  }
}

TEST_F(KeeperSessionTest, AKeeperSaysWhatItDoesNotTake) {
  const Parcel parked = parcel(5);
  const Result<void> descriptors = park(parked, {.descriptors = 4, .bytes = 1000});
  ASSERT_FALSE(descriptors);
  EXPECT_STREQ(descriptors.error().what, to_string(Refusal::kDescriptors));
  for (const bool by_fetch : {false, true}) {
    fetches = by_fetch;
    start_proxy();
    const Result<void> bytes = park(parked, {.descriptors = 5, .bytes = 2});
    ASSERT_FALSE(bytes);
    EXPECT_STREQ(bytes.error().what, to_string(Refusal::kBytes));
    EXPECT_EQ(received, nullptr);
  }
}

TEST_F(KeeperSessionTest, WhatIsOfferedIsReservedOrRefused) {
  allowed = 5;
  const Result<void> refused = park(parcel(5), kLimits);  // and the description
  ASSERT_FALSE(refused);
  EXPECT_STREQ(refused.error().what, to_string(Refusal::kShare));
  start_proxy();
  EXPECT_TRUE(park(parcel(4), kLimits));
}

TEST_F(KeeperSessionTest, AnOfferThatNobodyAnswersIsGivenUp) {
  const auto session = keeper();
  ASSERT_TRUE(session->advance());
  ASSERT_TRUE(proxy->receive(soon()));
  EXPECT_EQ(proxy->offer(1, std::chrono::steady_clock::now()).error().code, Errc::kTimedOut);
}

TEST_F(KeeperSessionTest, MoreThanWasOfferedNeedsRoomOfItsOwn) {
  allowed = 4;
  const auto session = keeper();
  ASSERT_TRUE(session->advance());
  ASSERT_TRUE(proxy->receive(soon()));
  const Parcel parked = parcel(4);
  Result<void> said;
  std::thread ours([&] {
    said = proxy->offer(3, soon());
    if (said) said = proxy->park(parked, soon());
  });
  EXPECT_FALSE(await<KeeperSession::Received>(*session));
  ours.join();
  ASSERT_FALSE(said);
  EXPECT_STREQ(said.error().what, to_string(Refusal::kShare));
}

// The table then has a number that no descriptor has.
TEST_F(KeeperSessionTest, ADescriptorThatDoesNotExistIsNotFetched) {
  fetches = true;
  Parcel odd = parcel(1);
  odd.descriptors.emplace_back(FileDescriptor());
  EXPECT_FALSE(park(odd, kLimits));
  EXPECT_EQ(received, nullptr);
}

TEST_F(KeeperSessionTest, WhatAProxyDoesNotTakeBackStaysUntilItSaysSo) {
  const auto session = keeper(std::make_unique<Parcel>(parcel(2)));
  ASSERT_TRUE(session->advance());
  auto got = proxy->receive(soon());
  ASSERT_TRUE(got && *got);
  ASSERT_TRUE(session->advance());
  EXPECT_EQ(session->stage(), Stage::kGiving);
  proxy->answer(Refusal::kVersion, 0);
  const auto answer = await<KeeperSession::Answered>(*session);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->refusal, Refusal::kVersion);
}

class BareSessionTest : public testing::Test {
 protected:
  BareSessionTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()),
              0);
    sidecar.reset(ends[0]);
    keeper.reset(ends[1]);
  }
  void say(const KeeperRecord& record, std::span<const int> descriptors = {}) {
    ASSERT_TRUE(send_record(sidecar.get(), encode(record), descriptors));
  }
  using Kind = KeeperRecord::Kind;
  const Parcel next = parcel(0);
  const int description = next.description.get();
  DescriptorCloser closer;
  FileDescriptor sidecar, keeper;
};

// The keeper may be kept from its work for so long that it finds both at once.
TEST_F(BareSessionTest, AnAnswerIsToldAlsoBeforeTheParcelThatFollowsIt) {
  KeeperSession session(std::move(keeper), {kLimits}, closer, std::make_unique<Parcel>(parcel(2)));
  say({.kind = Kind::kTaken});
  say({.kind = Kind::kParcel, .bytes = 3}, {&description, 1});
  auto first = session.advance();
  ASSERT_TRUE(first);
  ASSERT_TRUE(std::holds_alternative<KeeperSession::Answered>(*first));
  EXPECT_EQ(std::get<KeeperSession::Answered>(*first).refusal, Refusal::kNone);
  auto second = session.advance();
  ASSERT_TRUE(second);
  ASSERT_TRUE(std::holds_alternative<KeeperSession::Received>(*second));
  EXPECT_TRUE(std::get<KeeperSession::Received>(*second).parcel->descriptors.empty());
}

// Whoever has parked then does not know that the keeper has it, and goes on with it.
TEST_F(BareSessionTest, AParcelWhoseAnswerCannotBeSentIsNotReceived) {
  KeeperSession session(std::move(keeper), {kLimits}, closer, nullptr);
  ASSERT_TRUE(session.advance());
  ASSERT_EQ(::shutdown(sidecar.get(), SHUT_RD), 0);
  say({.kind = Kind::kParcel, .bytes = 3}, {&description, 1});
  const auto event = session.advance();
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, Errc::kPeerGone);
  EXPECT_EQ(session.take_held(), nullptr);
}

TEST_F(BareSessionTest, NothingOfAProxyThatIsGoneIsReceived) {
  KeeperSession session(std::move(keeper), {kLimits}, closer, nullptr);
  ASSERT_TRUE(session.advance());
  say({.kind = Kind::kOffer, .count = 1});
  say({.kind = Kind::kParcel, .count = 0, .bytes = 3}, {&description, 1});
  sidecar.reset();
  EXPECT_FALSE(session.advance());
}

TEST_F(BareSessionTest, NoSecondOfferIsTakenBesideTheFirst) {
  KeeperSession session(std::move(keeper), {kLimits}, closer, nullptr);
  ASSERT_TRUE(session.advance());
  say({.kind = Kind::kOffer, .count = 1});
  ASSERT_TRUE(session.advance());
  EXPECT_EQ(session.stage(), Stage::kPromised);
  say({.kind = Kind::kOffer, .count = 1});
  EXPECT_FALSE(session.advance());
}

TEST_F(KeeperSessionTest, AProxyThatDiesMidwayLosesNothing) {
  const auto session = keeper(std::make_unique<Parcel>(parcel(2)));
  ASSERT_TRUE(session->advance());
  proxy.reset();
  while (session->advance()) std::this_thread::yield();
  const auto left = session->take_held();
  ASSERT_NE(left, nullptr);
  EXPECT_EQ(left->descriptors.size(), 2U);
}

TEST_F(KeeperSessionTest, WithoutAKeeperNothingIsReceivedOrParked) {
  const auto none = proxy->receive(std::chrono::steady_clock::now());
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_EQ(proxy->offer(0, soon()).error().code, Errc::kPeerGone);
  EXPECT_EQ(proxy->park(parcel(0), soon()).error().code, Errc::kPeerGone);
}

TEST_F(KeeperSessionTest, AKeeperThatHoldsNothingSaysSo) {
  const auto session = keeper();
  ASSERT_TRUE(session->advance());
  const auto none = proxy->receive(soon());
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  ASSERT_TRUE(proxy->limits());
  EXPECT_EQ(proxy->limits()->descriptors, kLimits.descriptors);
}

TEST_F(KeeperSessionTest, TheWishToParkReachesTheProxy) {
  std::atomic<bool> wanted{false};
  ASSERT_TRUE(proxy->start([&] { wanted = true; }));
  const auto session = keeper();
  ASSERT_TRUE(session->advance());
  ASSERT_TRUE(session->ask_to_park());
  while (!wanted) std::this_thread::yield();
  proxy->stop();
}

TEST_F(KeeperSessionTest, AProxyThatSpeaksOutOfTurnIsLeft) {
  const auto session = keeper();
  ASSERT_TRUE(session->advance());
  ASSERT_TRUE(proxy->receive(soon()));
  proxy->answer(Refusal::kNone, 0);
  const auto answer = await<KeeperSession::Answered>(*session);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::kMalformed);
}

}  // namespace
}  // namespace fairlead::parking
