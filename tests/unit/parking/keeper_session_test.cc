// The way to a keeper, by parcels over real sockets and by both of its ends: what is parked comes
// back, and what breaks the rules does not.
#include "parking/keeper_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>

#include "base/linux/record_socket.h"
#include "base/linux/unix_socket.h"
#include "parking/proxy_keeper.h"

namespace fairlead::parking {
namespace {

using Event = KeeperSession::Event;
using Refusal = KeeperRecord::Refusal;
using Stage = KeeperSession::Stage;

constexpr ParcelLimits kLimits = {.descriptors = 1000, .bytes = 1000};

TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

// Event counters, each with its own number.
Parcel parcel(std::size_t descriptors, std::string_view description = "abc") {
  Parcel made;
  made.description =
      ForeignDescriptor(std::move(seal_description(std::as_bytes(std::span(description))).value()));
  made.bytes = description.size();
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
  std::unique_ptr<KeeperSession> keeper(std::unique_ptr<Parcel> held = nullptr,
                                        ParcelLimits limits = kLimits) {
    FileDescriptor connection =
        std::move(connect_unix_socket(UnixAddress::parse(name).value(), SOCK_SEQPACKET).value());
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
  // One with nothing to give, as the proxy has heard.
  std::unique_ptr<KeeperSession> empty_keeper(ParcelLimits limits = kLimits) {
    auto session = keeper(nullptr, limits);
    EXPECT_TRUE(session->advance());
    const auto none = proxy->receive(soon());
    EXPECT_TRUE(none && !*none);
    return session;
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
    const auto session = empty_keeper(limits);
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
  const auto session = empty_keeper();
  EXPECT_EQ(proxy->offer(1, std::chrono::steady_clock::now()).error().code, Errc::kTimedOut);
}

TEST_F(KeeperSessionTest, MoreThanWasOfferedNeedsRoomOfItsOwn) {
  allowed = 4;
  const auto session = empty_keeper();
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

class SocketsTest : public testing::Test {
 protected:
  SocketsTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()),
              0);
    sidecar.reset(ends[0]);
    keeper.reset(ends[1]);
  }
  DescriptorCloser closer;
  FileDescriptor sidecar, keeper;
};

class BareSessionTest : public SocketsTest {
 protected:
  using Kind = KeeperRecord::Kind;
  void say(const KeeperRecord& record, std::span<const int> descriptors = {}) {
    ASSERT_TRUE(send_record(sidecar.get(), encode(record), descriptors));
  }
  // A session with nothing to give, which has said so.
  void begin() {
    session.emplace(std::move(keeper), KeeperTerms{kLimits}, closer, nullptr);
    ASSERT_TRUE(session->advance());
  }
  const Parcel next = parcel(0);
  const int description = next.description.get();
  std::optional<KeeperSession> session;
};

// The keeper may be kept from its work for so long that it finds both at once.
TEST_F(BareSessionTest, AnAnswerIsToldAlsoBeforeTheParcelThatFollowsIt) {
  session.emplace(std::move(keeper), KeeperTerms{kLimits}, closer,
                  std::make_unique<Parcel>(parcel(2)));
  say({.kind = Kind::kTaken});
  say({.kind = Kind::kParcel, .bytes = 3}, {&description, 1});
  auto first = session->advance();
  ASSERT_TRUE(first);
  ASSERT_TRUE(std::holds_alternative<KeeperSession::Answered>(*first));
  EXPECT_EQ(std::get<KeeperSession::Answered>(*first).refusal, Refusal::kNone);
  auto second = session->advance();
  ASSERT_TRUE(second);
  ASSERT_TRUE(std::holds_alternative<KeeperSession::Received>(*second));
  EXPECT_TRUE(std::get<KeeperSession::Received>(*second).parcel->descriptors.empty());
}

// Whoever has parked then does not know that the keeper has it, and goes on with it.
TEST_F(BareSessionTest, AParcelWhoseAnswerCannotBeSentIsNotReceived) {
  begin();
  ASSERT_EQ(::shutdown(sidecar.get(), SHUT_RD), 0);
  say({.kind = Kind::kParcel, .bytes = 3}, {&description, 1});
  const auto event = session->advance();
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, Errc::kPeerGone);
  EXPECT_EQ(session->take_held(), nullptr);
}

TEST_F(BareSessionTest, NothingOfAProxyThatIsGoneIsReceived) {
  begin();
  say({.kind = Kind::kOffer, .count = 1});
  say({.kind = Kind::kParcel, .count = 0, .bytes = 3}, {&description, 1});
  sidecar.reset();
  EXPECT_FALSE(session->advance());
}

TEST_F(BareSessionTest, NoSecondOfferIsTakenBesideTheFirst) {
  begin();
  say({.kind = Kind::kOffer, .count = 1});
  ASSERT_TRUE(session->advance());
  EXPECT_EQ(session->stage(), Stage::kPromised);
  say({.kind = Kind::kOffer, .count = 1});
  EXPECT_FALSE(session->advance());
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
  const auto session = empty_keeper();
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
  const auto session = empty_keeper();
  proxy->answer(Refusal::kNone, 0);
  const auto answer = await<KeeperSession::Answered>(*session);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::kMalformed);
}

class ParcelTest : public SocketsTest {
 protected:
  Result<std::optional<Parcel>> receive_one(ParcelReceiver& receiver) {
    std::array<std::byte, 64> bytes;
    auto received = SMC_TRY(receive_record(keeper.get(), bytes, closer));
    const auto record = SMC_TRY(decode_record(std::span(bytes).first(received.size_bytes)));
    return receiver.take(record, std::span(received.fds).first(received.descriptors));
  }
};

TEST_F(ParcelTest, ArrivesWholeAndInOrder) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{99}}) {
    const Parcel sent = parcel(count, "what it means");
    ParcelSender sender(sidecar.get(), sent);
    ParcelReceiver receiver(kLimits);
    std::optional<Parcel> whole;
    for (bool done = false; !whole;) {
      if (!done) done = *sender.advance();
      auto got = receive_one(receiver);
      ASSERT_TRUE(got);
      whole = std::move(*got);
    }
    ASSERT_EQ(whole->descriptors.size(), count);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(mark_of(whole->descriptors[i]), i + 1);
    const auto description = read_description(*whole);
    ASSERT_TRUE(description);
    EXPECT_EQ(
        std::string_view(reinterpret_cast<const char*>(description->data()), description->size()),
        "what it means");
  }
}

TEST_F(ParcelTest, MoreThanTheLimitIsRefusedAtItsBeginning) {
  for (const bool by_description : {true, false}) {
    ParcelReceiver narrow(by_description ? ParcelLimits{.descriptors = 10, .bytes = 3}
                                         : ParcelLimits{.descriptors = 3, .bytes = 1000});
    const Parcel sent = by_description ? parcel(0, "four") : parcel(4, "x");
    EXPECT_TRUE(*ParcelSender(sidecar.get(), sent).advance());
    EXPECT_EQ(receive_one(narrow).error().code, Errc::kExhausted) << by_description;
  }
}

TEST_F(ParcelTest, RecordsOutOfTurnAreRefused) {
  KeeperRecord record;
  record.kind = KeeperRecord::Kind::kDescriptors;
  std::array<ForeignDescriptor, 1> one;
  EXPECT_EQ(ParcelReceiver(kLimits).take(record, one).error().code, Errc::kMalformed);
  record.kind = KeeperRecord::Kind::kParcel;
  record.count = 1;
  EXPECT_EQ(ParcelReceiver(kLimits).take(record, {}).error().code, Errc::kMalformed);
  ParcelReceiver receiver(kLimits);
  ASSERT_TRUE(receiver.take(record, one));
  EXPECT_EQ(receiver.take(record, one).error().code, Errc::kMalformed);
  // More descriptors than were announced.
  ParcelReceiver surprised(kLimits);
  ASSERT_TRUE(surprised.take(record, one));
  record.kind = KeeperRecord::Kind::kDescriptors;
  std::array<ForeignDescriptor, 2> two;
  EXPECT_EQ(surprised.take(record, two).error().code, Errc::kMalformed);
}

TEST_F(ParcelTest, AnotherFileIsNoDescription) {
  Parcel made = parcel(0, "four");
  made.bytes = 5;
  EXPECT_EQ(read_description(made).error().code, Errc::kMalformed);
  made.bytes = 4;
  ASSERT_TRUE(read_description(made));
  // Somebody could still change it.
  FileDescriptor open(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::write(open.get(), "four", 4), 4);
  made.description = ForeignDescriptor(std::move(open));
  EXPECT_EQ(read_description(made).error().code, Errc::kMalformed);
  made.description = ForeignDescriptor(FileDescriptor(::eventfd(0, EFD_CLOEXEC)));
  EXPECT_EQ(read_description(made).error().code, Errc::kMalformed);
}

}  // namespace
}  // namespace fairlead::parking
