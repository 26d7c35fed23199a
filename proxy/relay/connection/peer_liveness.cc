#include "relay/connection/peer_liveness.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "relay/connection/session_resources.h"

namespace fairlead::relay {
namespace {

constexpr int kChecksPerTimeout = 4;

}  // namespace

std::optional<TcpWait> read_tcp_wait(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (fd < 0 || ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return TcpWait{.answer_due = info.tcpi_unacked != 0 || info.tcpi_probes != 0,
                 .since_ack = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

bool PeerSilence::gone(const TcpWait& seen, TimePoint now, Duration timeout) {
  if (!seen.answer_due) {
    since_.reset();
    return false;
  }
  if (!since_ || seen.since_ack < now - *since_) since_ = now;
  return now - *since_ >= timeout;
}

void PeerLiveness::watch(SessionResources& session) {
  const Duration timeout = session.services.config.tcp.user_timeout;
  if (timeout == Duration::zero() || session.net->descriptor() < 0) return;
  session.deadlines.set(DeadlineKind::kLiveness, session.now() + timeout / kChecksPerTimeout);
}

void PeerLiveness::check(SessionResources& session, TimePoint now) {
  const Duration timeout = session.services.config.tcp.user_timeout;
  const std::optional<TcpWait> seen = read_tcp_wait(session.net->descriptor());
  gone_ = seen && silence_.gone(*seen, now, timeout);
  if (gone_) return session.mark_ready();
  session.deadlines.set(DeadlineKind::kLiveness, now + timeout / kChecksPerTimeout);
}

}  // namespace fairlead::relay
