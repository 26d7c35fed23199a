#include "rdma/shm/channel/shm_bell.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/linux/cpu_time.h"
#include "rdma/shm/shm_limits.h"

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

Result<ChannelBell> ChannelBell::adopt(ForeignDescriptor ring, ForeignDescriptor watch) {
  if (!is_bell(ring.get()) || !is_bell(watch.get()))
    return Error{Errc::kMalformed, "bell that is no socket"};
  return ChannelBell(std::move(ring), std::move(watch));
}

// The time that passed is nearly free to ask for, but may be that of others. So only after a long
// one the next is measured.
Duration ChannelBell::ring() {
  if (!ring_) return {};
  const bool measured = measured_;
  const Duration used_before = measured ? thread_cpu_time() : Duration::zero();
  const auto begun = std::chrono::steady_clock::now();
  (void)::shutdown(ring_.get(), SHUT_RDWR);
  measured_ = std::chrono::steady_clock::now() - begun > kRingTimeFree;
  if (!measured || !measured_) return {};
  const Duration used = thread_cpu_time() - used_before;
  return used > kRingTimeFree ? used : Duration::zero();
}

// close(2) of the peer's end wakes us before it frees the byte, which SIOCOUTQ still counts then.
// No further event follows. But the kernel has stored ECONNRESET before it wakes, because of the
// byte.
bool ChannelBell::peer_alive() {
  if (peer_gone_ || !watch_) return false;
  int unread = 0, error = 0;
  socklen_t length = sizeof error;
  peer_gone_ = ::ioctl(watch_.get(), SIOCOUTQ, &unread) != 0 || unread == 0 ||
               ::getsockopt(watch_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0;
  return !peer_gone_;
}

}  // namespace fairlead::rdma::shm
