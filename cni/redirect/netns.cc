#include "cni/redirect/netns.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace fairlead::cni {

Result<Netns> Netns::open(const std::string& path) {
  // A path to a pipe must not block the process.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_error("network namespace", errno);
  struct statfs where {};
  if (::fstatfs(fd.get(), &where) != 0) return system_error("network namespace", errno);
  if (where.f_type != NSFS_MAGIC || ::ioctl(fd.get(), NS_GET_NSTYPE) != CLONE_NEWNET)
    return Error{Errc::kMalformed, "not a network namespace"};
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_error("network namespace", errno);
  return Netns(std::move(fd), {status.st_dev, status.st_ino});
}

Result<NetnsVisit> NetnsVisit::enter(const Netns& netns) {
  FileDescriptor home(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  struct stat own {};
  if (!home || ::fstat(home.get(), &own) != 0) return system_error("own network namespace", errno);
  if (netns.identity_ == NetnsIdentity{own.st_dev, own.st_ino}) return NetnsVisit({});
  if (::setns(netns.fd_.get(), CLONE_NEWNET) != 0)
    return system_error("entering the network namespace", errno);
  return NetnsVisit(std::move(home));
}

NetnsVisit::~NetnsVisit() {
  if (!home_) return;
  // Continuing in a pod's namespace as if it were the node's would be worse than ending.
  SMC_ASSERT(::setns(home_.get(), CLONE_NEWNET) == 0, errno);
}

}  // namespace fairlead::cni
