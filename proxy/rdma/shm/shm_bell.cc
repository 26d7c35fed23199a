#include "rdma/shm/shm_bell.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace fairlead::rdma::shm {
namespace {

bool is_bell(int fd) {
  int domain = 0, type = 0;
  socklen_t length = sizeof domain;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return false;
  length = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0) return false;
  return domain == AF_UNIX && type == SOCK_SEQPACKET;
}

}  // namespace

Result<ChannelBell> ChannelBell::adopt(FileDescriptor ring, FileDescriptor watch) {
  if (!is_bell(ring.get()) || !is_bell(watch.get()))
    return Error{Errc::kMalformed, "bell that is no socket"};
  return ChannelBell(std::move(ring), std::move(watch));
}

void ChannelBell::ring() const {
  if (ring_) (void)::shutdown(ring_.get(), SHUT_RDWR);
}

bool ChannelBell::peer_alive() const {
  int unread = 0;
  return watch_ && ::ioctl(watch_.get(), SIOCOUTQ, &unread) == 0 && unread != 0;
}

}  // namespace fairlead::rdma::shm
