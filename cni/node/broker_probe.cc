#include "cni/node/broker_probe.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/unix_address.h"
#include "cni/netns.h"

namespace fairlead::cni::node {

// Sockets belong to the network namespace in which they were created.
Result<FileDescriptor> make_probe(const WatchedPod& pod) {
  const Netns netns = SMC_TRY(Netns::open(pod.netns));
  if (netns.identity() != pod.identity) return Error{Errc::kNotFound, "network namespace"};
  const NetnsVisit visit = SMC_TRY(NetnsVisit::enter(netns));
  FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  if (::shutdown(fd.get(), SHUT_RD) != 0) return system_error("shutdown", errno);
  return fd;
}

Result<void> connect_device(int probe, const std::string& name, unsigned index, std::uint32_t uid) {
  const auto address = unix_name(name + "-" + std::to_string(index));
  if (!address) return Error{Errc::kUnsupported, "name of a device's socket"};
  if (::connect(probe, address->get(), address->length_bytes) != 0) {
    if (errno == ECONNREFUSED) return Error{Errc::kNotFound, "no device listens"};
    return system_error("connect", errno);
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(probe, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != uid)
    return Error{Errc::kPermission, "another user than the sidecar's"};
  return {};
}

}  // namespace fairlead::cni::node
