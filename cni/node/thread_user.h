// A real user id of a thread's own, so that the kernel counts what the thread has in flight apart
// from what others have.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace fairlead::cni::node {

// Above the largest user id that Kubernetes accepts for a container, so that no pod asks for it.
inline constexpr std::uint32_t kThreadUserMin = 0x8000'0000u;
inline constexpr std::uint32_t kThreadUserMax = 0xFFFF'FFFDu;

// Gives the calling thread, and threads that it starts, a random real user id of that range. The
// effective and the saved id stay, and with them capabilities, access to files and SO_PEERCRED.
// Other threads of the process keep theirs. Errors: kPermission without CAP_SETUID, kUnsupported
// where a user namespace does not map the id, others.
Result<std::uint32_t> take_thread_user();

}  // namespace fairlead::cni::node
