// Frames between two honest sides in any pieces, and frames of a hostile peer.
#include "smc/frames/deferral.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace fairlead::smc {
namespace {

using Role = Deferral::Role;
using Kind = Deferral::Piece::Kind;
using Bytes = std::vector<std::byte>;

constexpr Deferral::Limits kLimits{1000, 3, std::chrono::seconds(1)};

class DeferralTest : public testing::Test {
 protected:
  template <class Head>
  static Bytes only(const Head& head, std::size_t body = 0) {
    Bytes bytes;
    append(bytes, head, body);
    return bytes;
  }
  template <class Head>
  static void append(Bytes& to, const Head& head, std::size_t body = 0) {
    to.insert(to.end(), head.begin(), head.end());
    to.resize(to.size() + body, std::byte{'x'});
  }
  static Bytes data(Deferral& from, std::size_t count) {
    return only(from.send_data(count), count);
  }
  // The kinds of the pieces, and in `taken` the bytes for the application. "!" and the error for a
  // refusal.
  static std::string take(Deferral& by, const Bytes& bytes, std::size_t step = SIZE_MAX) {
    std::string kinds;
    std::size_t at = 0;
    while (at < bytes.size()) {
      const std::size_t count = std::min(step, bytes.size() - at);
      const auto piece = by.take(std::span(bytes).subspan(at, count));
      if (!piece) return kinds + "!" + piece.error().what;
      if (piece->taken == 0) return kinds + ".";
      at += piece->taken;
      constexpr std::string_view kLetters = " DUEH";
      if (piece->kind == Kind::kNothing) continue;
      const char letter = kLetters[static_cast<std::size_t>(piece->kind)];
      if (letter != 'D' || kinds.empty() || kinds.back() != 'D') kinds += letter;
    }
    return kinds;
  }
  // The second one goes on at byte `cut`.
  Result<Deferral> taken_by_two_processes(Deferral first, Role role, const Bytes& bytes,
                                          std::size_t cut) const {
    const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(cut);
    take(first, {bytes.begin(), middle});
    auto second = Deferral::resume(role, kLimits, now, first.state());
    if (second) take(*second, {middle, bytes.end()});
    return second;
  }

  TimePoint now{std::chrono::hours(1)};
  Deferral client{Role::kClient, kLimits, now};
  Deferral server{Role::kServer, {}, now};
};

TEST_F(DeferralTest, FramesSurviveAnyCut) {
  for (std::size_t step = 1; step < 40; ++step) {
    Deferral from(Role::kClient, kLimits, now), to(Role::kServer, {}, now);
    Bytes bytes = data(from, 300);
    append(bytes, from.send_urgent(), 1);
    append(bytes, from.send_data(5), 5);
    append(bytes, from.send_hand_over());
    EXPECT_EQ(take(to, bytes, step), "DUDH") << step;
    EXPECT_EQ(to.bytes_received(), 306U);
    EXPECT_TRUE(to.peer_handed_over());
  }
}

TEST_F(DeferralTest, NothingIsTakenBehindAHandOver) {
  Bytes bytes;
  append(bytes, client.send_hand_over());
  bytes.push_back(std::byte{0xe2});
  EXPECT_EQ(take(server, bytes), "H.");
}

TEST_F(DeferralTest, AnyLimitEarnsSmc) {
  EXPECT_FALSE(client.earned(now));
  EXPECT_TRUE(client.earned(now + std::chrono::seconds(1)));
  data(client, 999);
  EXPECT_FALSE(client.earned(now));
  EXPECT_EQ(take(client, data(server, 1)), "D");
  EXPECT_TRUE(client.earned(now));
  Deferral talks(Role::kClient, kLimits, now), answers(Role::kServer, {}, now);
  for (int turn = 0; turn < 3; ++turn) {
    data(talks, 1);
    EXPECT_EQ(take(talks, data(answers, 1)), "D");
    EXPECT_FALSE(talks.earned(now)) << turn;
  }
  data(talks, 1);
  EXPECT_TRUE(talks.earned(now));
}

TEST_F(DeferralTest, AnEndedClientNeverHandsOver) {
  data(client, 500);
  data(client, 500);
  EXPECT_TRUE(client.may_hand_over());
  client.send_end();
  EXPECT_FALSE(client.may_hand_over());
  EXPECT_FALSE(client.earned(now + std::chrono::hours(1)));
}

TEST_F(DeferralTest, AServerHandsOverOnlyAsAnAnswer) {
  EXPECT_FALSE(server.may_hand_over());
  EXPECT_EQ(take(server, only(client.send_hand_over())), "H");
  EXPECT_TRUE(server.may_hand_over());
  EXPECT_FALSE(server.earned(now + std::chrono::hours(1)));  // it never begins
  EXPECT_EQ(take(client, only(server.send_hand_over())), "H");
  EXPECT_FALSE(server.may_hand_over());
}

// So that no side waits for an application that does not read.
TEST_F(DeferralTest, ADirectionIsBounded) {
  while (client.room() != 0) EXPECT_EQ(take(server, data(client, client.room())), "D");
  EXPECT_EQ(server.bytes_received(), kFramedBytesMax);
  for (const auto type : {wire::FrameType::kData, wire::FrameType::kUrgent}) {
    Deferral full = server;
    EXPECT_EQ(take(full, only(wire::encode_frame_header({type, 1}), 1)),
              "!more in frames than is allowed");
  }
}

class WindowsTest : public DeferralTest {
 protected:
  WindowsTest() {
    client = Deferral(Role::kClient, kLimits, now, Deferral::Windows::kKnown);
    server = Deferral(Role::kServer, {}, now, Deferral::Windows::kKnown);
  }
  static Bytes window(std::uint64_t max) {
    Bytes bytes;
    append(bytes, wire::encode_position(wire::FrameType::kWindow, max));
    return bytes;
  }
};

TEST_F(WindowsTest, APeerSendsNoMoreThanItsWindowUntilThatIsOpened) {
  EXPECT_EQ(client.room(), kFirstWindowBytes);
  EXPECT_FALSE(client.window_blocks());
  EXPECT_EQ(take(server, data(client, kFirstWindowBytes)), "D");
  EXPECT_EQ(client.room(), 0U);
  EXPECT_TRUE(client.held());
  EXPECT_TRUE(client.window_blocks());
  Bytes opened;
  append(opened, server.open_window(kFirstWindowBytes + 10));
  for (std::size_t step = 1; step < 13; ++step) {
    Deferral cut = client;
    EXPECT_EQ(take(cut, opened, step), "") << step;
    EXPECT_EQ(cut.room(), 10U) << step;
  }
  EXPECT_EQ(take(client, opened), "");
  EXPECT_EQ(take(server, data(client, 10)), "D");
  EXPECT_EQ(server.bytes_received(), kFirstWindowBytes + 10);
}

TEST_F(WindowsTest, AWindowCanBeOpenedAsFarAsFramesMayCarry) {
  EXPECT_TRUE(server.may_open_window());
  EXPECT_EQ(take(client, window(kFramedBytesMax)), "");
  (void)server.open_window(kFramedBytesMax);
  EXPECT_FALSE(server.may_open_window());
  while (client.room() != 0) EXPECT_EQ(take(server, data(client, client.room())), "D");
  EXPECT_EQ(server.bytes_received(), kFramedBytesMax);
}

TEST_F(WindowsTest, TheSideThatHasReceivedAllOfTheWindowKnowsThatItBlocks) {
  EXPECT_EQ(take(client, data(server, kFirstWindowBytes)), "D");
  EXPECT_TRUE(client.window_blocks());
  (void)client.open_window(kFirstWindowBytes + 1);
  EXPECT_FALSE(client.window_blocks());
}

TEST_F(WindowsTest, NoWindowIsOpenedForAPeerThatSendsNoMore) {
  EXPECT_EQ(take(server, only(client.send_hand_over())), "H");
  EXPECT_FALSE(server.may_open_window());
  EXPECT_FALSE(client.may_open_window());
}

TEST_F(WindowsTest, TheEndOfTheClientLiftsTheWindowOfTheServer) {
  EXPECT_EQ(take(server, only(client.send_end())), "E");
  EXPECT_FALSE(client.may_open_window());
  EXPECT_FALSE(server.window_blocks());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(take(client, data(server, wire::kFrameBytesMax)), "D");
}

TEST_F(WindowsTest, AServerThatHasEndedMayStillOpenTheWindow) {
  Bytes end;
  append(end, server.send_end());
  append(end, server.open_window(5000));
  EXPECT_EQ(take(client, end), "E");
  EXPECT_EQ(client.room(), 5000U);
}

TEST_F(WindowsTest, AHostilePeerIsRefused) {
  const char* const wrong = "!window: not larger, or larger than is allowed";
  for (const std::uint64_t max :
       {std::uint64_t{0}, kFirstWindowBytes, kFramedBytesMax + 1, UINT64_MAX}) {
    Deferral fresh = client;
    EXPECT_EQ(take(fresh, window(max)), wrong) << max;
  }
  EXPECT_EQ(take(server, data(client, kFirstWindowBytes)), "D");
  EXPECT_EQ(take(server, only(wire::encode_frame_header({wire::FrameType::kData, 1}), 1)),
            "!more in frames than is allowed");
  Deferral without(Role::kClient, kLimits, now);
  EXPECT_EQ(take(without, window(5000)), "!window: the connection has none");
}

TEST_F(WindowsTest, AnotherProcessGoesOnAtAnyByte) {
  Bytes bytes = data(server, 300);
  append(bytes, server.open_window(6000));
  append(bytes, server.send_data(5), 5);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    const auto second = taken_by_two_processes(client, Role::kClient, bytes, cut);
    ASSERT_TRUE(second) << cut << ": " << second.error().what;
    EXPECT_EQ(second->room(), 6000U) << cut;
    EXPECT_EQ(second->bytes_received(), 305U) << cut;
  }
}

TEST_F(DeferralTest, TheEndOfTheClientLiftsTheBoundOfTheServer) {
  EXPECT_EQ(take(server, only(client.send_end())), "E");
  for (int i = 0; i < 100; ++i) ASSERT_EQ(take(client, data(server, wire::kFrameBytesMax)), "D");
}

TEST_F(DeferralTest, AServerThatHasEndedCanHandOver) {
  EXPECT_EQ(take(client, only(server.send_end())), "E");
  EXPECT_EQ(take(server, only(client.send_hand_over())), "H");
  EXPECT_EQ(take(client, only(server.send_hand_over())), "H");
}

TEST_F(DeferralTest, NothingReceivedIsNothing) {
  EXPECT_EQ(server.take({})->kind, Kind::kNothing);
  Bytes frame = data(client, 5);
  frame.pop_back();
  EXPECT_EQ(take(server, frame), "D");
  EXPECT_EQ(server.take({})->kind, Kind::kNothing);
  EXPECT_EQ(server.bytes_received(), 4U);
}

TEST_F(DeferralTest, ManyBytesBehindOneAnswerAreOneTurn) {
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(take(client, data(server, 1)), "D");
    for (int i = 0; i < 5; ++i) data(client, 1);
  }
  EXPECT_EQ(client.state().turns, 2U);
  EXPECT_FALSE(client.earned(now));
}

TEST_F(DeferralTest, BytesWaitAtTheBoundAndBehindAHandOver) {
  EXPECT_FALSE(client.held());
  EXPECT_EQ(client.room(), wire::kFrameBytesMax);
  while (client.room() != 0) data(client, client.room());
  EXPECT_EQ(client.bytes_sent(), kFramedBytesMax);
  EXPECT_TRUE(client.held());
  client.send_hand_over();
  EXPECT_TRUE(client.held());
  EXPECT_TRUE(client.handed_over());
  Deferral other(Role::kClient, kLimits, now);
  other.send_hand_over();
  EXPECT_EQ(other.room(), 0U);
  EXPECT_TRUE(other.held());
}

TEST_F(DeferralTest, NothingWaitsBehindAnEnd) {
  client.send_end();
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(client.room(), 0U);
  EXPECT_FALSE(client.held());
}

TEST_F(DeferralTest, AHostilePeerIsRefused) {
  using wire::FrameType;
  const auto frame = [](FrameType type, std::uint32_t length) {
    Bytes bytes;
    append(bytes, wire::encode_frame_header({type, length}), length);
    return bytes;
  };
  const auto both = [](Bytes first, const Bytes& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  const auto position = [](FrameType type) {
    Bytes bytes;
    append(bytes, wire::encode_position(type, 0));
    return bytes;
  };
  Bytes wrong_place, place;
  append(wrong_place, wire::encode_position(wire::FrameType::kHandOver, 1));
  append(place, wire::encode_position(wire::FrameType::kHandOver, 0));
  struct Case {
    Role role;  // the victim's
    Bytes bytes;
    const char* result;
  };
  const Case cases[] = {
      {Role::kServer, wrong_place, "!hand-over: not the position of the stream"},
      {Role::kClient, place, "!hand-over: a server's without the client's"},
      {Role::kServer, both(frame(FrameType::kEnd, 0), place), "E!hand-over: behind the end"},
      {Role::kServer, both(frame(FrameType::kEnd, 0), frame(FrameType::kData, 1)),
       "E!frame behind the end"},
      {Role::kClient, both(frame(FrameType::kEnd, 0), frame(FrameType::kEnd, 0)),
       "E!frame behind the end"},
      {Role::kServer, both(place, place), "H."},  // the second one is no CLC
      {Role::kServer, frame(FrameType::kData, wire::kFrameBytesMax + 1), "!frame length"},
      {Role::kServer, frame(static_cast<FrameType>(9), 0), "!frame type"},
      {Role::kServer, position(FrameType::kReturn), "!return: the connection is in frames"},
      {Role::kClient, frame(FrameType::kReturned, 0), "!return: the connection is in frames"},
  };
  for (const Case& one : cases)
    for (const std::size_t step : {std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
      Deferral victim(one.role, kLimits, now);
      EXPECT_EQ(take(victim, one.bytes, step), one.result) << step;
    }
}

TEST_F(DeferralTest, AnotherProcessGoesOnAtAnyByte) {
  Bytes bytes = data(client, 300);
  append(bytes, client.send_urgent(), 1);
  append(bytes, client.send_hand_over());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    const auto second = taken_by_two_processes(server, Role::kServer, bytes, cut);
    ASSERT_TRUE(second) << cut << ": " << second.error().what;
    EXPECT_TRUE(second->peer_handed_over()) << cut;
    EXPECT_EQ(second->bytes_received(), 301U) << cut;
  }
}

struct NamedState {
  Role role;
  Deferral::State state;
  const char* refusal = "";
};

Deferral::State with_header(std::size_t bytes) {
  Deferral::State state;
  const auto end = wire::encode_frame_header({wire::FrameType::kEnd, 0});
  std::copy(end.begin(), end.end(), state.head.begin());
  state.head_bytes = bytes;
  return state;
}

TEST_F(DeferralTest, AStateThatNoConnectionHasIsRefused) {
  const char* const frame = "more of a frame than one can have";
  const char* const bytes = "more in frames than is allowed";
  const char* const windows = "windows: more than frames may carry, or none";
  const char* const last = "a frame behind the last";
  const char* const end = "hand-over: behind the end";
  const char* const hand_over = "hand-over: a server's without the client's";
  const char* const header = "more of a header than one can have";
  const char* const no_hand_over = "a header of no hand-over";
  const std::uint64_t max = kFramedBytesMax;
  const NamedState cases[] = {
      {Role::kClient, {.body_left = wire::kFrameBytesMax + 1}, frame},
      {Role::kClient, {.body_left = 2, .urgent = true}, frame},
      {Role::kClient, {.sent = {.bytes = max + 1}}, bytes},
      {Role::kClient, {.sent_max = kFirstWindowBytes}, windows},
      {Role::kClient, {.received_max = max + 1, .windows = true}, windows},
      {Role::kServer,
       {.received = {.bytes = kFirstWindowBytes + 1},
        .received_max = kFirstWindowBytes,
        .windows = true},
       bytes},
      {Role::kServer, {.received = {.bytes = max + 1}}, bytes},
      {Role::kServer, {.received = {.bytes = UINT64_MAX}, .body_left = 1}, bytes},
      {Role::kServer, {.received = {.bytes = max}, .body_left = 1}, bytes},
      {Role::kClient, {.received = {.ended = true}, .body_left = 1}, last},
      {Role::kClient,
       {.sent = {.handed_over = true}, .received = {.handed_over = true}, .body_left = 1},
       last},
      {Role::kServer, {.received = {.ended = true, .handed_over = true}}, end},
      {Role::kClient, {.sent = {.ended = true, .handed_over = true}}, end},
      {Role::kClient, {.received = {.handed_over = true}}, hand_over},
      {Role::kServer, {.sent = {.handed_over = true}}, hand_over},
      {Role::kServer, {.head_bytes = Deferral::State{}.head.size()}, header},
      {Role::kServer, {.body_left = 1, .head_bytes = 1}, header},
      {Role::kServer, {.head_bytes = wire::kFrameHeaderBytes}, no_hand_over},
      {Role::kServer, with_header(wire::kFrameHeaderBytes), no_hand_over},
  };
  for (const NamedState& one : cases) {
    const auto resumed = Deferral::resume(one.role, kLimits, now, one.state);
    ASSERT_FALSE(resumed) << one.refusal;
    EXPECT_STREQ(resumed.error().what, one.refusal);
  }
}

TEST_F(DeferralTest, AnyStateThatAConnectionCanHaveIsResumed) {
  const std::uint64_t max = kFramedBytesMax;
  const NamedState cases[] = {
      {Role::kClient, {}},
      {Role::kServer, {}},
      {Role::kServer, {.body_left = wire::kFrameBytesMax}},
      {Role::kServer, {.body_left = 1, .urgent = true}},  // the last frame was, or this one is
      {Role::kServer, {.urgent = true}},
      {Role::kServer, {.sent = {.bytes = max}, .received = {.bytes = max}}},
      {Role::kServer, {.received = {.bytes = max - 1}, .body_left = 1}},
      // No bound behind the end of the client.
      {Role::kClient, {.sent = {.ended = true}, .received = {.bytes = 10 * max}, .body_left = 1}},
      {Role::kServer, {.sent = {.bytes = 10 * max}, .received = {.ended = true}}},
      {Role::kServer, {.sent = {.ended = true}, .received = {.handed_over = true}}},
      {Role::kServer, {.sent = {.handed_over = true}, .received = {.handed_over = true}}},
      {Role::kClient, {.sent = {.handed_over = true}}},
      // The server's hand-over may follow its end.
      {Role::kClient,
       {.sent = {.handed_over = true}, .received = {.ended = true, .handed_over = true}}},
      {Role::kServer, {.head_bytes = wire::kFrameHeaderBytes - 1}},
  };
  for (const NamedState& one : cases) {
    const auto resumed = Deferral::resume(one.role, kLimits, now, one.state);
    ASSERT_TRUE(resumed) << &one - cases << ": " << resumed.error().what;
    EXPECT_EQ(resumed->bytes_sent(), one.state.sent.bytes);
    EXPECT_EQ(resumed->bytes_received(), one.state.received.bytes);
    EXPECT_EQ(resumed->ended(), one.state.sent.ended);
    EXPECT_EQ(resumed->peer_ended(), one.state.received.ended);
  }
}

}  // namespace
}  // namespace fairlead::smc
