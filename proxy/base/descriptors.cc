#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>

#include "base/handle.h"

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

bool descriptors_scarce(int fd, DescriptorUse use) noexcept {
  rlimit limit{};
  if (fd < 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t once = std::min<rlim_t>(kDescriptorsKept, limit.rlim_cur / 8);
  const rlim_t kept = use == DescriptorUse::kNew ? 2 * once : once;
  return static_cast<rlim_t>(fd) >= limit.rlim_cur - kept;
}

}  // namespace fairlead
