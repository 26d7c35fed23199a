// Parcels over real sockets: whole, cut, too large, and of other files.
#include "parking/parcel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "base/linux/record_socket.h"

namespace fairlead::parking {
namespace {

constexpr ParcelLimits kLimits = {.descriptors = 100, .bytes = 1000};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class ParcelTest : public testing::Test {
 protected:
  ParcelTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    sending = FileDescriptor(ends[0]);
    receiving = FileDescriptor(ends[1]);
  }
  // Event counters, each with its own number.
  static Parcel parcel(std::size_t descriptors, std::string_view description) {
    Parcel made;
    auto sealed = seal_description(bytes_of(description));
    EXPECT_TRUE(sealed);
    made.description = ForeignDescriptor(std::move(*sealed));
    made.bytes = description.size();
    for (std::size_t i = 0; i < descriptors; ++i)
      made.descriptors.emplace_back(
          FileDescriptor(::eventfd(static_cast<unsigned>(i + 1), EFD_CLOEXEC)));
    return made;
  }
  Result<std::optional<Parcel>> receive_one(ParcelReceiver& receiver) {
    std::array<std::byte, 64> bytes;
    auto received = SMC_TRY(receive_record(receiving.get(), bytes, closer));
    const auto record = SMC_TRY(decode_record(std::span(bytes).first(received.size_bytes)));
    return receiver.take(record, std::span(received.fds).first(received.descriptors));
  }

  DescriptorCloser closer;
  FileDescriptor sending, receiving;
};

TEST_F(ParcelTest, ArrivesWholeAndInOrder) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{99}}) {
    const Parcel sent = parcel(count, "what it means");
    ParcelSender sender(sending.get(), sent);
    ParcelReceiver receiver(kLimits);
    std::optional<Parcel> whole;
    for (bool done = false; !whole;) {
      if (!done) done = *sender.advance();
      auto got = receive_one(receiver);
      ASSERT_TRUE(got);
      whole = std::move(*got);
    }
    ASSERT_EQ(whole->descriptors.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t number = 0;
      ASSERT_EQ(::read(whole->descriptors[i].get(), &number, sizeof number), 8);
      EXPECT_EQ(number, i + 1);
    }
    const auto description = read_description(*whole);
    ASSERT_TRUE(description);
    EXPECT_EQ(
        std::string_view(reinterpret_cast<const char*>(description->data()), description->size()),
        "what it means");
  }
}

TEST_F(ParcelTest, MoreThanTheLimitIsRefusedAtItsBeginning) {
  ParcelReceiver few({.descriptors = 3, .bytes = 1000});
  const Parcel sent = parcel(4, "x");
  EXPECT_TRUE(*ParcelSender(sending.get(), sent).advance());
  EXPECT_EQ(receive_one(few).error().code, Errc::kExhausted);
}

TEST_F(ParcelTest, ALongDescriptionIsRefusedAtItsBeginning) {
  ParcelReceiver narrow({.descriptors = 10, .bytes = 3});
  const Parcel sent = parcel(0, "four");
  EXPECT_TRUE(*ParcelSender(sending.get(), sent).advance());
  EXPECT_EQ(receive_one(narrow).error().code, Errc::kExhausted);
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
}

TEST_F(ParcelTest, MoreDescriptorsThanAnnouncedAreRefused) {
  KeeperRecord record;
  record.kind = KeeperRecord::Kind::kParcel;
  record.count = 1;
  std::array<ForeignDescriptor, 2> two;
  ParcelReceiver receiver(kLimits);
  ASSERT_TRUE(receiver.take(record, std::span(two).first(1)));
  record.kind = KeeperRecord::Kind::kDescriptors;
  EXPECT_EQ(receiver.take(record, two).error().code, Errc::kMalformed);
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
