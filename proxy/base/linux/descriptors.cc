#include "base/linux/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <ctime>
#include <optional>

#include "base/linux/handle.h"

namespace fairlead {

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

void make_room_for_descriptors(std::size_t count) noexcept {
  rlimit limit{};
  if (count == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == 0) return;
  const rlim_t last = std::min<rlim_t>({count, limit.rlim_cur, INT_MAX}) - 1;
  const FileDescriptor any(::open("/", O_PATH | O_CLOEXEC));
  // The table keeps its size when the copy is closed.
  const FileDescriptor highest(::fcntl(any.get(), F_DUPFD_CLOEXEC, static_cast<int>(last)));
}

namespace {

// The limit is asked for with every new descriptor. For descriptors that were asked about before,
// an answer of this age will do; for each higher one the kernel is asked again.
constexpr std::int64_t kLimitAgeMaxNanoseconds = 100'000'000;

std::int64_t coarse_nanoseconds() noexcept {
  timespec now{};
  if (::clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0) return INT64_MAX;
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The soft limit, or nothing where it cannot be read.
std::optional<rlim_t> recent_limit(int fd) noexcept {
  thread_local std::optional<rlim_t> known;
  thread_local std::int64_t known_at = 0;
  thread_local int known_up_to = -1;
  const std::int64_t now = coarse_nanoseconds();
  const bool is_recent = now - known_at < kLimitAgeMaxNanoseconds;
  if (known && is_recent && fd <= known_up_to) return known;
  known_up_to = is_recent ? std::max(fd, known_up_to) : fd;
  rlimit limit{};
  known.reset();
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) known = limit.rlim_cur;
  known_at = now;
  return known;
}

bool scarce_within(std::optional<rlim_t> limit, int fd, DescriptorUse use) noexcept {
  if (!limit) return false;
  const rlim_t once = std::min<rlim_t>(kDescriptorsKept, *limit / 8);
  const rlim_t kept = use == DescriptorUse::kNew ? 2 * once : once;
  return static_cast<rlim_t>(fd) >= *limit - kept;
}

}  // namespace

bool descriptors_scarce(int fd, DescriptorUse use) noexcept {
  rlimit limit{};
  if (fd < 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  return scarce_within(limit.rlim_cur, fd, use);
}

bool descriptors_scarce_lately(int fd, DescriptorUse use) noexcept {
  return fd >= 0 && scarce_within(recent_limit(fd), fd, use);
}

}  // namespace fairlead
