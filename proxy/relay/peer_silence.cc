#include "relay/peer_silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace fairlead::relay {

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

}  // namespace fairlead::relay
