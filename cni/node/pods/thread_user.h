// A separate real user id for a thread, so that the kernel counts the thread's descriptors in
// flight separately from those of others.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace fairlead::cni::node {

// Above the largest user id that Kubernetes accepts for a container, so that no pod can request it.
inline constexpr std::uint32_t kThreadUserMin = 0x8000'0000u;
inline constexpr std::uint32_t kThreadUserMax = 0xFFFF'FFFDu;

// Gives the calling thread, and threads that it starts, a random real user id of that range. The
// effective and the saved id stay, and with them capabilities, access to files and SO_PEERCRED.
// Other threads of the process keep their ids. Errors: kPermission without CAP_SETUID, kUnsupported
// if a user namespace does not map the id, others.
Result<std::uint32_t> take_thread_user();

}  // namespace fairlead::cni::node
