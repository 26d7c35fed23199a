#include "base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace fairlead {

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

bool descriptors_scarce(int fd, DescriptorUse use) noexcept {
  rlimit limit{};
  if (fd < 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t once = std::min<rlim_t>(kDescriptorsKept, limit.rlim_cur / 8);
  const rlim_t kept = use == DescriptorUse::kNew ? 2 * once : once;
  return static_cast<rlim_t>(fd) >= limit.rlim_cur - kept;
}

}  // namespace fairlead
