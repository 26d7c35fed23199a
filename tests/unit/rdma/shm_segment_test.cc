#include "rdma/shm/memory/shm_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "broker/shared_objects.h"
#include "descriptor_limit.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

struct Segment {
  FileDescriptor fd;
  Mapping mapping;
};
Segment create_segment(std::size_t size_bytes) {
  FileDescriptor fd = std::move(broker::make_memory("test", size_bytes).value());
  Mapping mapping = std::move(Mapping::map(fd.get(), size_bytes).value());
  return {std::move(fd), std::move(mapping)};
}

// Of a mapping, pages that exist.
std::size_t resident_pages(std::span<std::byte> bytes) {
  std::vector<unsigned char> present((bytes.size() + 4095) / 4096);
  if (::mincore(bytes.data(), bytes.size(), present.data()) != 0) return SIZE_MAX;
  std::size_t count = 0;
  for (unsigned char page : present) count += page & 1;
  return count;
}

TEST(ShmSegment, IsZeroedSealedAndCostsNothingUntouched) {
  Segment segment = create_segment(1 << 20);
  EXPECT_EQ(segment.mapping.bytes().size(), std::size_t{1} << 20);
  EXPECT_EQ(resident_pages(segment.mapping.bytes()), 0u);
  for (std::byte byte : segment.mapping.bytes().first(5000)) ASSERT_EQ(byte, std::byte{0});
  EXPECT_EQ(::ftruncate(segment.fd.get(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(segment.fd.get(), 2 << 20), -1);
  EXPECT_EQ(::fcntl(segment.fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
}

TEST(ShmSegment, AdoptedMemoryIsTheSameMemory) {
  Segment segment = create_segment(10000);
  auto adopted = adopt_segment(segment.fd.get(), 10000);
  ASSERT_TRUE(adopted);
  segment.fd.reset();
  segment.mapping.bytes()[9999] = std::byte{5};
  EXPECT_EQ(adopted->bytes()[9999], std::byte{5});
}

bool is_mapped(const std::byte* at) {
  unsigned char present = 0;
  return ::mincore(const_cast<std::byte*>(at), 4096, &present) == 0;
}

TEST(ShmSegment, AMappingGoesWithItsLastOwner) {
  testing::internal::CaptureStderr();
  const std::byte* first = nullptr;
  {
    Mapping mapping = std::move(Mapping::map_private(4096).value());
    first = mapping.bytes().data();
    Mapping moved(std::move(mapping));
    EXPECT_TRUE(mapping.bytes().empty());  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(moved.bytes().data(), first);
    EXPECT_EQ(moved.bytes().size(), 4096u);
    EXPECT_TRUE(is_mapped(first));
    moved = std::move(Mapping::map_private(8192).value());
    EXPECT_EQ(moved.bytes().size(), 8192u);
    EXPECT_FALSE(is_mapped(first));
    first = moved.bytes().data();
    EXPECT_TRUE(is_mapped(first));
  }
  EXPECT_FALSE(is_mapped(first));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // nothing failed
}

TEST(ShmSegment, MemoryOfOurOwnIsZeroedAndCostsNothingUntouched) {
  const Mapping mapping = std::move(Mapping::map_private(1 << 20).value());
  ASSERT_EQ(mapping.bytes().size(), std::size_t{1} << 20);
  EXPECT_EQ(resident_pages(mapping.bytes()), 0u);
  EXPECT_EQ(mapping.bytes().back(), std::byte{0});
  mapping.bytes().back() = std::byte{1};
  EXPECT_EQ(resident_pages(mapping.bytes()), 1u);
  EXPECT_FALSE(Mapping::map_private(SIZE_MAX / 2));
}

TEST(ShmSegment, WholePagesCanBeMappedAgain) {
  Segment segment = create_segment(8192);
  const std::span<std::byte> bytes = segment.mapping.bytes();
  auto again = Mapping::map_again(bytes.subspan(4096));
  ASSERT_TRUE(again);
  ASSERT_EQ(again->bytes().size(), 4096u);
  bytes[4096] = std::byte{7};
  EXPECT_EQ(again->bytes()[0], std::byte{7});
  for (const std::span<std::byte> part :
       {bytes.first(0), std::span<std::byte>(), bytes.first(100), bytes.subspan(8, 4096)})
    EXPECT_EQ(Mapping::map_again(part).error().code, Errc::kMalformed) << part.size();
}

TEST(ShmSegment, DiscardedPagesAreGoneForThoseWhoKeepTheirMapping) {
  Segment segment = create_segment(1 << 20);
  auto kept = adopt_segment(segment.fd.get(), 1 << 20);
  ASSERT_TRUE(kept);
  for (std::byte& byte : kept->bytes()) byte = std::byte{7};
  EXPECT_EQ(resident_pages(kept->bytes()), 256u);
  segment.mapping.discard();
  EXPECT_EQ(resident_pages(kept->bytes()), 0u);
  EXPECT_EQ(kept->bytes()[4096], std::byte{0});
}

TEST(ShmSegment, DetachedMappingStaysValidAndLetsGoOfTheFile) {
  Segment segment = create_segment(8192);
  auto adopted = adopt_segment(segment.fd.get(), 8192);
  ASSERT_TRUE(adopted);
  std::byte* const before = adopted->bytes().data();
  adopted->bytes()[0] = std::byte{1};
  const Mapping file = adopted->detach_from_file();
  EXPECT_EQ(adopted->bytes().data(), before);
  EXPECT_EQ(adopted->bytes()[0], std::byte{0});
  adopted->bytes()[0] = std::byte{2};
  EXPECT_EQ(segment.mapping.bytes()[0], std::byte{1});
  ASSERT_EQ(file.bytes().size(), 8192u);
  EXPECT_EQ(file.bytes()[0], std::byte{1});
}

TEST(ShmSegment, RefusesMemoryThatCouldVanish) {
  FileDescriptor open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 8192), 0);
  EXPECT_EQ(adopt_segment(open.get(), 8192).error().code, Errc::kMalformed);
  EXPECT_EQ(check_segment(open.get()).error().code, Errc::kMalformed);
  ASSERT_EQ(::fcntl(open.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(check_segment(open.get()));
  EXPECT_EQ(adopt_segment(open.get(), 8192).error().code, Errc::kMalformed);
  ASSERT_EQ(::fcntl(open.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_TRUE(adopt_segment(open.get(), 8192));
  // The rest of it would be freed by whoever lets go of it last.
  EXPECT_EQ(adopt_segment(open.get(), 100).error().code, Errc::kMalformed);
  EXPECT_EQ(adopt_segment(open.get(), 8193).error().code, Errc::kMalformed);
  EXPECT_EQ(adopt_segment(open.get(), 0).error().code, Errc::kMalformed);
  EXPECT_EQ(adopt_segment(open.get(), SIZE_MAX).error().code, Errc::kMalformed);
}

TEST(ShmSegment, RefusesMemoryThatMayNotBeWritten) {
  FileDescriptor sealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sealed.get(), 8192), 0);
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  EXPECT_EQ(adopt_segment(sealed.get(), 8192).error().code, Errc::kPermission);
}

// A peer that could grow it could fill it and punch holes without limit, while accesses of this
// side wait.
TEST(ShmSegment, BlankGetsItsSizeOnce) {
  const FileDescriptor blank = std::move(broker::make_blank().value());
  EXPECT_EQ(adopt_whole_segment(blank.get()).error().code, Errc::kMalformed);
  auto mapping = map_blank(blank.get(), 8192);
  ASSERT_TRUE(mapping);
  mapping->bytes()[8191] = std::byte{3};
  auto whole = adopt_whole_segment(blank.get());
  ASSERT_TRUE(whole);
  ASSERT_EQ(whole->bytes().size(), 8192u);
  EXPECT_EQ(whole->bytes()[8191], std::byte{3});
  EXPECT_EQ(::ftruncate(blank.get(), 4096), -1);
  EXPECT_EQ(::fcntl(blank.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(::ftruncate(blank.get(), 16384), -1);
  EXPECT_EQ(errno, EPERM);
  const char byte = 1;
  EXPECT_EQ(::pwrite(blank.get(), &byte, 1, 8192), -1);
  EXPECT_EQ(::fallocate(blank.get(), 0, 0, 16384), -1);
}

// The blank of an earlier broker is sealed against further sealing, and the memory of an earlier
// sidecar is not sealed against growing.
TEST(ShmSegment, BlankOfAnEarlierBrokerGetsItsSizeToo) {
  const FileDescriptor blank(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fcntl(blank.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
  auto mapping = map_blank(blank.get(), 8192);
  ASSERT_TRUE(mapping);
  mapping->bytes()[8191] = std::byte{3};
  auto whole = adopt_whole_segment(blank.get());
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->bytes()[8191], std::byte{3});
  ASSERT_EQ(::ftruncate(blank.get(), kBufferBytesMax + 4096), 0);
  EXPECT_EQ(adopt_whole_segment(blank.get()).error().code, Errc::kMalformed);
}

// A huge page can be missing at the first touch.
TEST(ShmSegment, RefusesHugePages) {
  const FileDescriptor huge(
      ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB));
  if (!huge) GTEST_SKIP() << "a kernel without huge pages";
  ASSERT_EQ(::ftruncate(huge.get(), 2 << 20), 0);
  ASSERT_EQ(::fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(check_segment(huge.get()).error().code, Errc::kMalformed);
  EXPECT_EQ(adopt_segment(huge.get(), 2 << 20).error().code, Errc::kMalformed);
}

// Pages of a new buffer exist before they are touched, and the buffer can be used.
bool blank_is_reserved() {
  const FileDescriptor blank = std::move(broker::make_blank().value());
  const auto mapping = map_blank(blank.get(), 8192);
  struct stat status {};
  return mapping && ::fstat(blank.get(), &status) == 0 && status.st_blocks != 0;
}

TEST(ShmSegment, OnlyUnderStrictOvercommitABlankIsReserved) {
  EXPECT_EQ(blank_is_reserved(), strict_overcommit());
}

// Ends the process: 0 when the answer for that mode of the kernel is right. Only this process sees
// the mode: a file is mounted over that of the kernel.
constexpr int kMayNotMount = 77;
[[noreturn]] void check_overcommit(char mode, bool strict) {
  std::string path = testing::TempDir() + "overcommit-XXXXXX";
  const FileDescriptor file(::mkstemp(path.data()));
  const bool mounted =
      ::write(file.get(), &mode, 1) == 1 && ::unshare(CLONE_NEWNS) == 0 &&
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount(path.c_str(), "/proc/sys/vm/overcommit_memory", nullptr, MS_BIND, nullptr) == 0;
  ::unlink(path.c_str());
  if (!mounted) ::_exit(kMayNotMount);
  ::_exit(strict_overcommit() == strict && blank_is_reserved() == strict ? 0 : 1);
}

// The mode is read once in a process, so each has a process of its own.
TEST(ShmSegment, OnlyModeTwoIsStrictOvercommit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  bool mounted = true;
  const auto is_right = [&](int status) {
    mounted = mounted && !(WIFEXITED(status) && WEXITSTATUS(status) == kMayNotMount);
    return !mounted || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  };
  EXPECT_EXIT(check_overcommit('0', false), is_right, "");
  EXPECT_EXIT(check_overcommit('1', false), is_right, "");
  EXPECT_EXIT(check_overcommit('2', true), is_right, "");
  if (!mounted) GTEST_SKIP() << "only root can mount a file over that of the kernel";
}

TEST(ShmSegment, LackOfDescriptorsIsAnError) {
  const auto refused = [] {
    const DescriptorLimit none(0);
    return broker::make_memory("test", 4096);
  }();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
}

}  // namespace
}  // namespace fairlead::rdma::shm
