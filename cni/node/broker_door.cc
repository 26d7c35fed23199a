#include "cni/node/broker_door.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/unix_address.h"
#include "cni/netns.h"

namespace fairlead::cni::node {

// Sockets belong to the network namespace in which they were made.
Result<FileDescriptor> listen_in(const WatchedPod& pod, const std::string& name) {
  const auto address = unix_name(name);
  if (!address) return Error{Errc::kUnsupported, "name of the broker's socket"};
  const Netns netns = SMC_TRY(Netns::open(pod.netns));
  if (netns.identity() != pod.identity) return Error{Errc::kNotFound, "network namespace"};
  const NetnsVisit visit = SMC_TRY(NetnsVisit::enter(netns));
  FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  if (::bind(fd.get(), address->get(), address->length_bytes) != 0)
    return system_error("bind", errno);
  if (::listen(fd.get(), kDoorBacklog) != 0) return system_error("listen", errno);
  return fd;
}

Result<FileDescriptor> accept_sidecar(int listener, std::uint32_t uid) {
  FileDescriptor fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && errno == ECONNABORTED) return Error{Errc::kWouldBlock, "accept"};
  if (!fd) return system_error("accept", errno);
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != uid)
    return Error{Errc::kPermission, "another user than the sidecar's"};
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &kMemberQueueBytes, sizeof kMemberQueueBytes) !=
      0)
    return system_error("setsockopt", errno);
  return fd;
}

}  // namespace fairlead::cni::node
