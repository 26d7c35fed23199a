// Distinguishes a host that is gone from one that only does not read, on a TCP connection that
// waits for an acknowledgement.
//
// TCP_USER_TIMEOUT cannot: since Linux 5.11 it also ends connections whose peer answers every probe
// but keeps its window closed. Here any acknowledgement is a sign of life.
#pragma once

#include <optional>

#include "base/time.h"

namespace fairlead::relay {

struct SessionResources;

// The relevant part of TCP_INFO.
struct TcpWait {
  bool answer_due = false;  // data or a probe is unacknowledged
  Duration since_ack{};     // since the last acknowledgement, of whatever kind
};

// nullopt if `fd` is no TCP socket.
std::optional<TcpWait> read_tcp_wait(int fd);

// Fed at intervals, several within the timeout. One for each connection.
class PeerSilence {
 public:
  // True if an answer has been due at every check for `timeout`, without an acknowledgement.
  bool gone(const TcpWait& seen, TimePoint now, Duration timeout);

 private:
  std::optional<TimePoint> since_;
};

// Checks the stream to the network while the session is in frames or TCP.
class PeerLiveness {
 public:
  // Starts checking, unless tcp.user_timeout is 0 or the stream has no descriptor.
  void watch(SessionResources& session);
  // Called when kLiveness has passed. When gone() becomes true, the session is made ready once.
  void check(SessionResources& session, TimePoint now);
  bool gone() const { return gone_; }

 private:
  PeerSilence silence_;
  bool gone_ = false;
};

}  // namespace fairlead::relay
