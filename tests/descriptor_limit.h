// A process that has few descriptors left, or none, for as long as this lives.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/linux/descriptors.h"
#include "base/linux/handle.h"

namespace fairlead::rdma::shm {

// False when the process may not have that many.
inline bool make_room_for(rlim_t count) {
  raise_descriptor_limit();
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= count;
}

class DescriptorLimit {
 public:
  static constexpr rlim_t kNone = RLIM_INFINITY;

  // The number that the next descriptor has, or kNone. All below are in use.
  static rlim_t next() {
    const FileDescriptor fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return fd ? static_cast<rlim_t>(fd.get()) : kNone;
  }
  // No number is left, unless something is closed.
  static rlim_t used_up() { return next(); }

  // No descriptor of this number or beyond can be opened. Those that are open stay.
  explicit DescriptorLimit(rlim_t limit) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit now = before_;
    now.rlim_cur = limit;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace fairlead::rdma::shm
