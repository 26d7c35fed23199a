#include "cni/node/pods/sidecar_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/linux/peer_credentials.h"
#include "base/linux/unix_socket.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {

// Sockets belong to the network namespace in which they were created.
Result<FileDescriptor> make_socket_in(const WatchedPod& pod, Hears hears, int type) {
  const Netns netns = SMC_TRY(Netns::open(pod.netns));
  if (netns.identity() != pod.identity) return Error{Errc::kNotFound, "network namespace"};
  const NetnsVisit visit = SMC_TRY(NetnsVisit::enter(netns));
  FileDescriptor fd = SMC_TRY(make_unix_socket(type));
  if (hears == Hears::kNothing && ::shutdown(fd.get(), SHUT_RD) != 0)
    return system_error("shutdown", errno);
  return fd;
}

Result<void> connect_to_sidecar(int socket, const std::string& name,
                                std::optional<std::uint32_t> uid) {
  const auto address = UnixAddress::parse(name);
  if (!address) return Error{Errc::kUnsupported, "name of a sidecar's socket"};
  if (::connect(socket, address->data(), address->size()) != 0) {
    if (errno == ECONNREFUSED) return Error{Errc::kNotFound, "no sidecar listens", errno};
    return system_error("connect to the sidecar", errno);
  }
  if (uid && !is_peer_of_user(socket, *uid))
    return Error{Errc::kPermission, "another user than the sidecar's listens"};
  return {};
}

}  // namespace fairlead::cni::node
