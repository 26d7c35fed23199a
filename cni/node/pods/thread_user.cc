#include "cni/node/pods/thread_user.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <random>

namespace fairlead::cni::node {

Result<std::uint32_t> take_thread_user() {
  std::random_device random;
  const auto user = std::uniform_int_distribution(kThreadUserMin, kThreadUserMax)(random);
  constexpr long kKeep = -1;
  // setresuid() of the C library would change all threads of the process.
  if (::syscall(SYS_setresuid, static_cast<long>(user), kKeep, kKeep) == 0) return user;
  if (errno == EINVAL) return Error{Errc::kUnsupported, "setresuid", errno};
  return system_error("setresuid", errno);
}

}  // namespace fairlead::cni::node
