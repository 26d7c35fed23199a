#include "broker/message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

namespace fairlead::broker {
namespace {

using Kind = Message::Kind;

constexpr PeerId kPeer{{1, 2, 3, 4, 5, 6, 7, 8}};
constexpr FabricId kFabric{{9, 10, 11, 12, 13}};

struct Pair {
  Pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    left.reset(ends[0]);
    right.reset(ends[1]);
  }
  FileDescriptor left, right;
};

TEST(BrokerMessage, SurvivesTheWayThereAndBack) {
  for (const Kind kind : {Kind::kRegister, Kind::kWelcome, Kind::kIntroduce, Kind::kIntroduced,
                          Kind::kVisitor, Kind::kRefused}) {
    const Message message{kind, Refusal::kBusy, kPeer, kFabric};
    const auto decoded = decode(encode(message));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, message);
  }
}

TEST(BrokerMessage, StandsInBytesAsTheDocumentSays) {
  const MessageBytes bytes = encode({Kind::kWelcome, Refusal::kTaken, kPeer, kFabric});
  const std::vector<std::uint8_t> wanted = {'F', 'L', 'b', 'k', 1, 2, 3,  0,  1,  2, 3,
                                            4,   5,   6,   7,   8, 9, 10, 11, 12, 13};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(static_cast<std::uint8_t>(bytes[i]), i < wanted.size() ? wanted[i] : 0) << i;
}

TEST(BrokerMessage, RefusesOtherLengthsAndValues) {
  const MessageBytes good = encode({.kind = Kind::kRegister, .peer = kPeer});
  std::vector<std::byte> bytes(good.begin(), good.end());
  bytes.push_back({});
  EXPECT_EQ(decode(bytes).error().code, Errc::kMalformed);
  for (std::size_t size = 0; size < kMessageBytes; ++size)
    EXPECT_EQ(decode(std::span(bytes).first(size)).error().code, Errc::kTruncated);
  const auto with = [&](std::size_t at, int value) {
    MessageBytes changed = good;
    changed[at] = static_cast<std::byte>(value);
    const auto decoded = decode(changed);
    return decoded ? std::optional<Errc>() : decoded.error().code;
  };
  EXPECT_EQ(with(0, 'f'), Errc::kMalformed);
  EXPECT_EQ(with(4, 2), Errc::kUnsupported);
  EXPECT_EQ(with(5, 0), Errc::kMalformed);
  EXPECT_EQ(with(5, 7), Errc::kMalformed);
  EXPECT_EQ(with(6, 6), Errc::kMalformed);
  EXPECT_EQ(with(5, 6), std::nullopt);
}

TEST(BrokerMessage, BringsADescriptorExactlyWhereOneBelongs) {
  const Pair pair;
  const FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(send(pair.left.get(), {.kind = Kind::kVisitor, .peer = kPeer}, null.get()));
  const auto visitor = receive(pair.right.get());
  ASSERT_TRUE(visitor);
  EXPECT_TRUE(visitor->fd);
  // A visitor without a socket.
  const MessageBytes bytes = encode({.kind = Kind::kVisitor, .peer = kPeer});
  ASSERT_EQ(::send(pair.left.get(), bytes.data(), bytes.size(), 0), 32);
  EXPECT_EQ(receive(pair.right.get()).error().code, Errc::kMalformed);
  EXPECT_EQ(receive(pair.right.get()).error().code, Errc::kWouldBlock);
}

TEST(BrokerMessage, EveryRefusalHasAName) {
  for (int i = 0; i <= static_cast<int>(Refusal::kFailed); ++i)
    EXPECT_STRNE(to_string(static_cast<Refusal>(i)), "other");
}

}  // namespace
}  // namespace fairlead::broker
