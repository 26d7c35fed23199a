// What other users of the machine do. Only root can act as they.
#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace fairlead::rdma::shm {

inline constexpr uid_t kUser = 65534, kStranger = 65533;

// As a thread that has another effective user.
inline void as_user(uid_t user, const std::function<void()>& act) {
  std::thread([&] {
    // The raw system call changes this thread alone.
    ASSERT_EQ(::syscall(SYS_setresuid, -1, user, -1), 0);
    act();
  }).join();
}

}  // namespace fairlead::rdma::shm
