// `hand_over.mode: always`: what a proxy records while it lives, and what a keeper makes of it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/linux/descriptor_closer.h"
#include "base/linux/record_socket.h"
#include "parking/description.h"
#include "parking/held_connections.h"
#include "parking/keeper_session.h"
#include "parking/ledger.h"
#include "parking/living_connections.h"

namespace fairlead::parking {
namespace {

constexpr std::uint32_t kSlots = 8;
constexpr ParcelLimits kLimits = {.descriptors = 100, .bytes = 100'000};

// Two connected TCP sockets.
struct TcpPair {
  TcpPair() {
    const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::getsockname(listener.get(), at, &length), 0);
    near.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(near.get(), at, length), 0);
    far.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  // What the other end reads.
  bool was_reset() const {
    char byte;
    return ::recv(far.get(), &byte, 1, 0) < 0 && errno == ECONNRESET;
  }
  bool lives() const {
    char byte;
    return ::recv(far.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  FileDescriptor near, far;
};

relay::ParkedSockets at_rest(std::uint64_t tx) {
  relay::ParkedSockets sockets;
  sockets.state.destination = *SocketAddress::parse("10.0.0.1:80");
  sockets.state.tx = tx;
  sockets.state.mode = relay::ParkedTcp{};
  sockets.app.emplace().peer = *SocketAddress::parse("10.0.0.2:1000");
  sockets.net.emplace().peer = *SocketAddress::parse("10.0.0.1:80");
  return sockets;
}

class LivingTest : public testing::Test {
 protected:
  LivingTest() {
    held = std::move(*HeldConnections::create(kSlots, "1.2.3"));
    held->listener_opened(*SocketAddress::parse("127.0.0.1:4540"), listening.near.get());
    meet_keeper();
  }
  KeeperTerms terms() const { return {kLimits, living_max}; }
  Result<void> advance() {
    SMC_TRY(session->advance());
    return {};
  }
  void meet_keeper() {
    held->detach();
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()),
              0);
    ours.reset(ends[0]);
    session = std::make_unique<KeeperSession>(FileDescriptor(ends[1]), terms(), closer, nullptr);
    EXPECT_TRUE(session->advance());
    held->attach(ours.get());
  }
  // As Stream::reset_if_lost() leaves the sockets.
  std::uint32_t begin(const TcpPair& app, const TcpPair& net) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    for (const TcpPair* const pair : {&app, &net})
      EXPECT_EQ(::setsockopt(pair->near.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    return held->begin(app.near.get(), net.near.get()).value();
  }
  void tell() {
    ASSERT_TRUE(held->advance());
    ASSERT_TRUE(session->advance());
  }
  // The process dies, with all that it has.
  std::optional<LivingConnections::Remains> die(std::initializer_list<TcpPair*> pairs) {
    held.reset();
    ours.reset();
    for (TcpPair* const pair : pairs) pair->near.reset();
    EXPECT_FALSE(session->advance());
    return session->take_remains(TimePoint(std::chrono::seconds(7)), bytes_max);
  }
  static Parked decoded(Parcel& parcel) {
    std::vector<FileDescriptor> descriptors;
    for (ForeignDescriptor& one : parcel.descriptors) descriptors.push_back(one.release());
    auto bytes = read_description(parcel);
    EXPECT_TRUE(bytes);
    auto parked = decode(*bytes, std::move(descriptors));
    EXPECT_TRUE(parked);
    return std::move(*parked);
  }

  std::uint64_t bytes_max = kLimits.bytes;
  std::uint32_t living_max = kLimits.descriptors;
  DescriptorCloser closer;
  TcpPair listening;  // stands for a listener
  FileDescriptor ours;
  std::unique_ptr<KeeperSession> session;
  std::unique_ptr<HeldConnections> held;
};

TEST_F(LivingTest, ConnectionsAtRestGoOnAndOthersAreReset) {
  TcpPair rest_app, rest_net, busy_app, busy_net;
  const std::uint32_t rest = begin(rest_app, rest_net), busy = begin(busy_app, busy_net);
  held->at_rest(rest, at_rest(42));
  held->at_rest(busy, at_rest(1));
  held->busy(busy);
  tell();
  EXPECT_EQ(session->living_descriptors(), 5U);
  auto remains = die({&rest_app, &rest_net, &busy_app, &busy_net});
  ASSERT_TRUE(remains);
  EXPECT_EQ(remains->reset, 1U);
  EXPECT_TRUE(busy_app.was_reset());
  EXPECT_TRUE(busy_net.was_reset());
  EXPECT_TRUE(rest_app.lives());
  ASSERT_NE(remains->parcel, nullptr);
  EXPECT_EQ(remains->parcel->death->lost, 1U);
  EXPECT_EQ(remains->parcel->death->nanoseconds, 7'000'000'000U);
  const Parked parked = decoded(*remains->parcel);
  ASSERT_EQ(parked.listeners.size(), 1U);
  EXPECT_EQ(to_string(parked.listeners[0].address), "127.0.0.1:4540");
  EXPECT_EQ(parked.proxy_version, "1.2.3");
  ASSERT_EQ(parked.connections.size(), 1U);
  EXPECT_EQ(parked.connections[0].state.tx, 42U);
}

TEST_F(LivingTest, WhatNobodyTakesIsReset) {
  TcpPair app, net;
  held->at_rest(begin(app, net), at_rest(1));
  tell();
  auto remains = die({&app, &net});
  ASSERT_TRUE(remains && remains->parcel);
  EXPECT_TRUE(app.lives());
  remains->parcel.reset();
  EXPECT_TRUE(app.was_reset());
  EXPECT_TRUE(net.was_reset());
}

TEST_F(LivingTest, AnEndedConnectionIsReleased) {
  TcpPair app, net;
  const std::uint32_t slot = begin(app, net);
  tell();
  EXPECT_EQ(session->living_descriptors(), 3U);
  held->end(slot);
  tell();
  EXPECT_EQ(session->living_descriptors(), 1U);
  const auto remains = die({&app, &net});
  ASSERT_TRUE(remains);
  EXPECT_EQ(remains->reset, 0U);
}

TEST_F(LivingTest, SlotsAreUsedAgain) {
  TcpPair app, net;
  for (unsigned i = 0; i < 10 * kSlots; ++i) {
    const auto slot = held->begin(app.near.get(), net.near.get());
    ASSERT_TRUE(slot) << i;
    if (i % 3 == 0) tell();
    if (i % 4 == 0) held->detach();
    if (i % 4 == 1) meet_keeper();
    held->end(*slot);
    if (i % 4 == 1) tell();
  }
  meet_keeper();
  tell();
  EXPECT_EQ(session->living_descriptors(), 1U);
}

TEST_F(LivingTest, ATableThatIsFullHoldsNoMore) {
  TcpPair app, net;
  for (std::uint32_t i = 1; i < kSlots; ++i)
    ASSERT_TRUE(held->begin(app.near.get(), net.near.get()));
  EXPECT_FALSE(held->begin(app.near.get(), net.near.get()));
}

TEST_F(LivingTest, AProcessThatEndsInOrderLeavesNothing) {
  TcpPair app, net;
  held->at_rest(begin(app, net), at_rest(1));
  tell();
  held->give_up();
  const auto remains = die({&app, &net});
  ASSERT_TRUE(remains);
  EXPECT_EQ(remains->parcel, nullptr);
  EXPECT_TRUE(app.was_reset());
}

TEST_F(LivingTest, WithoutRoomForTheHeadNothingGoesOn) {
  TcpPair app, net;
  held->at_rest(begin(app, net), at_rest(1));
  tell();
  bytes_max = 0;
  const auto remains = die({&app, &net});
  ASSERT_TRUE(remains);
  EXPECT_TRUE(remains->died);
  EXPECT_EQ(remains->reset, 1U);
  EXPECT_EQ(remains->parcel, nullptr);
  EXPECT_TRUE(app.was_reset());
}

// docs/hand-over.md says how many.
TEST_F(LivingTest, TheHeadDescribesThirtyListeners) {
  const std::vector<SocketAddress> listeners(30, *SocketAddress::parse("255.255.255.255:65535"));
  EXPECT_LE(encode_head(listeners, "10.20.30").size(), kLedgerEntryBytesMax);
}

TEST_F(LivingTest, AnEntryThatIsTooLongIsNeverAtRest) {
  auto ledger = Ledger::create(2);
  ASSERT_TRUE(ledger);
  ledger->set_at_rest(1, std::vector<std::byte>(kLedgerEntryBytesMax + 1));
  EXPECT_FALSE(read_ledger(ledger->descriptor(), 1));
  ledger->set_at_rest(1, std::vector<std::byte>(kLedgerEntryBytesMax));
  EXPECT_TRUE(read_ledger(ledger->descriptor(), 1));
}

TEST_F(LivingTest, EntriesBeyondTheLimitAreReset) {
  TcpPair first_app, first_net, second_app, second_net;
  held->at_rest(begin(first_app, first_net), at_rest(1));
  held->at_rest(begin(second_app, second_net), at_rest(2));
  tell();
  bytes_max = encode_head({}, "1.2.3").size() + 20 + encode_connection(at_rest(1)).size();
  auto remains = die({&first_app, &first_net, &second_app, &second_net});
  ASSERT_TRUE(remains && remains->parcel);
  EXPECT_EQ(remains->reset, 1U);
  EXPECT_TRUE(second_app.was_reset());
  EXPECT_EQ(decoded(*remains->parcel).connections.size(), 1U);
}

class HostileLedgerTest : public LivingTest {
 protected:
  // What the keeper says to a record with this file.
  Result<void> offer(int file, std::uint32_t slots) {
    KeeperRecord record;
    record.kind = KeeperRecord::Kind::kLedger;
    record.count = slots;
    EXPECT_TRUE(send_record(ours.get(), encode(record), {&file, 1}));
    return advance();
  }
  Result<void> say(KeeperRecord::Kind kind, std::uint32_t slot, std::initializer_list<int> fds) {
    KeeperRecord record;
    record.kind = kind;
    record.count = slot;
    EXPECT_TRUE(send_record(ours.get(), encode(record), {fds.begin(), fds.size()}));
    return advance();
  }
};

TEST_F(HostileLedgerTest, AnotherFileIsNoLedger) { EXPECT_FALSE(offer(listening.near.get(), 4)); }

TEST_F(HostileLedgerTest, AFileThatMayShrinkIsNoLedger) {
  const FileDescriptor file(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 3 * kLedgerSlotBytes), 0);
  EXPECT_FALSE(offer(file.get(), 2));
}

TEST_F(HostileLedgerTest, AnotherNumberOfSlotsIsNoLedger) {
  auto ledger = Ledger::create(2);
  EXPECT_FALSE(offer(ledger->descriptor(), 3));
}

TEST_F(HostileLedgerTest, ASlotBehindTheLedgerIsRefused) {
  auto ledger = Ledger::create(2);
  ASSERT_TRUE(offer(ledger->descriptor(), 2));
  EXPECT_FALSE(say(KeeperRecord::Kind::kHold, 2, {listening.near.get()}));
}

TEST_F(HostileLedgerTest, NothingIsHeldWithoutALedger) {
  EXPECT_FALSE(say(KeeperRecord::Kind::kHold, 1, {listening.near.get()}));
}

TEST_F(HostileLedgerTest, ASecondLedgerIsRefused) {
  auto ledger = Ledger::create(2);
  ASSERT_TRUE(offer(ledger->descriptor(), 2));
  EXPECT_FALSE(offer(ledger->descriptor(), 2));
}

TEST_F(HostileLedgerTest, DescriptorsBeyondTheLimitAreNotHeld) {
  living_max = 3;
  meet_keeper();
  auto ledger = Ledger::create(2);
  ASSERT_TRUE(offer(ledger->descriptor(), 2));
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(say(KeeperRecord::Kind::kHold, 1, {listening.near.get(), listening.far.get()}));
  EXPECT_EQ(session->living_descriptors(), 3U);
}

// A friend of the dead proxy may still write the file: what is kept is a copy.
TEST_F(HostileLedgerTest, WhatIsKeptDoesNotChange) {
  auto ledger = Ledger::create(2);
  ASSERT_TRUE(offer(ledger->descriptor(), 2));
  ledger->set_at_rest(kLedgerHead, std::vector<std::byte>(4, std::byte{7}));
  ASSERT_TRUE(say(KeeperRecord::Kind::kHold, kLedgerHead, {listening.near.get()}));
  ours.reset();
  EXPECT_FALSE(session->advance());
  const auto remains = session->take_remains({}, kLimits.bytes);
  ASSERT_TRUE(remains && remains->parcel);
  ledger->set_at_rest(kLedgerHead, std::vector<std::byte>(4, std::byte{8}));
  const auto bytes = read_description(*remains->parcel);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, std::vector<std::byte>(4, std::byte{7}));
}

}  // namespace
}  // namespace fairlead::parking
