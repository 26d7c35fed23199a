#include "broker/message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

namespace fairlead::broker {
namespace {

using Kind = Message::Kind;

constexpr PeerId kPeer{{1, 2, 3, 4, 5, 6, 7, 8}};
constexpr FabricId kFabric{{9, 10, 11, 12, 13}};

TEST(BrokerMessage, SurvivesTheWayThereAndBack) {
  for (const Kind kind : {Kind::kRequestRing, Kind::kWelcome, Kind::kRefused, Kind::kChannel,
                          Kind::kBlank, Kind::kGranted, Kind::kRoom}) {
    const Message message{kind, Refusal::kBusy, 1, 2, kPeer, kFabric, {3, 4}, 5};
    const auto decoded = decode(encode(message));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, message);
  }
}

TEST(BrokerMessage, StandsInBytesAsTheDocumentSays) {
  const MessageBytes bytes = encode({Kind::kChannel,
                                     Refusal::kTaken,
                                     1,
                                     2,
                                     kPeer,
                                     kFabric,
                                     {0x0807060504030201, 0x1817161514131211},
                                     0x24232221});
  const std::vector<std::uint8_t> wanted = {
      'F', 'L', 'b',  'k',  2,    4,    3,    1,    1,    2,    3,    4,    5,    6,   7,
      8,   9,   10,   11,   12,   13,   2,    0,    0,    1,    2,    3,    4,    5,   6,
      7,   8,   0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(static_cast<std::uint8_t>(bytes[i]), i < wanted.size() ? wanted[i] : 0) << i;
}

TEST(BrokerMessage, RefusesOtherLengthsAndValues) {
  const MessageBytes good = encode({.kind = Kind::kWelcome, .peer = kPeer});
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
  EXPECT_EQ(with(4, 1), Errc::kUnsupported);
  EXPECT_EQ(with(5, 0), Errc::kMalformed);
  EXPECT_EQ(with(5, 8), Errc::kMalformed);
  EXPECT_EQ(with(6, 7), Errc::kMalformed);
  EXPECT_EQ(with(7, 2), Errc::kMalformed);
  EXPECT_EQ(with(5, 7), std::nullopt);
}

TEST(BrokerMessage, BringsDescriptorsExactlyWhereTheyBelong) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor left(ends[0]), right(ends[1]);
  const FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::array<int, 3> three = {null.get(), null.get(), null.get()};
  ASSERT_TRUE(send(left.get(), {.kind = Kind::kChannel, .peer = kPeer}, three));
  DescriptorCloser closer;
  const auto channel = receive(right.get(), closer);
  ASSERT_TRUE(channel);
  for (const ForeignDescriptor& fd : channel->fds) EXPECT_TRUE(fd);
  // A channel without descriptors.
  const MessageBytes bytes = encode({.kind = Kind::kChannel, .peer = kPeer});
  ASSERT_EQ(::send(left.get(), bytes.data(), bytes.size(), 0), 64);
  EXPECT_EQ(receive(right.get(), closer).error().code, Errc::kMalformed);
  EXPECT_EQ(receive(right.get(), closer).error().code, Errc::kWouldBlock);
}

TEST(BrokerMessage, EveryRefusalHasAName) {
  for (std::size_t i = 0; i < kRefusals; ++i)
    EXPECT_STRNE(to_string(static_cast<Refusal>(i)), "other");
}

}  // namespace
}  // namespace fairlead::broker
